/* decoder.c for several processors in one library: x86-64-v3 has AVX2, x86-64-v4 AVX-512, some also bfloat16. */

#include "vectors.h"

static int is_wide(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static int multiplies_bfloat16(void) { return is_wide() && __builtin_cpu_supports("avx512bf16"); }

/* One function of decoder.c, for the best of its levels that this processor has. */
#define EITHER(name, given, told)                                                                                      \
    void name##_v3 given;                                                                                              \
    void name##_v4 given;                                                                                              \
    void name given { (is_wide() ? name##_v4 : name##_v3)told; }
#define ANY(name, given, told)                                                                                         \
    void name##_v3 given;                                                                                              \
    void name##_v4 given;                                                                                              \
    void name##_v4_multiplying given;                                                                                  \
    void name given { (multiplies_bfloat16() ? name##_v4_multiplying : is_wide() ? name##_v4 : name##_v3)told; }

EITHER(penstock_run, (const Op *ops, int64_t count, const Batch *batch), (ops, count, batch))
EITHER(penstock_attend, (const Op *op, const Batch *batch), (op, batch))
ANY(penstock_run_bfloat16, (const Op *ops, int64_t count, const Batch *batch), (ops, count, batch))
ANY(penstock_attend_bfloat16, (const Op *op, const Batch *batch), (op, batch))
