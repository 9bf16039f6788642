/* decoder.c for two levels of processors in one library: x86-64-v3 has AVX2, x86-64-v4 AVX-512. */

#include "vectors.h"

void penstock_run_v3(const Op *, int64_t, const Batch *);
void penstock_run_v4(const Op *, int64_t, const Batch *);
void penstock_attend_v3(const Op *, const Batch *);
void penstock_attend_v4(const Op *, const Batch *);

static int wide(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

void penstock_run(const Op *ops, int64_t count, const Batch *batch) {
    (wide() ? penstock_run_v4 : penstock_run_v3)(ops, count, batch);
}

void penstock_attend(const Op *op, const Batch *batch) {
    (wide() ? penstock_attend_v4 : penstock_attend_v3)(op, batch);
}
