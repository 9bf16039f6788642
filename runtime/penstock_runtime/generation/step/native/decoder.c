/* One decoder step in float32 on CPUs: a list of operations over packed rows and a paged cache.
 *
 * Every number of a token depends on that token and its own keys and values alone, and is summed in one fixed
 * order: each output of a linear layer is one chain of multiply-adds over k, each softmax and its weighted
 * sum go by position. So batch mates, chunks, prefix hits and preemption never show in the bits.
 *
 * Weights of a linear layer are packed once as panels of 16 outputs, [outputs / 16][k][16]. A block of keys
 * is [kv head][size][position], of values [kv head][position][size].
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32), aligned(4), may_alias));

#define PANEL 16
#define INLINE static inline __attribute__((always_inline))

enum Kind { EMBED, RMS_NORM, LAYER_NORM, LINEAR, ATTEND, ACTIVATE, ADD, PICK, SOFTCAP };
enum Activation { SILU, GELU_TANH, GELU_ERF, RELU };

typedef struct {
    int32_t kind, activation, gated, accumulate, on_picks, window;
    int64_t n, k;                   /* outputs and inputs of one token */
    int64_t in_stride, out_stride;  /* floats between tokens */
    float eps, scale, softcap, padding;
    const float *in;
    float *out;
    const float *weight, *bias;
    const float *cosine, *sine;         /* [position][size / 2] */
    const float *query_norm, *key_norm; /* [size], or null */
    float *keys, *values;
} Op;

typedef struct {
    int64_t tokens, picks, table_stride, heads, kv_heads, size, block_tokens, threads, scores_stride;
    const int64_t *ids, *positions, *slots, *starts, *owners, *picked;
    const int32_t *tables;
    float *scores; /* [threads][scores_stride] */
} Batch;

/* One rounding, said aloud: left to itself the compiler fuses in one copy of a loop and not in another. */
#ifdef __FMA__
#include <immintrin.h>
INLINE v8 madd(v8 a, v8 b, v8 sum) { return (v8)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum); }
#else
INLINE v8 madd(v8 a, v8 b, v8 sum) { return a * b + sum; }
#endif

INLINE v8 load(const float *from) { return *(const v8 *)from; }
INLINE void store(float *to, v8 value) { *(v8 *)to = value; }
INLINE v8 all(float x) { return (v8){x, x, x, x, x, x, x, x}; }
INLINE v8 larger(v8 a, v8 b) { i8 mask = a > b; return (v8)(((i8)a & mask) | ((i8)b & ~mask)); }
INLINE v8 smaller(v8 a, v8 b) { i8 mask = a < b; return (v8)(((i8)a & mask) | ((i8)b & ~mask)); }

INLINE float total(v8 v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Cephes' expf: 2^n times a polynomial on [-ln2/2, ln2/2]; within 2 units in the last place, 0 below -87. */
INLINE v8 exponential(v8 x) {
    i8 vanishes = x < all(-87.0f);
    x = larger(smaller(x, all(88.0f)), all(-87.0f));
    v8 n = madd(x, all(1.44269504088896341f), all(12582912.0f)); /* rounds to an integer in the low bits */
    i8 power = ((i8)n) << 23;
    n = n - 12582912.0f;
    v8 r = madd(n, all(2.12194440e-4f), madd(n, all(-0.693359375f), x));
    v8 p = madd(all(1.9875691500e-4f), r, all(1.3981999507e-3f));
    p = madd(p, r, all(8.3334519073e-3f));
    p = madd(p, r, all(4.1665795894e-2f));
    p = madd(p, r, all(1.6666665459e-1f));
    p = madd(p, r, all(5.0000001201e-1f));
    p = madd(p * r, r, r) + 1.0f;
    return (v8)(((i8)p + power) & ~vanishes);
}

INLINE v8 hyperbolic_tangent(v8 x) { return 1.0f - 2.0f / (exponential(x * 2.0f) + 1.0f); }

/* -- linear */

#define TILE(R, P)                                                                                                     \
    static void tile_##R##_##P(const float *in, int64_t in_stride, const float *panel, int64_t k, const float *bias,   \
                               int accumulate, float *out, int64_t out_stride) {                                       \
        v8 sum[R][2 * P];                                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                                                           \
            _Pragma("GCC unroll 16") for (int c = 0; c < 2 * P; c++) sum[r][c] = (v8){0};                              \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            v8 w[2 * P];                                                                                               \
            _Pragma("GCC unroll 16") for (int p = 0; p < P; p++) {                                                     \
                w[2 * p] = load(panel + (p * k + i) * PANEL);                                                          \
                w[2 * p + 1] = load(panel + (p * k + i) * PANEL + 8);                                                  \
            }                                                                                                          \
            _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) {                                                     \
                v8 x = all(in[r * in_stride + i]);                                                                     \
                _Pragma("GCC unroll 16") for (int c = 0; c < 2 * P; c++) sum[r][c] = madd(x, w[c], sum[r][c]);         \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                                                           \
            _Pragma("GCC unroll 16") for (int c = 0; c < 2 * P; c++) {                                                 \
                float *to = out + r * out_stride + 8 * c;                                                              \
                v8 value = sum[r][c];                                                                                  \
                if (bias) value += load(bias + 8 * c);                                                                 \
                if (accumulate) value += load(to);                                                                     \
                store(to, value);                                                                                      \
            }                                                                                                          \
    }

TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 4) TILE(2, 2)

typedef void (*Tile)(const float *, int64_t, const float *, int64_t, const float *, int, float *, int64_t);

static const Tile TILES[7] = {0, tile_1_1, tile_2_1, tile_3_1, tile_4_1, tile_5_1, tile_6_1};

/* How many panels one pass takes: few rows leave registers for more streams of weights. */
static int panels_at_once(int64_t rows, int64_t left) {
    if (rows == 1 && left >= 4) return 4;
    if (rows == 2 && left >= 2) return 2;
    return 1;
}

static void linear(const Op *op, int64_t rows, int64_t threads) {
    int64_t panels = (op->n + PANEL - 1) / PANEL;
    int64_t group = panels_at_once(rows, panels);
    int64_t block = (1 << 16) / op->k / 6 * 6; /* rows of input that stay in the second-level cache */
    if (block < 6) block = 6;
    for (int64_t first = 0; first < rows; first += block) {
        int64_t end = first + block < rows ? first + block : rows;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
        for (int64_t g = 0; g < (panels + group - 1) / group; g++) {
            int64_t left = panels - g * group, here = left < group ? left : group;
            for (int64_t row = first; row < end;) {
                int64_t tall = end - row < 6 ? end - row : 6;
                int64_t step = here == group ? group : 1;
                Tile tile = step == 4 ? tile_1_4 : step == 2 ? tile_2_2 : TILES[tall];
                for (int64_t p = g * group; p < g * group + here; p += step)
                    tile(op->in + row * op->in_stride, op->in_stride, op->weight + p * op->k * PANEL, op->k,
                         op->bias ? op->bias + p * PANEL : 0, op->accumulate,
                         op->out + row * op->out_stride + p * PANEL, op->out_stride);
                row += tall;
            }
        }
    }
}

/* -- one token at a time */

static void rms_norm(const float *in, float *out, const float *weight, int64_t n, float eps) {
    v8 squares = {0};
    for (int64_t i = 0; i < n; i += 8) squares += load(in + i) * load(in + i);
    v8 scale = all(1.0f / sqrtf(total(squares) / (float)n + eps));
    for (int64_t i = 0; i < n; i += 8) store(out + i, load(in + i) * scale * load(weight + i));
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
        store(out + i, value);
    }
}

static void activate(const Op *op, const float *in, float *out) {
    for (int64_t i = 0; i < op->n; i += 8) {
        v8 x = load(in + i), y;
        switch (op->activation) {
        case SILU: y = x / (1.0f + exponential(-x)); break;
        case GELU_TANH:
            y = 0.5f * x * (1.0f + hyperbolic_tangent(0.7978845608028654f * (x + 0.044715f * x * x * x)));
            break;
        case GELU_ERF:
            for (int lane = 0; lane < 8; lane++) y[lane] = 0.5f * x[lane] * (1.0f + erff(x[lane] * 0.70710678f));
            break;
        default: y = larger(x, (v8){0});
        }
        if (op->gated) y *= load(in + op->n + i);
        store(out + i, y);
    }
}

static void embed(const Op *op, const Batch *batch, int64_t token, float *out) {
    const float *row = op->weight + batch->ids[token] * op->n;
    const float *place = op->bias ? op->bias + batch->positions[token] * op->n : 0;
    for (int64_t i = 0; i < op->n; i += 8) {
        v8 value = load(row + i) * op->scale;
        if (place) value += load(place + i);
        store(out + i, value);
    }
}

static void softcap(const Op *op, float *out) {
    for (int64_t i = 0; i < op->n; i += 8) /* rows are padded to whole panels */
        store(out + i, hyperbolic_tangent(load(out + i) / op->softcap) * op->softcap);
}

/* -- attention */

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

/* Q queries against one block of keys, 16 (else 8) positions at a time. */
#define SCORE(Q)                                                                                                       \
    static void score_##Q(const float *const *query, int64_t size, const float *keys, int64_t bt, float *const *out) { \
        int64_t at = 0;                                                                                                \
        for (; at + 16 <= bt; at += 16) {                                                                              \
            v8 low[Q], high[Q];                                                                                        \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) low[q] = high[q] = (v8){0};                            \
            for (int64_t i = 0; i < size; i++) {                                                                       \
                v8 first = load(keys + i * bt + at), second = load(keys + i * bt + at + 8);                            \
                _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                  \
                    v8 x = all(query[q][i]);                                                                           \
                    low[q] = madd(first, x, low[q]);                                                                   \
                    high[q] = madd(second, x, high[q]);                                                                \
                }                                                                                                      \
            }                                                                                                          \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                      \
                store(out[q] + at, low[q]);                                                                            \
                store(out[q] + at + 8, high[q]);                                                                       \
            }                                                                                                          \
        }                                                                                                              \
        for (; at < bt; at += 8) {                                                                                     \
            v8 sum[Q];                                                                                                 \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) sum[q] = (v8){0};                                      \
            for (int64_t i = 0; i < size; i++) {                                                                       \
                v8 key = load(keys + i * bt + at);                                                                     \
                _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) sum[q] = madd(key, all(query[q][i]), sum[q]);      \
            }                                                                                                          \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) store(out[q] + at, sum[q]);                            \
        }                                                                                                              \
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

/* Add one block of values, weighted, to the answers of Q queries; W vectors of 8 at a time. */
#define MIX(Q, W)                                                                                                      \
    static void mix_##Q##_##W(float *const *weights, const float *values, int64_t count, int64_t size, int64_t from,   \
                              float *const *out) {                                                                     \
        v8 sum[Q][W];                                                                                                  \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) sum[q][c] = load(out[q] + from + 8 * c);               \
        for (int64_t at = 0; at < count; at++) {                                                                       \
            v8 value[W];                                                                                               \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) value[c] = load(values + at * size + from + 8 * c);    \
            _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++) {                                                      \
                v8 weight = all(weights[q][at]);                                                                       \
                _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) sum[q][c] = madd(weight, value[c], sum[q][c]);     \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 8") for (int q = 0; q < Q; q++)                                                            \
            _Pragma("GCC unroll 8") for (int c = 0; c < W; c++) store(out[q] + from + 8 * c, sum[q][c]);               \
    }
MIX(1, 1) MIX(2, 1) MIX(1, 4) MIX(2, 4)

#define MIX_ALL(Q)                                                                                                     \
    static void mix_##Q(float *const *weights, const float *values, int64_t count, int64_t size, float *const *out) {  \
        int64_t from = 0;                                                                                              \
        for (; from + 32 <= size; from += 32) mix_##Q##_4(weights, values, count, size, from, out);                    \
        for (; from < size; from += 8) mix_##Q##_1(weights, values, count, size, from, out);                           \
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
            float *const *scores = ask->scores + (h - ask->head) * ask->queries;
            int64_t shift = (b - ask->first_block) * bt;
            for (int64_t q = 0; q < ask->queries;) {
                float *out[4];
                int64_t left = ask->queries - q, now = left >= 4 ? 4 : left >= 2 ? 2 : 1;
                for (int64_t i = 0; i < now; i++) out[i] = scores[q + i] + shift;
                (now == 4 ? score_4 : now == 2 ? score_2 : score_1)(query + q, size, keys, bt, out);
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
        Ask ask = {.token = token, .tokens = tokens, .head = head, .heads_end = head + at_once};
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

static void each_token(const Op *op, const Batch *batch, int64_t token) {
    const float *in = op->in + token * op->in_stride;
    float *out = op->out + token * op->out_stride;
    switch (op->kind) {
    case EMBED: embed(op, batch, token, out); break;
    case RMS_NORM: rms_norm(in, out, op->weight, op->n, op->eps); break;
    case LAYER_NORM: layer_norm(op, in, out); break;
    case ACTIVATE: activate(op, in, out); break;
    case ADD:
        for (int64_t i = 0; i < op->n; i += 8) store(out + i, load(out + i) + load(in + i));
        break;
    case PICK: memcpy(out, op->in + batch->picked[token] * op->in_stride, op->n * sizeof(float)); break;
    case SOFTCAP: softcap(op, out); break;
    }
}

void penstock_run(const Op *ops, int64_t count, const Batch *batch) {
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
void penstock_attend(const Op *op, const Batch *batch) { attention(op, batch); }
