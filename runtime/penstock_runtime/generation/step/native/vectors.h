/* What decoder.c is written in: vectors of 8 floats and as wide as registers are, the operations and the batch. */

#pragma once

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
    int32_t as_units, unused;       /* as_units: what is written is to be multiplied (units.h) */
    int64_t n, k;                   /* outputs and inputs of one token */
    int64_t in_stride, out_stride;  /* 32 bits each, between tokens */
    float eps, scale, softcap, padding;
    const float *in;
    float *out;
    const float *weight, *bias;         /* weight: of linear layers and embeddings as units */
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

/* What every lane does alone goes by registers as wide as there are: its width never shows in the bits. */
#ifdef __AVX512F__
#define WIDE 16
typedef float vw __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t iw __attribute__((vector_size(64), aligned(4), may_alias));
INLINE vw wide_madd(vw a, vw b, vw sum) { return (vw)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum); }
INLINE vw wide_all(float x) { return (vw)_mm512_set1_ps(x); }
INLINE v8 low_half(vw x) { return (v8)_mm512_castps512_ps256((__m512)x); }
INLINE v8 high_half(vw x) { return (v8)_mm512_extractf32x8_ps((__m512)x, 1); }
#else
#define WIDE 8
typedef v8 vw;
typedef i8 iw;
INLINE vw wide_madd(vw a, vw b, vw sum) { return madd(a, b, sum); }
INLINE vw wide_all(float x) { return (vw){x, x, x, x, x, x, x, x}; }
#endif
#define PARTS (PANEL / WIDE) /* registers of a panel */
INLINE vw wide_load(const float *from) { return *(const vw *)from; }
INLINE void wide_store(float *to, vw value) { *(vw *)to = value; }

INLINE v8 load(const float *from) { return *(const v8 *)from; }
INLINE void store(float *to, v8 value) { *(v8 *)to = value; }
INLINE v8 all(float x) { return (v8){x, x, x, x, x, x, x, x}; }
INLINE v8 larger(v8 a, v8 b) { i8 mask = a > b; return (v8)(((i8)a & mask) | ((i8)b & ~mask)); }
INLINE v8 smaller(v8 a, v8 b) { i8 mask = a < b; return (v8)(((i8)a & mask) | ((i8)b & ~mask)); }
INLINE vw wide_larger(vw a, vw b) { iw mask = a > b; return (vw)(((iw)a & mask) | ((iw)b & ~mask)); }
INLINE vw wide_smaller(vw a, vw b) { iw mask = a < b; return (vw)(((iw)a & mask) | ((iw)b & ~mask)); }

/* Added as eight lanes whatever the width, so that sums have the same bits. */
INLINE v8 plus(v8 sum, vw value) {
#if WIDE == 16
    return sum + low_half(value) + high_half(value);
#else
    return sum + value;
#endif
}

INLINE float largest(v8 v) {
    float found = v[0];
    for (int lane = 1; lane < 8; lane++) found = v[lane] > found ? v[lane] : found;
    return found;
}

INLINE float wide_largest(vw v) {
#if WIDE == 16
    return largest(larger(low_half(v), high_half(v)));
#else
    return largest(v);
#endif
}

INLINE float total(v8 v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

/* Cephes' expf: 2^n times a polynomial on [-ln2/2, ln2/2]; within 2 units in the last place, 0 below -87. */
#define EXPONENTIAL(V, I, PREFIX)                                                                                      \
    INLINE V PREFIX##exponential(V x) {                                                                                \
        I vanishes = x < PREFIX##all(-87.0f);                                                                          \
        x = PREFIX##larger(PREFIX##smaller(x, PREFIX##all(88.0f)), PREFIX##all(-87.0f));                               \
        V n = PREFIX##madd(x, PREFIX##all(1.44269504088896341f), PREFIX##all(12582912.0f)); /* an integer, low bits */ \
        I power = ((I)n) << 23;                                                                                        \
        n = n - 12582912.0f;                                                                                           \
        V r = PREFIX##madd(n, PREFIX##all(2.12194440e-4f), PREFIX##madd(n, PREFIX##all(-0.693359375f), x));            \
        V p = PREFIX##madd(PREFIX##all(1.9875691500e-4f), r, PREFIX##all(1.3981999507e-3f));                           \
        p = PREFIX##madd(p, r, PREFIX##all(8.3334519073e-3f));                                                         \
        p = PREFIX##madd(p, r, PREFIX##all(4.1665795894e-2f));                                                         \
        p = PREFIX##madd(p, r, PREFIX##all(1.6666665459e-1f));                                                         \
        p = PREFIX##madd(p, r, PREFIX##all(5.0000001201e-1f));                                                         \
        p = PREFIX##madd(p * r, r, r) + 1.0f;                                                                          \
        return (V)(((I)p + power) & ~vanishes);                                                                        \
    }                                                                                                                  \
    INLINE V PREFIX##hyperbolic_tangent(V x) { return 1.0f - 2.0f / (PREFIX##exponential(x * 2.0f) + 1.0f); }
EXPONENTIAL(v8, i8, )
EXPONENTIAL(vw, iw, wide_)
