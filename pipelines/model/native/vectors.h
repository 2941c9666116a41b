/* Vectors of floats and doubles, as wide as the processor has them. Compiled once for each instruction set.
 *
 * V floats or W doubles to a vector. `_part` loads and stores the first n < V (or W) numbers alone; the rest are zeros.
 */
#ifndef COTRANS_VECTORS_H
#define COTRANS_VECTORS_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__

enum { V = 16, W = 8 };
typedef __m512 floats;
typedef __m512d doubles;

static inline floats load(const float *p) { return _mm512_loadu_ps(p); }
static inline floats load_part(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
static inline void store(float *p, floats x) { _mm512_storeu_ps(p, x); }
static inline void store_part(float *p, floats x, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), x); }
static inline floats all(float x) { return _mm512_set1_ps(x); }
static inline floats add(floats a, floats b) { return _mm512_add_ps(a, b); }
static inline floats sub(floats a, floats b) { return _mm512_sub_ps(a, b); }
static inline floats mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
static inline floats fma_(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats largest_of(floats a, floats b) { return _mm512_max_ps(a, b); }
static inline floats magnitude(floats x) { return _mm512_abs_ps(x); }
static inline floats rounded(floats x) { return _mm512_roundscale_ps(x, 8); }
static inline floats times_power(floats x, floats n) { return _mm512_scalef_ps(x, n); }
static inline float sum(floats x) { return _mm512_reduce_add_ps(x); }
static inline float largest(floats x) { return _mm512_reduce_max_ps(x); }
static inline floats load_half(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }

static inline doubles load_d(const double *p) { return _mm512_loadu_pd(p); }
static inline doubles load_part_d(const double *p, int n) { return _mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p); }
static inline void store_d(double *p, doubles x) { _mm512_storeu_pd(p, x); }
static inline void store_part_d(double *p, doubles x, int n) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), x); }
static inline doubles all_d(double x) { return _mm512_set1_pd(x); }
static inline doubles add_d(doubles a, doubles b) { return _mm512_add_pd(a, b); }
static inline doubles sub_d(doubles a, doubles b) { return _mm512_sub_pd(a, b); }
static inline doubles mul_d(doubles a, doubles b) { return _mm512_mul_pd(a, b); }
static inline doubles fma_d(doubles a, doubles b, doubles c) { return _mm512_fmadd_pd(a, b, c); }
static inline doubles largest_of_d(doubles a, doubles b) { return _mm512_max_pd(a, b); }
static inline doubles rounded_d(doubles x) { return _mm512_roundscale_pd(x, 8); }
static inline doubles times_power_d(doubles x, doubles n) { return _mm512_scalef_pd(x, n); }
static inline double sum_d(doubles x) { return _mm512_reduce_add_pd(x); }

#else /* AVX2, FMA, F16C */

enum { V = 8, W = 4 };
typedef __m256 floats;
typedef __m256d doubles;

static const int32_t FIRST[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static const int64_t FIRST_D[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

static inline __m256i first(int n) { return _mm256_loadu_si256((const __m256i *)(FIRST + 8 - n)); }
static inline __m256i first_d(int n) { return _mm256_loadu_si256((const __m256i *)(FIRST_D + 4 - n)); }

static inline floats load(const float *p) { return _mm256_loadu_ps(p); }
static inline floats load_part(const float *p, int n) { return _mm256_maskload_ps(p, first(n)); }
static inline void store(float *p, floats x) { _mm256_storeu_ps(p, x); }
static inline void store_part(float *p, floats x, int n) { _mm256_maskstore_ps(p, first(n), x); }
static inline floats all(float x) { return _mm256_set1_ps(x); }
static inline floats add(floats a, floats b) { return _mm256_add_ps(a, b); }
static inline floats sub(floats a, floats b) { return _mm256_sub_ps(a, b); }
static inline floats mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
static inline floats fma_(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline floats largest_of(floats a, floats b) { return _mm256_max_ps(a, b); }
static inline floats magnitude(floats x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
static inline floats rounded(floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline floats times_power(floats x, floats n) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}
static inline float sum(floats x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
static inline float largest(floats x) {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
static inline floats load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }

static inline doubles load_d(const double *p) { return _mm256_loadu_pd(p); }
static inline doubles load_part_d(const double *p, int n) { return _mm256_maskload_pd(p, first_d(n)); }
static inline void store_d(double *p, doubles x) { _mm256_storeu_pd(p, x); }
static inline void store_part_d(double *p, doubles x, int n) { _mm256_maskstore_pd(p, first_d(n), x); }
static inline doubles all_d(double x) { return _mm256_set1_pd(x); }
static inline doubles add_d(doubles a, doubles b) { return _mm256_add_pd(a, b); }
static inline doubles sub_d(doubles a, doubles b) { return _mm256_sub_pd(a, b); }
static inline doubles mul_d(doubles a, doubles b) { return _mm256_mul_pd(a, b); }
static inline doubles fma_d(doubles a, doubles b, doubles c) { return _mm256_fmadd_pd(a, b, c); }
static inline doubles largest_of_d(doubles a, doubles b) { return _mm256_max_pd(a, b); }
static inline doubles rounded_d(doubles x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
static inline doubles times_power_d(doubles x, doubles n) {
    __m256i exponent = _mm256_add_epi64(_mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n)), _mm256_set1_epi64x(1023));
    return _mm256_mul_pd(x, _mm256_castsi256_pd(_mm256_slli_epi64(exponent, 52)));
}
static inline double sum_d(doubles x) {
    __m128d half = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

#endif

static inline floats load_half_part(const uint16_t *p, int n) {
    uint16_t few[V] = {0};
    memcpy(few, p, (size_t)n * sizeof *few);
    return load_half(few);
}

/* exp(x) for x <= 0, to 2 units in the last place; 0 below the smallest normal number. NaN stays NaN. */
static inline floats exponential(floats x) {
    const floats lowest = all(-87.0f);
    floats n = rounded(mul(x, all(1.44269504f)));
    n = largest_of(all(-126.0f), n); /* the second operand is returned where one is NaN */
    floats r = fma_(n, all(-0.693359375f), x);
    r = fma_(n, all(2.12194440e-4f), r);
    floats y = all(1.0f / 5040);
    y = fma_(y, r, all(1.0f / 720));
    y = fma_(y, r, all(1.0f / 120));
    y = fma_(y, r, all(1.0f / 24));
    y = fma_(y, r, all(1.0f / 6));
    y = fma_(y, r, all(0.5f));
    y = fma_(y, r, all(1.0f));
    y = fma_(y, r, all(1.0f));
    y = times_power(y, n);
#ifdef __AVX512F__
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ), y);
#else
    return _mm256_and_ps(_mm256_cmp_ps(x, lowest, _CMP_NLT_UQ), y);
#endif
}

static inline doubles exponential_d(doubles x) {
    static const double INVERSE[] = {1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
                                     1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
                                     1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        0.5,
                                     1.0,                1.0};
    const doubles lowest = all_d(-708.0);
    doubles n = rounded_d(mul_d(x, all_d(1.4426950408889634)));
    n = largest_of_d(all_d(-1022.0), n);
    doubles r = fma_d(n, all_d(-6.93147180369123816490e-01), x);
    r = fma_d(n, all_d(-1.90821492927058770002e-10), r);
    doubles y = all_d(INVERSE[0]);
    for (int i = 1; i < 14; i++) y = fma_d(y, r, all_d(INVERSE[i]));
    y = times_power_d(y, n);
#ifdef __AVX512F__
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, lowest, _CMP_NLT_UQ), y);
#else
    return _mm256_and_pd(_mm256_cmp_pd(x, lowest, _CMP_NLT_UQ), y);
#endif
}

#endif
