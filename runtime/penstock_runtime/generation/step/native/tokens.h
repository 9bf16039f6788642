/* What is done to one token at a time. */

#pragma once

#include "units.h"

/* What others multiply is written as units. */
INLINE void give(const Op *op, float *out, int64_t i, v8 value) {
    if (op->as_units) put(out, i, value);
    else store(out + i, value);
}

INLINE v8 rms_scale(const float *in, int64_t n, float eps) {
    v8 squares = {0};
    for (int64_t i = 0; i < n; i += 8) squares += load(in + i) * load(in + i);
    return all(1.0f / sqrtf(total(squares) / (float)n + eps));
}

static void rms_norm(const Op *op, const float *in, float *out) {
    v8 scale = rms_scale(in, op->n, op->eps);
    for (int64_t i = 0; i < op->n; i += 8) give(op, out, i, load(in + i) * scale * load(op->weight + i));
}

static void layer_norm(const Op *op, const float *in, float *out) {
    v8 sum = {0}, squares = {0};
    for (int64_t i = 0; i < op->n; i += 8) sum += load(in + i);
    v8 mean = all(total(sum) / (float)op->n);
    for (int64_t i = 0; i < op->n; i += 8) squares += (load(in + i) - mean) * (load(in + i) - mean);
    v8 scale = all(1.0f / sqrtf(total(squares) / (float)op->n + op->eps));
    for (int64_t i = 0; i < op->n; i += 8) {
        v8 value = (load(in + i) - mean) * scale * load(op->weight + i);
        if (op->bias) value += load(op->bias + i);
        give(op, out, i, value);
    }
}

static void activate(const Op *op, const float *in, float *out) {
    for (int64_t i = 0; i < op->n; i += WIDE) {
        vw x = wide_load(in + i), y;
        switch (op->activation) {
        case SILU: y = x / (1.0f + wide_exponential(-x)); break;
        case GELU_TANH:
            y = 0.5f * x * (1.0f + wide_hyperbolic_tangent(0.7978845608028654f * (x + 0.044715f * x * x * x)));
            break;
        case GELU_ERF:
            for (int lane = 0; lane < WIDE; lane++) y[lane] = 0.5f * x[lane] * (1.0f + erff(x[lane] * 0.70710678f));
            break;
        default: y = wide_larger(x, (vw){0});
        }
        if (op->gated) y *= wide_load(in + op->n + i);
        wide_put(out, i, y);
    }
}

static void embed(const Op *op, const Batch *batch, int64_t token, float *out) {
    const float *row = op->weight + batch->ids[token] * (op->n / UNIT);
    const float *place = op->bias ? op->bias + batch->positions[token] * op->n : 0;
    for (int64_t i = 0; i < op->n; i += 8) {
        v8 value = get(row, i) * op->scale;
        if (place) value += load(place + i);
        store(out + i, value);
    }
}

static void softcap(const Op *op, float *out) {
    for (int64_t i = 0; i < op->n; i += 8) /* rows are padded to whole panels */
        store(out + i, hyperbolic_tangent(load(out + i) / op->softcap) * op->softcap);
}
