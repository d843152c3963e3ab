// Vectors of numbers, and exp, log, softplus of them to a few units of roundoff. What is not a number stays so.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define WIDE 1
#endif

// A block is as many coordinates as the registers hold accumulators for: 4 gates x VECTORS.
#if defined(WIDE)
constexpr int BYTES = 64, VECTORS = 4;
#elif defined(__AVX__)
constexpr int BYTES = 32, VECTORS = 2;
#elif defined(__aarch64__)
constexpr int BYTES = 16, VECTORS = 4;
#else
constexpr int BYTES = 16, VECTORS = 2;
#endif

#define IN_PLACE __attribute__((always_inline))  // vectors belong in registers
#define INLINE inline IN_PLACE

template <class T> struct Kind;

template <> struct Kind<float> {
    typedef float V __attribute__((vector_size(BYTES)));
    typedef int32_t I __attribute__((vector_size(BYTES)));
    static constexpr int MANTISSA = 23, BIAS = 127, ROOT_HALF = 0x3f3504f3, SERIES = 5;
    static constexpr float SHIFT = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
    // 2^r on [0, 1] to 7.5e-8, the best polynomial of degree 5
    static constexpr float POWER[] = {9.999999251e-01f, 6.931530732e-01f, 2.401536170e-01f,
                                      5.582631805e-02f, 8.989340090e-03f, 1.877576675e-03f};
};

template <> struct Kind<double> {
    typedef double V __attribute__((vector_size(BYTES)));
    typedef int64_t I __attribute__((vector_size(BYTES)));
    static constexpr int64_t MANTISSA = 52, BIAS = 1023, ROOT_HALF = 0x3fe6a09e667f3bcd, SERIES = 11;
    static constexpr double SHIFT = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr int TERMS = 14;  // of the Taylor series
};
constexpr float Kind<float>::POWER[];

template <class T> using Vec = typename Kind<T>::V;
template <class T> using Int = typename Kind<T>::I;
template <class T> constexpr int LANES = BYTES / sizeof(T);
template <class T> constexpr int BLOCK = VECTORS * LANES<T>;
template <class T> constexpr T LOG2E = T(1.4426950408889634074);
constexpr double LN2 = 0.69314718055994530942;
constexpr int MOST = 40;  // exponents are cut to 2^40, so that the product of three is finite; 1 + 2^-40 is 1 anyway

template <class T> INLINE Vec<T> load(const T* p) {
    Vec<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class T> INLINE void store(T* p, Vec<T> v) { std::memcpy(p, &v, sizeof v); }
template <class T> INLINE Vec<T> all(T value) { return value - Vec<T>{}; }  // v - 0 is v, v + 0 is not for v = -0
template <class T> INLINE Vec<T> absolute(Vec<T> v) { return v < 0 ? -v : v; }
// The comparisons are written so that a v that is not a number stays.
template <class T> INLINE Vec<T> lower(Vec<T> v, Vec<T> limit) { return v > limit ? limit : v; }
template <class T> INLINE Vec<T> upper(Vec<T> v, Vec<T> limit) { return v < limit ? limit : v; }

template <class T> INLINE T total(Vec<T> v) {
    T part[LANES<T>];
    store(part, v);
    for (int half = LANES<T> / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) part[i] += part[i + half];
    return part[0];
}

template <class T> INLINE Vec<T> square_root(Vec<T> v) {
    for (int i = 0; i < LANES<T>; i++) v[i] = std::sqrt(v[i]);
    return v;
}

// 2^min(x, MOST) of G vectors, step by step side by side: each step waits for the one before it
template <int G> INLINE void exp2_of(Vec<float> (&x)[G]) {
    using K = Kind<float>;
    Vec<float> r[G], p[G], scale[G];
    for (int g = 0; g < G; g++) {
#if defined(WIDE)
        scale[g] = (Vec<float>)_mm512_min_ps(_mm512_set1_ps(MOST), (__m512)x[g]);  // the second where either is NaN
        r[g] = (Vec<float>)_mm512_reduce_ps((__m512)scale[g], 1);                  // v - floor(v)
#else
        const Vec<float> v = upper<float>(lower<float>(x[g], all<float>(MOST)), all<float>(-126));
        const Vec<float> shifted = (v - 0.5f) + K::SHIFT;
        r[g] = v - (shifted - K::SHIFT);
        scale[g] = (Vec<float>)(((Int<float>)shifted + K::BIAS) << K::MANTISSA);
#endif
        p[g] = K::POWER[5] * r[g] + K::POWER[4];
    }
    for (int i = 3; i >= 0; i--)
        for (int g = 0; g < G; g++) p[g] = p[g] * r[g] + K::POWER[i];
    for (int g = 0; g < G; g++)
#if defined(WIDE)
        x[g] = (Vec<float>)_mm512_scalef_ps((__m512)p[g], (__m512)scale[g]);  // p 2^floor(v)
#else
        x[g] = p[g] * scale[g];
#endif
}

template <int G> INLINE void exp2_of(Vec<double> (&x)[G]) {
    using K = Kind<double>;
    for (int g = 0; g < G; g++) {
        const Vec<double> v = upper<double>(lower<double>(x[g], all<double>(MOST)), all<double>(-1022));
        const Vec<double> shifted = v + K::SHIFT;
        const Vec<double> r = (v - (shifted - K::SHIFT)) * LN2;  // in [-0.35, 0.35]
        Vec<double> p = all(1.0);
        for (int i = K::TERMS; i >= 1; i--) p = 1.0 + r * p * (1.0 / i);
        x[g] = p * (Vec<double>)(((Int<double>)shifted + K::BIAS) << K::MANTISSA);
    }
}

template <class T> INLINE Vec<T> exp2(Vec<T> x) {
    Vec<T> one[1] = {x};
    exp2_of<1>(one);
    return one[0];
}

#if defined(WIDE)
template <> INLINE float total<float>(Vec<float> v) { return _mm512_reduce_add_ps((__m512)v); }
template <> INLINE Vec<float> square_root<float>(Vec<float> v) { return (Vec<float>)_mm512_sqrt_ps((__m512)v); }
template <> INLINE Vec<double> square_root<double>(Vec<double> v) { return (Vec<double>)_mm512_sqrt_pd((__m512d)v); }
#endif

// a / b for 1 <= b <= 2^122
template <class T> INLINE Vec<T> divided(Vec<T> a, Vec<T> b) { return a / b; }
#if defined(WIDE)
// by a step of Newton's from 14 digits of 1 / b: a division takes as long as twenty multiplications
template <> INLINE Vec<float> divided<float>(Vec<float> a, Vec<float> b) {
    Vec<float> r = (Vec<float>)_mm512_rcp14_ps((__m512)b);
    return a * (r + r * (1.0f - b * r));
}
#endif

// log v, v > 0 and finite: v = 2^k m, m in [sqrt 1/2, sqrt 2), log m = 2 artanh((m - 1)/(m + 1))
template <class T> INLINE Vec<T> log(Vec<T> v) {
    using K = Kind<T>;
    Int<T> bits = (Int<T>)v, k = (bits - K::ROOT_HALF) >> K::MANTISSA;
    Vec<T> m = (Vec<T>)(bits - (k << K::MANTISSA));
    Vec<T> s = (m - T(1)) / (m + T(1)), q = s * s, sum = all(T(1) / (2 * K::SERIES + 1));
    for (int i = K::SERIES - 1; i >= 0; i--) sum = sum * q + T(1) / T(2 * i + 1);
    return __builtin_convertvector(k, Vec<T>) * T(LN2) + T(2) * s * sum + (v - v);  // v - v: 0, or NaN
}

template <class T> INLINE Vec<T> softplus(Vec<T> v) {
    Vec<T> e = exp2<T>(v * LOG2E<T>), u = T(1) + e, rest = u - T(1);
    Vec<T> small = rest == 0 ? e : log<T>(u) * e / rest;  // log(1 + e) without the loss in 1 + e
    return v > 20 ? v : small;
}
