// The gradient of least squares for a batch, each matrix read once.
#pragma once
#include "runtime/parallel.h"

template <class T> struct Gradient {
    const T *A, *b, *x;
    T* g;
    int64_t batch, m, n, threads;
};

template <class T> void gradients(const Gradient<T>& in) {
    const int64_t padded = rounded_up(in.n, LANES<T>);
    parallel(in.batch, 2 * in.m * in.n, in.threads, [&](int64_t i) {
        T *x = scratch<T, 1>(2 * padded), *g = x + padded;
        std::memset(x, 0, padded * sizeof(T));
        std::memcpy(x, in.x + i * in.n, in.n * sizeof(T));
        gradient(in.A + i * in.m * in.n, in.b + i * in.m, x, g, in.m, in.n);
        std::memcpy(in.g + i * in.n, g, in.n * sizeof(T));
    });
}
