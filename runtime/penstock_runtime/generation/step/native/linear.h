/* Linear layers over packed panels: each output is one chain of multiply-adds over its inputs. */

#pragma once

#include "units.h"

#define AHEAD 32 /* iterations: how long a line of weights takes to come from the third-level cache */

/* R rows against P panels, whose sums stay in registers; k is in units. Meanwhile what is needed `soon` is sent for. */
#define TILE(R, P)                                                                                                     \
    static void tile_##R##_##P(const float *in, int64_t in_stride, const float *panel, const float *soon, int64_t k,   \
                               const float *bias, int accumulate, float *out, int64_t out_stride) {                    \
        vw sum[R][P * PARTS];                                                                                          \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                                                           \
            _Pragma("GCC unroll 16") for (int c = 0; c < P * PARTS; c++) sum[r][c] = (vw){0};                          \
        for (int64_t i = 0; i < k; i++) {                                                                              \
            vw w[P * PARTS];                                                                                           \
            _Pragma("GCC unroll 16") for (int p = 0; p < P; p++)                                                       \
                __builtin_prefetch(soon + (p * k + i) * PANEL);                                                        \
            _Pragma("GCC unroll 16") for (int c = 0; c < P * PARTS; c++)                                               \
                w[c] = wide_load(panel + (c / PARTS * k + i) * PANEL + c % PARTS * WIDE);                              \
            _Pragma("GCC unroll 16") for (int r = 0; r < R; r++) {                                                     \
                vw x = wide_all(in[r * in_stride + i]);                                                                \
                _Pragma("GCC unroll 16") for (int c = 0; c < P * PARTS; c++) sum[r][c] = wide_dot(x, w[c], sum[r][c]); \
            }                                                                                                          \
        }                                                                                                              \
        _Pragma("GCC unroll 16") for (int r = 0; r < R; r++)                                                           \
            _Pragma("GCC unroll 16") for (int c = 0; c < P * PARTS; c++) {                                             \
                float *to = out + r * out_stride + WIDE * c;                                                           \
                vw value = sum[r][c];                                                                                  \
                if (bias) value += wide_load(bias + WIDE * c);                                                         \
                if (accumulate) value += wide_load(to);                                                                \
                wide_store(to, value);                                                                                 \
            }                                                                                                          \
    }

typedef void (*Tile)(const float *, int64_t, const float *, const float *, int64_t, const float *, int, float *,
                     int64_t);

/* Few rows leave registers for more streams of weights. `alone` takes what is left of the panels, one by one. */
typedef struct {
    int64_t panels;
    Tile together, alone;
} Height;

TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
#if WIDE == 16
TILE(7, 1) TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1)
TILE(1, 8) TILE(2, 4) TILE(3, 4) TILE(4, 4)
TILE(5, 2) TILE(6, 2) TILE(7, 2) TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2)
#define TALLEST 12
static const Height HEIGHTS[TALLEST + 1] = {
    {0},
    {8, tile_1_8, tile_1_1}, {4, tile_2_4, tile_2_1}, {4, tile_3_4, tile_3_1}, {4, tile_4_4, tile_4_1},
    {2, tile_5_2, tile_5_1}, {2, tile_6_2, tile_6_1}, {2, tile_7_2, tile_7_1}, {2, tile_8_2, tile_8_1},
    {2, tile_9_2, tile_9_1}, {2, tile_10_2, tile_10_1}, {2, tile_11_2, tile_11_1}, {2, tile_12_2, tile_12_1},
};
#else
TILE(1, 4) TILE(2, 2)
#define TALLEST 6
static const Height HEIGHTS[TALLEST + 1] = {
    {0},
    {4, tile_1_4, tile_1_1}, {2, tile_2_2, tile_2_1}, {1, tile_3_1, tile_3_1},
    {1, tile_4_1, tile_4_1}, {1, tile_5_1, tile_5_1}, {1, tile_6_1, tile_6_1},
};
#endif

/* Rows `row` to `row + tall` against panels `p` to `p + count`, sending for what is `lead` units of weights later. */
static void tile(const Op *op, int64_t row, int64_t tall, int64_t p, int64_t count, int64_t lead) {
    const Height *height = HEIGHTS + tall;
    int64_t k = op->k / UNIT;
    for (int64_t end = p + count; p < end;) {
        int64_t now = end - p >= height->panels ? height->panels : 1;
        const float *panel = op->weight + p * k * PANEL;
        (now > 1 ? height->together : height->alone)(
            op->in + row * op->in_stride, op->in_stride, panel, panel + lead * PANEL, k,
            op->bias ? op->bias + p * PANEL : 0, op->accumulate, op->out + row * op->out_stride + p * PANEL,
            op->out_stride);
        p += now;
    }
}

/* How many of `rows` go next: of as few passes as there must be, none much lower than another. */
static int64_t even(int64_t rows) {
    int64_t passes = (rows + TALLEST - 1) / TALLEST;
    return (rows + passes - 1) / passes;
}

static void linear(const Op *op, int64_t rows, int64_t threads) {
    int64_t panels = (op->n + PANEL - 1) / PANEL;
    int64_t group = HEIGHTS[rows < TALLEST ? rows : TALLEST].panels;
    int64_t block = (1 << 16) * UNIT / op->k / TALLEST * TALLEST; /* rows of input that stay in the second cache */
    if (block < TALLEST) block = TALLEST;
    for (int64_t first = 0; first < rows; first += block) {
        int64_t end = first + block < rows ? first + block : rows;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
        for (int64_t p = 0; p < panels; p += group) {
            int64_t here = panels - p < group ? panels - p : group;
            for (int64_t row = first; row < end;) {
                int64_t tall = even(end - row);
                int is_last = row > first && row + tall == end; /* of several passes: it sends for the next panels */
                int64_t lead = is_last ? here * (op->k / UNIT) : AHEAD;
                tile(op, row, tall, p, here, lead);
                row += tall;
            }
        }
    }
}
