// Block Krylov spaces of A A' or A'A, whichever is smaller, one instance at a time: what problems/spectrum.py computes
// and explains. A stays in the second cache over all steps.
#pragma once
#include "parallel.h"

constexpr int WIDTH = 4;  // vectors of a block, and rows of A at a time

// A (B, m, n), start (WIDTH, size), size = min(m, n), inverse (B) of the largest entry, basis and images
// (B, steps WIDTH, size); images = (A A' or A'A) basis inverse^2
template <class T> struct Krylov {
    const T *A, *start, *inverse;
    T *basis, *images;
    const T* const* weights;  // none
    int64_t batch, m, n, steps, threads;
};

// body(i, rows, stride) for the rows i, ..., i + 3 of A; the last ones are copied, with zeros for those that are missing,
// since rows are read beyond their end
template <class T, class Body> void four_rows(const T* A, int64_t m, int64_t n, const Body& body) {
    const int64_t padded = rounded_up(n, LANES<T>), whole = (m - 1) / WIDTH * WIDTH;
    for (int64_t i = 0; i < whole; i += WIDTH) body(i, A + i * n, n);
    T* last = scratch<T, 0>(WIDTH * padded);
    std::memset(last, 0, WIDTH * padded * sizeof(T));
    for (int64_t i = whole; i < m; i++) std::memcpy(last + (i - whole) * padded, A + i * n, n * sizeof(T));
    body(whole, last, padded);
}

// products[k][r] = a_r'x_k; x (WIDTH, padded), zero beyond n
template <class T> INLINE void dots(const T* rows, int64_t stride, const T* x, int64_t padded, T (&products)[WIDTH][WIDTH]) {
    Vec<T> sum[WIDTH][WIDTH] = {};
    for (int64_t j = 0; j < padded; j += LANES<T>)
        for (int k = 0; k < WIDTH; k++) {
            const Vec<T> v = load(x + k * padded + j);
            for (int r = 0; r < WIDTH; r++) sum[k][r] += load(rows + r * stride + j) * v;
        }
    for (int k = 0; k < WIDTH; k++)
        for (int r = 0; r < WIDTH; r++) products[k][r] = total<T>(sum[k][r]);
}

// y_k += sum_r by[k][r] a_r
template <class T> INLINE void add(const T* rows, int64_t stride, const T (&by)[WIDTH][WIDTH], T* y, int64_t padded) {
    for (int64_t j = 0; j < padded; j += LANES<T>)
        for (int k = 0; k < WIDTH; k++) {
            Vec<T> v = load(y + k * padded + j);
            for (int r = 0; r < WIDTH; r++) v += load(rows + r * stride + j) * by[k][r];
            store(y + k * padded + j, v);
        }
}

template <class T> void scaled(T* y, int64_t n, int64_t padded, T by) {
    for (int k = 0; k < WIDTH; k++, y += padded) {
        for (int64_t j = 0; j < n; j++) y[j] *= by;
        std::fill(y + n, y + padded, T(0));  // what lies beyond the end of a row has been added there
    }
}

// to = A A' from if m <= n, else A'A from, scaled; vectors of m or n numbers, `padded` apart; room: (WIDTH, padded n)
template <class T>
void applied(const T* A, int64_t m, int64_t n, T inverse, const T* from, T* to, int64_t padded, T* room) {
    const int64_t across = rounded_up(n, LANES<T>);
    T* sums = m <= n ? room : to;
    std::memset(sums, 0, WIDTH * across * sizeof(T));
    four_rows(A, m, n, [&](int64_t i, const T* rows, int64_t stride) {
        T by[WIDTH][WIDTH];
        if (m > n) dots(rows, stride, from, padded, by);
        for (int k = 0; k < WIDTH; k++)
            for (int r = 0; r < WIDTH; r++) by[k][r] = m > n ? by[k][r] * inverse : from[k * padded + i + r];
        add(rows, stride, by, sums, across);
    });
    scaled(sums, n, across, inverse);
    if (m > n) return;
    std::memset(to, 0, WIDTH * padded * sizeof(T));
    four_rows(A, m, n, [&](int64_t i, const T* rows, int64_t stride) {
        T products[WIDTH][WIDTH];
        dots(rows, stride, room, across, products);
        for (int k = 0; k < WIDTH; k++)
            for (int r = 0; r < WIDTH; r++) to[k * padded + i + r] = products[k][r] * inverse;
    });
}

template <class T> INLINE T product(const T* x, const T* y, int64_t padded) {
    Vec<T> sum{};
    for (int64_t j = 0; j < padded; j += LANES<T>) sum += load(x + j) * load(y + j);
    return total<T>(sum);
}

// `count` vectors `block` minus their projections on `known` orthonormal ones
template <class T> void projected(T* block, int count, const T* basis, int64_t known, int64_t padded) {
    for (int k = 0; k < count; k++) {
        T* v = block + k * padded;
        T* by = scratch<T, 2>(known);
        for (int64_t e = 0; e < known; e++) by[e] = product(basis + e * padded, v, padded);
        for (int64_t e = 0; e < known; e++)
            for (int64_t j = 0; j < padded; j += LANES<T>) store(v + j, load(v + j) - by[e] * load(basis + e * padded + j));
    }
}

// Two rounds of Gram-Schmidt; a vector that shrinks too much in one becomes zero
template <class T> void orthonormalised(T* block, const T* basis, int64_t known, int64_t padded) {
    for (const T drop : {T(1000) * std::numeric_limits<T>::epsilon(), T(0.5)}) {
        T size[WIDTH];
        for (int k = 0; k < WIDTH; k++) size[k] = std::sqrt(product(block + k * padded, block + k * padded, padded));
        for (int twice = 0; known && twice < 2; twice++) projected(block, WIDTH, basis, known, padded);
        for (int k = 0; k < WIDTH; k++) {
            T* v = block + k * padded;
            for (int twice = 0; k && twice < 2; twice++) projected(v, 1, block, k, padded);
            const T norm = std::sqrt(product(v, v, padded));
            const T by = norm > drop * size[k] ? T(1) / norm : T(0);
            for (int64_t j = 0; j < padded; j++) v[j] = by > 0 ? v[j] * by : T(0);
        }
    }
}

template <class T> void krylov(const Krylov<T>& in) {
    const int64_t m = in.m, n = in.n, size = std::min(m, n), padded = rounded_up(size, LANES<T>), block = WIDTH * padded;
    const int64_t across = rounded_up(n, LANES<T>), vectors = in.steps * WIDTH;
    parallel(in.batch, in.threads, [&](int64_t i) {
        T* basis = scratch<T, 1>((in.steps + 1) * block + WIDTH * across);
        T *image = basis + in.steps * block, *room = image + block;
        std::memset(image, 0, block * sizeof(T));
        for (int k = 0; k < WIDTH; k++) std::memcpy(image + k * padded, in.start + k * size, size * sizeof(T));
        for (int64_t s = 0; s < in.steps; s++) {
            T* next = basis + s * block;
            std::memcpy(next, image, block * sizeof(T));
            orthonormalised(next, basis, s * WIDTH, padded);
            applied(in.A + i * m * n, m, n, in.inverse[i], next, image, padded, room);
            for (int k = 0; k < WIDTH; k++) {
                const int64_t to = (i * vectors + s * WIDTH + k) * size;
                std::memcpy(in.basis + to, next + k * padded, size * sizeof(T));
                std::memcpy(in.images + to, image + k * padded, size * sizeof(T));
            }
        }
    });
}
