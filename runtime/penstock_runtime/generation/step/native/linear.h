/* Linear layers over packed panels: each output is one chain of multiply-adds over its inputs. */

#pragma once

#include "vectors.h"

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
