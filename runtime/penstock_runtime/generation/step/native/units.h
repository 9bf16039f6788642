/* What is multiplied: 32 bits at a time, a float or, where decoder.c is compiled for BFLOAT16, a pair of bfloat16.
 *
 * A row of numbers that a linear layer or attention will multiply lies as units, close together from where the row
 * begins; all else is floats. Pointers to units are pointers to float: only what is here looks inside of them.
 */

#pragma once

#include "vectors.h"

#ifdef BFLOAT16
#define UNIT 2 /* numbers */

#define LOW(x) ((x) << 16)
#define HIGH(x) ((x) & (int32_t)0xffff0000)
#define WIDENED(V, I, MADD) return MADD((V)HIGH((I)x), (V)HIGH((I)w), MADD((V)LOW((I)x), (V)LOW((I)w), sum));

#ifdef __AVX512BF16__
INLINE v8 dot(v8 x, v8 w, v8 sum) { return (v8)_mm256_dpbf16_ps((__m256)sum, (__m256bh)w, (__m256bh)x); }
INLINE vw wide_dot(vw x, vw w, vw sum) { return (vw)_mm512_dpbf16_ps((__m512)sum, (__m512bh)w, (__m512bh)x); }
#else
INLINE v8 dot(v8 x, v8 w, v8 sum) { WIDENED(v8, i8, madd) }
INLINE vw wide_dot(vw x, vw w, vw sum) { WIDENED(vw, iw, wide_madd) }
#endif

/* Numbers i to i + 8 of a row of units, from floats: to the nearest, and of two to the even one. */
INLINE void put(float *row, int64_t i, v8 value) {
#ifdef __AVX512BF16__
    *(__m128i_u *)((uint16_t *)row + i) = (__m128i)_mm256_cvtneps_pbh((__m256)value);
#else
    typedef uint16_t h8 __attribute__((vector_size(16), aligned(2), may_alias));
    i8 bits = (i8)value, is_number = value == value;
    bits += 0x7fff + ((bits >> 16) & 1);
    bits = (bits & is_number) | (0x7fc00000 & ~is_number);
    *(h8 *)((uint16_t *)row + i) = __builtin_convertvector((bits >> 16) & 0xffff, h8);
#endif
}

INLINE void wide_put(float *row, int64_t i, vw value) {
#if WIDE == 8
    put(row, i, value);
#elif defined(__AVX512BF16__)
    *(__m256i_u *)((uint16_t *)row + i) = (__m256i)_mm512_cvtneps_pbh((__m512)value);
#else
    put(row, i, low_half(value));
    put(row, i + 8, high_half(value));
#endif
}

/* The same, as floats. */
INLINE v8 get(const float *row, int64_t i) {
    typedef uint16_t h8 __attribute__((vector_size(16), aligned(2), may_alias));
    return (v8)(__builtin_convertvector(*(const h8 *)((const uint16_t *)row + i), i8) << 16);
}

/* Number `which` of each of n units, from a row of n numbers. */
INLINE void interleave(float *units, int64_t which, const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((uint16_t *)units)[UNIT * i + which] = ((const uint16_t *)row)[i];
}

/* The first number of each unit, for what the second multiplies with was never written. */
INLINE v8 first_alone(v8 units) { return (v8)((i8)units & 0xffff); }
INLINE vw wide_first_alone(vw units) { return (vw)((iw)units & 0xffff); }
#else
#define UNIT 1
#define dot madd
#define wide_dot wide_madd
INLINE void put(float *row, int64_t i, v8 value) { store(row + i, value); }
INLINE void wide_put(float *row, int64_t i, vw value) { wide_store(row + i, value); }
INLINE v8 get(const float *row, int64_t i) { return load(row + i); }
INLINE void interleave(float *units, int64_t which, const float *row, int64_t n) {
    (void)which;
    memcpy(units, row, n * sizeof(float));
}
#define first_alone(units) (units)
#define wide_first_alone(units) (units)
#endif

/* Make units of a row of n floats, where it lies. */
INLINE void make_units(float *row, int64_t n) {
    if (UNIT > 1)
        for (int64_t i = 0; i < n; i += 8) put(row, i, load(row + i));
}
