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

constexpr int JUDGED = 4;  // of one A that are judged with one read of it

// The slopes at A x of ROWS rows, of which `count` are there, and their part of g while they are in the nearest cache: of
// `MANY` points x (MANY, padded), whose sums are those of one.
template <int MANY, class T, class Loss>
void widened_rows(const T* A, int64_t stride, const T* b, int64_t m, int count, const double* x, double* g, Loss* loss,
                  int64_t padded) {
    double u[MANY][ROWS];
    Vec<double> sum[MANY][ROWS] = {};
    for (int64_t j = 0; j < padded; j += LANES<double>) {
        Vec<double> v[MANY];
        for (int p = 0; p < MANY; p++) v[p] = load(x + p * padded + j);
        for (int i = 0; i < ROWS; i++) {
            const Vec<double> a = widened(A + i * stride + j);
            for (int p = 0; p < MANY; p++) sum[p][i] += a * v[p];
        }
    }
    for (int p = 0; p < MANY; p++)
        for (int i = 0; i < ROWS; i++)
            u[p][i] = i < count ? loss[p].row(total<double>(sum[p][i]), double(b[p * m + i])) : 0;
    for (int64_t j = 0; j < padded; j += LANES<double>) {
        Vec<double> v[MANY];
        for (int p = 0; p < MANY; p++) v[p] = load(g + p * padded + j);
        for (int i = 0; i < ROWS; i++) {
            const Vec<double> a = widened(A + i * stride + j);
            for (int p = 0; p < MANY; p++) v[p] += a * u[p][i];
            __builtin_prefetch(A + (ROWS + i) * stride + j);
        }
        for (int p = 0; p < MANY; p++) store(g + p * padded + j, v[p]);
    }
}

// Of `MANY` instances with one A
template <int MANY, class Loss, class T> void certify(const Certificate<T>& in, int64_t instance) {
    const int64_t m = in.m, n = in.n, padded = rounded_up(n, LANES<double>);
    const T *A = in.A + instance / in.copies * m * n, *b = in.b + instance * m;
    thread_local Penalty r;
    thread_local Loss loss[MANY];
    double *x = scratch<double, 2>(2 * MANY * padded), *g = x + MANY * padded;
    std::memset(x, 0, 2 * MANY * padded * sizeof(double));
    for (int p = 0; p < MANY; p++) {
        loss[p].begin(m);
        std::memcpy(x + p * padded, in.x + (instance + p) * n, n * sizeof(double));
    }
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
        widened_rows<MANY>(rows, stride, b + first, m, count, x, g, loss, padded);
    }
    for (int p = 0; p < MANY; p++, x += padded, g += padded) {
        r.take(in, instance + p);
        judge(r, n, x, g, loss[p], in.out + 3 * (instance + p));
        std::memcpy(in.gradient + (instance + p) * n, g, n * sizeof(double));
    }
}

// Instances that share an A take turns in groups, where there are enough groups for all threads.
template <class Loss, class T> void certify_all(const Certificate<T>& in) {
    const int64_t size = in.copies >= JUDGED * in.threads ? JUDGED : 1, groups = (in.copies + size - 1) / size;
    parallel(in.batch / in.copies * groups, 2 * size * in.m * in.n, in.threads, [&](int64_t task) {
        const int64_t of = task / groups * in.copies, first = of + task % groups * size;
        const int64_t end = std::min(first + size, of + in.copies);
        if (end - first == JUDGED) return certify<JUDGED, Loss>(in, first);
        for (int64_t i = first; i < end; i++) certify<1, Loss>(in, i);
    });
}

template <class T> void certificates(const Certificate<T>& in) {
    if (in.logistic) certify_all<Logistic>(in);
    else certify_all<Squares>(in);
}
