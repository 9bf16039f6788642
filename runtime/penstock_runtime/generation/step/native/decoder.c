/* One decoder step on CPUs, in float32 or bfloat16: a list of operations over packed rows and a paged cache.
 *
 * Every number of a token depends on that token and its own keys and values alone, and is summed in one fixed
 * order: each output of a linear layer is one chain of multiply-adds over k, each softmax and its weighted
 * sum go by position. So batch mates, chunks, prefix hits and preemption never show in the bits.
 *
 * Weights of a linear layer are packed once as panels of 16 outputs, [outputs / 16][k][16]. A block of keys
 * is [kv head][size][position], of values [kv head][position][size]. In bfloat16 k, a key's size and a value's
 * position go by pairs (units.h), and only what is multiplied is rounded: sums and what is added stay floats.
 */

#include "attention.h"
#include "linear.h"

#ifndef NAMED /* either.c has this file for several processors */
#define NAMED(name) name
#endif
#ifdef BFLOAT16 /* a library has this file in both types */
#define TYPED(name) NAMED(name##_bfloat16)
#else
#define TYPED(name) NAMED(name)
#endif

static void each_token(const Op *op, const Batch *batch, int64_t token) {
    const float *in = op->in + token * op->in_stride;
    float *out = op->out + token * op->out_stride;
    switch (op->kind) {
    case EMBED: embed(op, batch, token, out); break;
    case RMS_NORM: rms_norm(op, in, out); break;
    case LAYER_NORM: layer_norm(op, in, out); break;
    case ACTIVATE: activate(op, in, out); break;
    case ADD:
        for (int64_t i = 0; i < op->n; i += 8) store(out + i, load(out + i) + load(in + i));
        break;
    case PICK: memcpy(out, op->in + batch->picked[token] * op->in_stride, op->n * sizeof(float)); break;
    case SOFTCAP: softcap(op, out); break;
    }
}

void TYPED(penstock_run)(const Op *ops, int64_t count, const Batch *batch) {
    for (const Op *op = ops; op < ops + count; op++) {
        int64_t rows = op->on_picks ? batch->picks : batch->tokens;
        if (op->kind == LINEAR) linear(op, rows, batch->threads);
        else if (op->kind == ATTEND) attention(op, batch);
        else {
#pragma omp parallel for schedule(static) num_threads(batch->threads) if (batch->threads > 1 && rows > 8)
            for (int64_t row = 0; row < rows; row++) each_token(op, batch, row);
        }
    }
}

/* Store and attend alone, for models whose other layers are torch's: `in` is [T][heads + 2 kv][size]. */
void TYPED(penstock_attend)(const Op *op, const Batch *batch) { attention(op, batch); }
