// What is known about a point of each problem with a loss of losses.h and a separable penalty, in double precision and from
// one read of A as it is: F, its duality gap, the KKT residual and the gradient g = A'u, u the slopes of the rows.
#pragma once
#include "runtime/numbers.h"
#include "certificate/losses.h"
#include "certificate/separable.h"
#include "runtime/widened.h"

template <class T> struct Certificate {
    const T *A, *b, *l1, *l2, *low, *high;  // (batch / copies, m, n), (batch, m), and see `Spread`
    const double* x;                        // (batch, n)
    double *out, *gradient;                 // (batch, 3), (batch, n)
    int64_t batch, m, n, copies, logistic;  // `copies` of one A: `batch` where it is shared
    int64_t l1_row, l1_column, l2_row, l2_column, low_row, low_column, high_row, high_column;
    int64_t threads;
};

// The slopes at A x of ROWS rows, of which `count` are there, and their part of g while they are in the nearest cache.
template <class T, class Loss>
void widened_rows(const T* A, int64_t stride, const T* b, int count, const double* x, double* g, Loss& loss,
                  int64_t padded) {
    double u[ROWS];
    Vec<double> sum[ROWS] = {};
    for (int64_t j = 0; j < padded; j += LANES<double>) {
        const Vec<double> v = load(x + j);
        for (int i = 0; i < ROWS; i++) sum[i] += widened(A + i * stride + j) * v;
    }
    for (int i = 0; i < ROWS; i++) u[i] = i < count ? loss.row(total<double>(sum[i]), double(b[i])) : 0;
    for (int64_t j = 0; j < padded; j += LANES<double>) {
        Vec<double> v = load(g + j);
        for (int i = 0; i < ROWS; i++) {
            v += widened(A + i * stride + j) * u[i];
            __builtin_prefetch(A + (ROWS + i) * stride + j);
        }
        store(g + j, v);
    }
}

template <class Loss, class T> void certify(const Certificate<T>& in, int64_t instance) {
    const int64_t m = in.m, n = in.n, padded = rounded_up(n, LANES<double>);
    const T *A = in.A + instance / in.copies * m * n, *b = in.b + instance * m;
    const double* point = in.x + instance * n;
    thread_local Penalty r;
    thread_local Loss loss;
    r.take(in, instance);
    loss.begin(m);
    double *x = scratch<double, 2>(2 * padded), *g = x + padded;
    std::memset(x, 0, 2 * padded * sizeof(double));
    std::memcpy(x, point, n * sizeof(double));
    // Rows may be read beyond their end, into the next one, where x is zero; the last ones are copied first.
    T* last = scratch<T, 3>(ROWS * padded);
    for (int64_t first = 0; first < m; first += ROWS) {
        const int count = int(std::min<int64_t>(ROWS, m - first));
        const T* rows = A + first * n;
        int64_t stride = n;
        if (first + ROWS >= m) {
            std::memset(last, 0, ROWS * padded * sizeof(T));
            for (int i = 0; i < count; i++) std::memcpy(last + i * padded, rows + i * n, n * sizeof(T));
            rows = last, stride = padded;
        }
        widened_rows(rows, stride, b + first, count, x, g, loss, padded);
    }
    judge(r, n, x, g, loss, in.out + 3 * instance);
    std::memcpy(in.gradient + instance * n, g, n * sizeof(double));
}

template <class T> void certificates(const Certificate<T>& in) {
    parallel(in.batch, 2 * in.m * in.n, in.threads, [&](int64_t i) {
        if (in.logistic) certify<Logistic>(in, i);
        else certify<Squares>(in, i);
    });
}
