// The largest eigenvalue of A'A for each A, one instance at a time: Lanczos' method with one vector, while A stays in
// the second cache. The vectors have n numbers whatever the shape, so that A and A' share a read of A.
//
// With v_0 = `start` and v_-1 = 0, beta_k v_{k+1} = A'A v_k - alpha_k v_k - beta_{k-1} v_{k-1}, where alpha_k is
// v_k'A'A v_k and beta_k makes v_{k+1} of length one. The vectors are not orthogonalised again, which costs copies of
// eigenvalues that were found already and nothing else: the largest eigenvalue of the tridiagonal matrix of the alphas
// and betas is that of A'A as soon as it is there, and never above it but by rounding.
#pragma once
#include "runtime/numbers.h"
#include "lipschitz/tridiagonal.h"
#include "runtime/parallel.h"

constexpr int MOST_STEPS = 48;

// A (B, m, n), start (n), of length one, out (B)
template <class T> struct Largest {
    const T *A, *start;
    T* out;
    int64_t batch, m, n, steps, threads;  // steps <= MOST_STEPS
};

// max |a|, not a number if one of them is not
template <class T> T largest_size(const T* a, int64_t count) {
    auto larger = [](auto size, auto most) IN_PLACE { return (size > most) | (size != size) ? size : most; };
    Vec<T> most{};
    int64_t j = 0;
    for (; j + LANES<T> <= count; j += LANES<T>) most = larger(absolute<T>(load(a + j)), most);
    T found = 0;
    for (int i = 0; i < LANES<T>; i++) found = larger(T(most[i]), found);
    for (; j < count; j++) found = larger(std::abs(a[j]), found);
    return found;
}

struct Tridiagonal {
    double diagonal[MOST_STEPS], beside[MOST_STEPS];
    int size = 0;

    // The largest eigenvalue, by bisection
    double largest(double precision) const {
        auto [low, high] = bounds_of(diagonal, beside, size);
        for (int halved = 0; halved < 100 && high - low > precision * high; halved++) {
            const double middle = (low + high) / 2;
            (above_all(diagonal, beside, size, middle) ? high : low) = middle;
        }
        return (low + high) / 2;
    }
};

// Of A'A / 2^(2 exponent), with products of A and vectors / 2^exponent
template <class T> Tridiagonal lanczos(const T* A, const T* start, int64_t m, int64_t n, int64_t steps, int exponent) {
    constexpr T NOTHING = 8 * std::numeric_limits<T>::epsilon();  // what is shorter, beside the alphas, is rounding
    const int64_t padded = rounded_up(n, LANES<T>);
    const T inverse = std::ldexp(T(1), -exponent);
    T *v = scratch<T, 1>(4 * padded + m), *before = v + padded, *scaled = before + padded, *image = scaled + padded;
    T *zeros = image + padded, beta = 0, highest = 0;
    std::memset(v, 0, (4 * padded + m) * sizeof(T));
    std::memcpy(v, start, n * sizeof(T));
    Tridiagonal found;
    while (found.size < steps) {
        for (int64_t j = 0; j < padded; j += LANES<T>) store(scaled + j, load(v + j) * inverse);
        gradient(A, zeros, scaled, image, m, n);
        std::fill(image + n, image + padded, T(0));  // what lies beyond the end of a row has been added there
        Vec<T> along{}, square{};
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Vec<T> w = load(image + j) * inverse - load(before + j) * beta;
            store(image + j, w), along += w * load(v + j);
        }
        const T alpha = total<T>(along);
        for (int64_t j = 0; j < padded; j += LANES<T>) {
            const Vec<T> w = load(image + j) - load(v + j) * alpha;
            store(image + j, w), square += w * w;
        }
        beta = std::sqrt(total<T>(square));
        found.diagonal[found.size] = alpha, found.beside[found.size] = beta;
        found.size++;
        highest = std::max(highest, alpha);
        if (!(beta > NOTHING * highest)) break;  // a space that A'A maps into itself
        for (int64_t j = 0; j < padded; j += LANES<T>) store(image + j, load(image + j) / beta);
        T* free = before;
        before = v, v = image, image = free;
    }
    return found;
}

template <class T> T largest(const T* A, const T* start, int64_t m, int64_t n, int64_t steps) {
    const T size = largest_size(A, m * n);
    if (!(size > 0) || std::isinf(size * size)) return size * size;  // the eigenvalue is no smaller than that
    // A / 2^exponent has entries below two; 2^-exponent is a number even where A's are too small to be normal
    const int exponent = std::max(std::ilogb(size), std::numeric_limits<T>::min_exponent - 1);
    const double value = lanczos(A, start, m, n, steps, exponent).largest(std::numeric_limits<T>::epsilon());
    return T(std::ldexp(std::max(value, 0.0), 2 * exponent));
}

template <class T> void largest(const Largest<T>& in) {
    parallel(in.batch, 2 * in.steps * in.m * in.n, in.threads,
             [&](int64_t i) { in.out[i] = largest(in.A + i * in.m * in.n, in.start, in.m, in.n, in.steps); });
}
