/* Paged attention: keys and values are put into their blocks, then each token looks back over its table. */

#pragma once

#include "tokens.h"

static void rotate(float *head, const float *cosine, const float *sine, int64_t half) {
    for (int64_t i = 0; i < half; i++) {
        float low = head[i], high = head[half + i];
        head[i] = low * cosine[i] - high * sine[i];
        head[half + i] = high * cosine[i] + low * sine[i];
    }
}

/* Norm and rotate this token's queries and keys in place, then put key and value where the ledger says. */
static void place(const Op *op, const Batch *batch, int64_t token) {
    int64_t size = batch->size, bt = batch->block_tokens, position = batch->positions[token];
    float *query = (float *)op->in + token * op->in_stride, *key = query + batch->heads * size;
    const float *value = key + batch->kv_heads * size;
    for (int64_t h = 0; h < batch->heads + batch->kv_heads; h++) {
        const float *norm = h < batch->heads ? op->query_norm : op->key_norm;
        if (norm) rms_norm(query + h * size, query + h * size, norm, size, op->eps);
        if (op->cosine)
            rotate(query + h * size, op->cosine + position * (size / 2), op->sine + position * (size / 2), size / 2);
    }
    int64_t slot = batch->slots[token], block = slot / bt, offset = slot % bt;
    for (int64_t h = 0; h < batch->kv_heads; h++) {
        float *keys = op->keys + (block * batch->kv_heads + h) * size * bt + offset;
        float *values = op->values + ((block * batch->kv_heads + h) * bt + offset) * size;
        for (int64_t i = 0; i < size; i++) keys[i * bt] = key[h * size + i];
        memcpy(values, value + h * size, size * sizeof(float));
    }
}

/* Q queries against one block of keys, 16 (else 8) positions at a time; meanwhile the block after it is sent for. */
#define SCORE(Q)                                                                                                       \
    static void score_##Q(const float *const *query, int64_t size, const float *keys, const float *next, int64_t bt,   \
                          float *const *out) {                                                                         \
        int64_t at = 0;                                                                                                \
        for (; at + 16 <= bt; at += 16) SCORE_AT(Q, vw, 16 / WIDE, WIDE, wide_)                                        \
        for (; at < bt; at += 8) SCORE_AT(Q, v8, 1, 8, )                                                               \
    }
#define SCORE_AT(Q, VECTOR, W, LANES, PREFIX)                                                                          \
    {                                                                                                                  \
        VECTOR sum[Q][W];                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) sum[q][c] = (VECTOR){0};                               \
        for (int64_t i = 0; i < size; i++) {                                                                           \
            VECTOR key[W];                                                                                             \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) key[c] = PREFIX##load(keys + i * bt + at + LANES * c); \
            __builtin_prefetch(next + i * bt + at);                                                                    \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                      \
                VECTOR x = PREFIX##all(query[q][i]);                                                                   \
                _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) sum[q][c] = PREFIX##madd(key[c], x, sum[q][c]);    \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) PREFIX##store(out[q] + at + LANES * c, sum[q][c]);     \
    }
SCORE(1) SCORE(2) SCORE(4)

/* Scores to weights: scaled, capped, masked to [begin, end), exponentiated. Returns what they sum to. */
static float soften(const Op *op, float *scores, int64_t first, int64_t begin, int64_t end, int64_t padded) {
    v8 most = all(-INFINITY), sum = {0};
    const v8 lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int64_t i = 0; i < padded; i += 8) {
        v8 value = load(scores + i) * op->scale;
        if (op->softcap != 0.0f) value = hyperbolic_tangent(value / op->softcap) * op->softcap;
        if (first + i < begin || first + i + 8 > end) {
            v8 at = lanes + (float)(first + i);
            i8 seen = (at >= all((float)begin)) & (at < all((float)end));
            value = (v8)(((i8)value & seen) | ((i8)all(-INFINITY) & ~seen));
        }
        store(scores + i, value);
        most = larger(most, value);
    }
    float top = most[0];
    for (int lane = 1; lane < 8; lane++) top = most[lane] > top ? most[lane] : top;
    for (int64_t i = 0; i < padded; i += 8) {
        v8 weight = exponential(load(scores + i) - top);
        store(scores + i, weight);
        sum += weight;
    }
    return total(sum);
}

/* Add one block of values, weighted, to the answers of Q queries; 32 numbers (else 8) of each at a time. */
#define MIX(Q, NUMBERS, VECTOR, LANES, PREFIX)                                                                         \
    static void mix_##Q##_##NUMBERS(float *const *weights, const float *values, int64_t count, int64_t size,           \
                                    int64_t from, float *const *out) {                                                 \
        VECTOR sum[Q][NUMBERS / LANES];                                                                                \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                sum[q][c] = PREFIX##load(out[q] + from + LANES * c);                                                   \
        for (int64_t at = 0; at < count; at++) {                                                                       \
            VECTOR value[NUMBERS / LANES];                                                                             \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                value[c] = PREFIX##load(values + at * size + from + LANES * c);                                        \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                      \
                VECTOR weight = PREFIX##all(weights[q][at]);                                                           \
                _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                      \
                    sum[q][c] = PREFIX##madd(weight, value[c], sum[q][c]);                                             \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                PREFIX##store(out[q] + from + LANES * c, sum[q][c]);                                                   \
    }
MIX(1, 8, v8, 8, ) MIX(2, 8, v8, 8, )
MIX(1, 32, vw, WIDE, wide_) MIX(2, 32, vw, WIDE, wide_)

#define MIX_ALL(Q)                                                                                                     \
    static void mix_##Q(float *const *weights, const float *values, int64_t count, int64_t size, float *const *out) {  \
        int64_t from = 0;                                                                                              \
        for (; from + 32 <= size; from += 32) mix_##Q##_32(weights, values, count, size, from, out);                    \
        for (; from < size; from += 8) mix_##Q##_8(weights, values, count, size, from, out);                           \
    }
MIX_ALL(1) MIX_ALL(2)

#define TALL 4      /* tokens of one prompt that share each look at a block */
#define MOST_QUERIES 256

/* What some tokens of one row ask of kv heads `head` to `heads_end`: blocks outside, heads inside, as they lie. */
typedef struct {
    int64_t token, tokens, head, heads_end, queries; /* queries: of one kv head, of all tokens */
    int64_t first_block, last_block, stride;
    const int32_t *table;
    const float *query[MOST_QUERIES];
    float *scores[MOST_QUERIES], *out[MOST_QUERIES];
    float sum[MOST_QUERIES];
} Ask;

static int64_t seen_from(const Op *op, int64_t end) { return op->window && end > op->window ? end - op->window : 0; }

static void prepare(const Op *op, const Batch *batch, Ask *ask, float *scratch) {
    int64_t group = batch->heads / batch->kv_heads, bt = batch->block_tokens, size = batch->size;
    ask->first_block = seen_from(op, batch->positions[ask->token] + 1) / bt;
    ask->last_block = batch->positions[ask->token + ask->tokens - 1] / bt;
    ask->stride = (ask->last_block - ask->first_block + 1) * bt;
    ask->table = batch->tables + batch->owners[ask->token] * batch->table_stride;
    ask->queries = group * ask->tokens;
    int64_t at = 0;
    for (int64_t h = ask->head; h < ask->heads_end; h++)
        for (int64_t t = ask->token; t < ask->token + ask->tokens; t++)
            for (int64_t g = h * group; g < (h + 1) * group; g++, at++) {
                ask->query[at] = op->in + t * op->in_stride + g * size;
                ask->out[at] = op->out + t * op->out_stride + g * size;
                ask->scores[at] = scratch + at * ask->stride;
            }
}

static void score(const Op *op, const Batch *batch, const Ask *ask) {
    int64_t bt = batch->block_tokens, size = batch->size;
    for (int64_t b = ask->first_block; b <= ask->last_block; b++)
        for (int64_t h = ask->head; h < ask->heads_end; h++) {
            const float *keys = op->keys + (ask->table[b] * batch->kv_heads + h) * size * bt;
            const float *const *query = ask->query + (h - ask->head) * ask->queries;
            const float *next = op->keys + (ask->table[b + (b < ask->last_block)] * batch->kv_heads + h) * size * bt;
            float *const *scores = ask->scores + (h - ask->head) * ask->queries;
            int64_t shift = (b - ask->first_block) * bt;
            for (int64_t q = 0; q < ask->queries;) {
                float *out[4];
                int64_t left = ask->queries - q, now = left >= 4 ? 4 : left >= 2 ? 2 : 1;
                for (int64_t i = 0; i < now; i++) out[i] = scores[q + i] + shift;
                (now == 4 ? score_4 : now == 2 ? score_2 : score_1)(query + q, size, keys, next, bt, out);
                q += now;
            }
        }
}

/* Stops where the last token stops: what lies beyond may be another sequence's, and 0 times NaN is NaN. */
static void mix(const Op *op, const Batch *batch, const Ask *ask) {
    int64_t bt = batch->block_tokens, size = batch->size;
    int64_t end = batch->positions[ask->token + ask->tokens - 1] + 1;
    for (int64_t b = ask->first_block; b <= ask->last_block; b++)
        for (int64_t h = ask->head; h < ask->heads_end; h++) {
            const float *values = op->values + (ask->table[b] * batch->kv_heads + h) * bt * size;
            int64_t base = (h - ask->head) * ask->queries, shift = (b - ask->first_block) * bt;
            int64_t count = end - b * bt < bt ? end - b * bt : bt;
            for (int64_t q = 0; q < ask->queries;) {
                float *weights[2];
                int64_t now = ask->queries - q >= 2 ? 2 : 1;
                for (int64_t i = 0; i < now; i++) weights[i] = ask->scores[base + q + i] + shift;
                (now == 2 ? mix_2 : mix_1)(weights, values, count, size, ask->out + base + q);
                q += now;
            }
        }
}

static void attend(const Op *op, const Batch *batch, Ask *ask, float *scratch) {
    int64_t bt = batch->block_tokens, size = batch->size, group = batch->heads / batch->kv_heads;
    int64_t all_queries = (ask->heads_end - ask->head) * group * ask->tokens;
    prepare(op, batch, ask, scratch);
    score(op, batch, ask);
    for (int64_t q = 0; q < all_queries; q++) {
        int64_t end = batch->positions[ask->token + q / group % ask->tokens] + 1, begin = seen_from(op, end);
        int64_t own = begin / bt - ask->first_block, length = ((end - 1) / bt - begin / bt + 1) * bt;
        float *scores = ask->scores[q];
        memset(scores, 0, own * bt * sizeof(float)); /* what only its neighbours look at */
        memset(scores + own * bt + length, 0, (ask->stride - own * bt - length) * sizeof(float));
        ask->sum[q] = soften(op, scores + own * bt, begin / bt * bt, begin, end, length);
        memset(ask->out[q], 0, size * sizeof(float));
    }
    mix(op, batch, ask);
    for (int64_t q = 0; q < all_queries; q++) {
        v8 inverse = all(1.0f / ask->sum[q]);
        for (int64_t i = 0; i < size; i += 8) store(ask->out[q] + i, load(ask->out[q] + i) * inverse);
    }
}

#ifdef _OPENMP
#include <omp.h>
#define THREAD omp_get_thread_num()
#else
#define THREAD 0
#endif

/* One item is a token to decode with all its heads, or TALL tokens of a prompt, head by head. */
static void attend_from(const Op *op, const Batch *batch, int64_t token, int64_t head, int64_t heads_end) {
    const int64_t *row = batch->starts + batch->owners[token];
    if ((token - row[0]) % TALL) return;
    int64_t left = row[1] - token, tokens = left < TALL ? left : TALL;
    int64_t at_once = tokens > 1 || batch->heads > MOST_QUERIES ? 1 : heads_end - head;
    float *scratch = batch->scores + THREAD * batch->scores_stride;
    for (; head < heads_end; head += at_once) {
        Ask ask; /* the rest is written where it is needed: it is seven kilobytes */
        ask.token = token, ask.tokens = tokens, ask.head = head, ask.heads_end = head + at_once;
        attend(op, batch, &ask, scratch);
    }
}

static void attention(const Op *op, const Batch *batch) {
    int64_t threads = batch->threads, parts = batch->tokens < 2 * threads ? batch->kv_heads : 1;
    int64_t heads = batch->kv_heads / parts;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t token = 0; token < batch->tokens; token++) place(op, batch, token);
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (threads > 1)
    for (int64_t item = 0; item < batch->tokens * parts; item++)
        attend_from(op, batch, item / parts, item % parts * heads, (item % parts + 1) * heads);
}
