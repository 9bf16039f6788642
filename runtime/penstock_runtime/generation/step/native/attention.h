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
    for (int64_t h = 0; h < batch->heads + batch->kv_heads; h++) {
        const float *norm = h < batch->heads ? op->query_norm : op->key_norm;
        float *head = query + h * size;
        if (norm) {
            v8 scale = rms_scale(head, size, op->eps);
            for (int64_t i = 0; i < size; i += 8) store(head + i, load(head + i) * scale * load(norm + i));
        }
        if (op->cosine) rotate(head, op->cosine + position * (size / 2), op->sine + position * (size / 2), size / 2);
    }
    for (int64_t h = 0; h < batch->heads + 2 * batch->kv_heads; h++) make_units(query + h * size, size);
    int64_t slot = batch->slots[token], block = slot / bt, offset = slot % bt;
    for (int64_t h = 0; h < batch->kv_heads; h++) {
        int64_t first = (block * batch->kv_heads + h) * size * bt / UNIT;
        for (int64_t i = 0; i < size / UNIT; i++) op->keys[first + i * bt + offset] = key[h * size + i];
        const float *value = key + (batch->kv_heads + h) * size;
        interleave(op->values + first + offset / UNIT * size, offset % UNIT, value, size);
    }
}

/* Q queries against one block of keys, 16 (else 8) positions at a time; meanwhile the block after it is sent for.
 * `units` are a query's. */
#define SCORE(Q)                                                                                                       \
    static void score_##Q(const float *const *query, int64_t units, const float *keys, const float *next, int64_t bt,  \
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
        for (int64_t i = 0; i < units; i++) {                                                                          \
            VECTOR key[W];                                                                                             \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) key[c] = PREFIX##load(keys + i * bt + at + LANES * c); \
            __builtin_prefetch(next + i * bt + at);                                                                    \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                      \
                VECTOR x = PREFIX##all(query[q][i]);                                                                   \
                _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) sum[q][c] = PREFIX##dot(x, key[c], sum[q][c]);     \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) PREFIX##store(out[q] + at + LANES * c, sum[q][c]);     \
    }
SCORE(1) SCORE(2) SCORE(4)
#if WIDE == 16
SCORE(8)
#define MOST_SCORED 8
#else
#define score_8 score_4
#define MOST_SCORED 4
#endif

/* A vector of scores, the first of position `first`: capped, and masked to [begin, end). */
#define SEEN(VECTOR, INTS, LANES, PREFIX)                                                                              \
    INLINE VECTOR PREFIX##seen(const Op *op, float *scores, int64_t first, int64_t begin, int64_t end) {               \
        VECTOR value = PREFIX##load(scores);                                                                           \
        if (op->softcap != 0.0f) {                                                                                     \
            value = PREFIX##hyperbolic_tangent(value * (op->scale / op->softcap)) * (op->softcap / op->scale);         \
            PREFIX##store(scores, value);                                                                              \
        }                                                                                                              \
        if (first < begin || first + LANES > end) {                                                                    \
            VECTOR at = PREFIX##load(COUNT) + (float)first;                                                            \
            INTS seen = (at >= PREFIX##all((float)begin)) & (at < PREFIX##all((float)end));                            \
            value = (VECTOR)(((INTS)value & seen) | ((INTS)PREFIX##all(-INFINITY) & ~seen));                           \
            PREFIX##store(scores, value);                                                                              \
        }                                                                                                              \
        return value;                                                                                                  \
    }
static const float COUNT[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
SEEN(v8, i8, 8, )
SEEN(vw, iw, WIDE, wide_)

/* Scores to weights: capped, masked, scaled and exponentiated. Returns what they sum to. Weights are written as
 * units, and may lie where scores were read. */
static float soften(const Op *op, float *scores, float *weights, int64_t first, int64_t begin, int64_t end,
                    int64_t padded) {
    int64_t whole = padded / WIDE * WIDE; /* the rest, if there is one, is eight */
    vw highest = wide_all(-INFINITY);
    for (int64_t i = 0; i < whole; i += WIDE)
        highest = wide_larger(highest, wide_seen(op, scores + i, first + i, begin, end));
    float top = wide_largest(highest);
    if (whole < padded) {
        float rest = largest(seen(op, scores + whole, first + whole, begin, end));
        top = rest > top ? rest : top;
    }
    float shift = -top * op->scale;
    v8 sum = {0};
    for (int64_t i = 0; i < whole; i += WIDE) {
        vw weight = wide_exponential(wide_madd(wide_load(scores + i), wide_all(op->scale), wide_all(shift)));
        wide_put(weights, i, weight);
        sum = plus(sum, weight);
    }
    if (whole < padded) {
        v8 weight = exponential(madd(load(scores + whole), all(op->scale), all(shift)));
        put(weights, whole, weight);
        sum += weight;
    }
    return total(sum);
}

/* Add one block of values, weighted, to the answers of Q queries; 32 numbers (else 8) of each at a time. Meanwhile the
 * block after it is sent for. */
#define MIX(Q, NUMBERS, VECTOR, LANES, PREFIX)                                                                         \
    static void mix_##Q##_##NUMBERS(const float *const *weights, const float *values, const float *next,               \
                                    int64_t count, int64_t size, int64_t from, float *const *out) {                    \
        VECTOR sum[Q][NUMBERS / LANES];                                                                                \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                sum[q][c] = PREFIX##load(out[q] + from + LANES * c);                                                   \
        for (int64_t at = 0; at < count / UNIT; at++) MIX_AT(Q, NUMBERS, VECTOR, LANES, PREFIX, )                      \
        if (count % UNIT) {                                                                                            \
            int64_t at = count / UNIT;                                                                                 \
            MIX_AT(Q, NUMBERS, VECTOR, LANES, PREFIX, PREFIX##first_alone)                                             \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                PREFIX##store(out[q] + from + LANES * c, sum[q][c]);                                                   \
    }
#define MIX_AT(Q, NUMBERS, VECTOR, LANES, PREFIX, SEEN)                                                                \
    {                                                                                                                  \
        VECTOR value[NUMBERS / LANES];                                                                                 \
        _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                              \
            value[c] = SEEN(PREFIX##load(values + at * size + from + LANES * c));                                      \
        _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS; c += 16)                                                  \
            __builtin_prefetch(next + at * size + from + c);                                                           \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                          \
            VECTOR weight = PREFIX##all(weights[q][at]);                                                               \
            _Pragma("GCC unroll 8") for (int c = 0; c < NUMBERS / LANES; c++)                                          \
                sum[q][c] = PREFIX##dot(weight, value[c], sum[q][c]);                                                  \
        }                                                                                                              \
    }
#define MIX_ALL(Q)                                                                                                     \
    MIX(Q, 8, v8, 8, )                                                                                                 \
    MIX(Q, 32, vw, WIDE, wide_)                                                                                        \
    static void mix_##Q(const float *const *weights, const float *values, const float *next, int64_t count,            \
                        int64_t size, float *const *out) {                                                             \
        int64_t from = 0;                                                                                              \
        for (; from + 32 <= size; from += 32) mix_##Q##_32(weights, values, next, count, size, from, out);             \
        for (; from < size; from += 8) mix_##Q##_8(weights, values, next, count, size, from, out);                     \
    }
MIX_ALL(1) MIX_ALL(2)
#if WIDE == 16
MIX_ALL(4) MIX_ALL(8)
#define MOST_MIXED 8
#else
#define mix_4 mix_2
#define mix_8 mix_2
#define MOST_MIXED 2
#endif

#define TALL 4      /* tokens of one prompt that share each look at a block */
#define MOST_QUERIES 256

/* What some tokens of one row ask of kv heads `head` to `heads_end`: blocks outside, heads inside, as they lie. */
typedef struct {
    int64_t token, tokens, head, heads_end, queries; /* queries: of one kv head, of all tokens */
    int64_t first_block, last_block, stride;
    const int32_t *table;
    const float *query[MOST_QUERIES];
    float *scores[MOST_QUERIES], *out[MOST_QUERIES]; /* of this thread alone; what is told is told once, at the end */
    float sum[MOST_QUERIES];
} Ask;

/* How many of `left` queries go next. */
INLINE int64_t now_of(int64_t left, int64_t most) {
    int64_t now = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
    return now < most ? now : most;
}

static int64_t seen_from(const Op *op, int64_t end) { return op->window && end > op->window ? end - op->window : 0; }

static void prepare(const Op *op, const Batch *batch, Ask *ask, float *scratch) {
    int64_t group = batch->heads / batch->kv_heads, bt = batch->block_tokens, size = batch->size;
    ask->first_block = seen_from(op, batch->positions[ask->token] + 1) / bt;
    ask->last_block = batch->positions[ask->token + ask->tokens - 1] / bt;
    ask->stride = (ask->last_block - ask->first_block + 1) * bt;
    ask->table = batch->tables + batch->owners[ask->token] * batch->table_stride;
    ask->queries = group * ask->tokens;
    int64_t at = 0;
    float *scores = scratch + (ask->heads_end - ask->head) * ask->queries * size;
    for (int64_t h = ask->head; h < ask->heads_end; h++)
        for (int64_t t = ask->token; t < ask->token + ask->tokens; t++)
            for (int64_t g = h * group; g < (h + 1) * group; g++, at++) {
                ask->query[at] = op->in + t * op->in_stride + g * size;
                ask->out[at] = scratch + at * size;
                ask->scores[at] = scores + at * ask->stride;
            }
}

static void score(const Op *op, const Batch *batch, const Ask *ask) {
    int64_t bt = batch->block_tokens, size = batch->size;
    for (int64_t b = ask->first_block; b <= ask->last_block; b++)
        for (int64_t h = ask->head; h < ask->heads_end; h++) {
            const float *keys = op->keys + (ask->table[b] * batch->kv_heads + h) * size * bt / UNIT;
            const float *const *query = ask->query + (h - ask->head) * ask->queries;
            int64_t after = ask->table[b + (b < ask->last_block)];
            const float *next = op->keys + (after * batch->kv_heads + h) * size * bt / UNIT;
            float *const *scores = ask->scores + (h - ask->head) * ask->queries;
            int64_t shift = (b - ask->first_block) * bt;
            for (int64_t q = 0; q < ask->queries;) {
                float *out[8];
                int64_t now = now_of(ask->queries - q, MOST_SCORED);
                for (int64_t i = 0; i < now; i++) out[i] = scores[q + i] + shift;
                (now == 8 ? score_8 : now == 4 ? score_4 : now == 2 ? score_2 : score_1)(
                    query + q, size / UNIT, keys, next, bt, out);
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
            const float *values = op->values + (ask->table[b] * batch->kv_heads + h) * bt * size / UNIT;
            int64_t after = ask->table[b + (b < ask->last_block)];
            const float *next = op->values + (after * batch->kv_heads + h) * bt * size / UNIT;
            int64_t base = (h - ask->head) * ask->queries, shift = (b - ask->first_block) * bt / UNIT;
            int64_t count = end - b * bt < bt ? end - b * bt : bt;
            for (int64_t q = 0; q < ask->queries;) {
                const float *weights[8];
                int64_t now = now_of(ask->queries - q, MOST_MIXED);
                for (int64_t i = 0; i < now; i++) weights[i] = ask->scores[base + q + i] + shift;
                (now == 8 ? mix_8 : now == 4 ? mix_4 : now == 2 ? mix_2 : mix_1)(
                    weights, values, next, count, size, ask->out + base + q);
                q += now;
            }
        }
}

/* Scores of one query to weights, with nought for what only its neighbours look at. */
static float weigh(const Op *op, const Batch *batch, const Ask *ask, int64_t q) {
    int64_t bt = batch->block_tokens, group = batch->heads / batch->kv_heads;
    int64_t end = batch->positions[ask->token + q / group % ask->tokens] + 1, begin = seen_from(op, end);
    int64_t own = (begin / bt - ask->first_block) * bt, length = ((end - 1) / bt - begin / bt + 1) * bt;
    float *scores = ask->scores[q];
    memset(scores, 0, own / UNIT * sizeof(float));
    float sum = soften(op, scores + own, scores + own / UNIT, begin / bt * bt, begin, end, length);
    memset(scores + (own + length) / UNIT, 0, (ask->stride - own - length) / UNIT * sizeof(float));
    return sum;
}

static void attend(const Op *op, const Batch *batch, Ask *ask, float *scratch) {
    int64_t size = batch->size, group = batch->heads / batch->kv_heads;
    prepare(op, batch, ask, scratch);
    int64_t all_queries = (ask->heads_end - ask->head) * ask->queries;
    score(op, batch, ask);
    for (int64_t q = 0; q < all_queries; q++) ask->sum[q] = weigh(op, batch, ask, q);
    memset(scratch, 0, all_queries * size * sizeof(float));
    mix(op, batch, ask);
    for (int64_t q = 0; q < all_queries; q++) {
        float *out = op->out + (ask->token + q / group % ask->tokens) * op->out_stride;
        int64_t head = (ask->head + q / ask->queries) * group + q % group;
        v8 inverse = all(1.0f / ask->sum[q]);
        for (int64_t i = 0; i < size; i += 8) put(out, head * size + i, load(ask->out[q] + i) * inverse);
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
