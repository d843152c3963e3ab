// Products of rows, and Cholesky factors made of them.
#pragma once
#include "runtime/widened.h"

constexpr int TILE = 4;

// sums[a][b] = <first row a, second row b> over `length` numbers, a multiple of the vector. The order in which a sum is
// added up depends on nothing else, so that an entry has the same bits whichever tile it was computed in.
INLINE void dots(const double* first, int64_t first_stride, const double* second, int64_t second_stride, int64_t length,
                 double (&sums)[TILE][TILE]) {
    Vec<double> part[TILE][TILE] = {};
    for (int64_t i = 0; i < length; i += LANES<double>) {
        Vec<double> other[TILE];
        for (int b = 0; b < TILE; b++) other[b] = load(second + b * second_stride + i);
        for (int a = 0; a < TILE; a++) {
            const Vec<double> mine = load(first + a * first_stride + i);
            for (int b = 0; b < TILE; b++) part[a][b] += mine * other[b];
        }
    }
    for (int a = 0; a < TILE; a++)
        for (int b = 0; b < TILE; b++) sums[a][b] = total<double>(part[a][b]);
}

// L L' = H by tiles, and its systems. A row that depends on those before it, in relative precision `DEPENDS`, gets an
// infinite diagonal: its coordinate does not move.
struct Cholesky {
    static constexpr double DEPENDS = 1e-11, NEVER = 1e200;
    int64_t count = 0, stride = 0;
    std::vector<int64_t> dependent;  // such rows
    std::vector<double> L, y;

    // (count rounded up to tiles, stride), zero: to be filled with the lower half of H
    void begin(int64_t size) {
        count = size, stride = rounded_up(size, LANES<double>);
        L.assign(rounded_up(size, TILE) * stride, 0);
        y.assign(stride, 0);
        dependent.clear();
    }

    // `H(i, j)`: the entries for j <= i
    template <class Entry> void factorize(const Entry& H) {
        for (int64_t J = 0; J < count; J += TILE) {
            const int64_t length = rounded_up(J, LANES<double>);
            for (int64_t I = J; I < count; I += TILE) {
                double sums[TILE][TILE];
                dots(&L[I * stride], stride, &L[J * stride], stride, length, sums);
                for (int a = 0; a < TILE && I + a < count; a++)
                    for (int b = 0; b < TILE && J + b < count && J + b <= I + a; b++) {
                        double value = H(I + a, J + b);
                        const double whole = value;
                        value -= sums[a][b];
                        double *mine = &L[(I + a) * stride + J], *other = &L[(J + b) * stride + J];
                        for (int c = 0; c < b; c++) value -= mine[c] * other[c];
                        const bool holds = value > DEPENDS * whole;
                        if (I + a != J + b) mine[b] = value / other[b];
                        else mine[b] = holds ? std::sqrt(value) : NEVER;
                        if (I + a == J + b && !holds) dependent.push_back(I + a);
                    }
            }
        }
    }

    // d with H d = 0 but for rounding, d = 1 at this dependent row, and 0 at all others
    void null_vector(int64_t which, double* d) {
        const double* last = &L[which * stride];
        std::fill(d, d + count, 0.0);
        std::copy_n(last, which, y.begin());
        d[which] = 1;
        for (int64_t i = which - 1; i >= 0; i--) {
            const double *row = &L[i * stride], value = y[i] / row[i];
            y[i] = 0, d[i] = -value;
            for (int64_t k = 0; k < i; k++) y[k] -= value * row[k];
        }
    }

    // L L' d = right
    void solve(const double* right, double* d) {
        for (int64_t i = 0; i < count; i++) {
            const double* row = &L[i * stride];
            Vec<double> sum = {};
            for (int64_t k = 0; k < i; k += LANES<double>) sum += load(row + k) * load(&y[k]);
            y[i] = (right[i] - total<double>(sum)) / row[i];
        }
        for (int64_t i = count - 1; i >= 0; i--) {
            const double *row = &L[i * stride], value = y[i] / row[i];
            y[i] = 0, d[i] = value;
            for (int64_t k = 0; k < i; k++) y[k] -= value * row[k];
        }
    }
};
