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

// L L' = H by tiles, and its systems, row by row as coordinates come and go. A row that depends on those before it, in
// relative precision `DEPENDS`, gets an infinite diagonal: its coordinate does not move.
struct Cholesky {
    static constexpr double DEPENDS = 1e-11, NEVER = 1e200;
    int64_t count = 0, stride = 0;
    std::vector<int64_t> dependent;  // such rows
    std::vector<double> L, y;        // (stride + TILE, stride), with zeros beyond each diagonal; zero
    std::vector<double> rest, cosine, sine;

    // Only the rows before `first` stay; there is room for `size`.
    void keep(int64_t first, int64_t size) {
        if (size > stride) {
            const int64_t wider = rounded_up(std::max(size, 2 * stride), LANES<double>);
            std::vector<double> next((wider + TILE) * wider, 0);
            for (int64_t i = 0; i < first; i++) std::copy_n(&L[i * stride], i + 1, &next[i * wider]);
            L.swap(next), stride = wider;
            y.assign(stride, 0);
        }
        count = first;
        while (!dependent.empty() && dependent.back() >= first) dependent.pop_back();
    }

    // Rows up to `size` follow. `H(i, j)`: the entries for j <= i.
    template <class Entry> void extend(int64_t size, const Entry& H) {
        const int64_t first = count;
        if (first == size) return;
        keep(first, size);
        std::fill(&L[first * stride], &L[size * stride], 0.0);
        count = size;
        for (int64_t J = 0; J < count; J += TILE) {
            const int64_t length = rounded_up(J, LANES<double>);
            for (int64_t I = std::max(J, first); I < count; I += TILE) {
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

    // Row and column `which` of H go; no later row is dependent. What they held of the later rows is l: their factor
    // becomes that of L L' + l l', by rotations.
    void remove(int64_t which) {
        const int64_t left = --count - which;
        rest.resize(left + TILE), cosine.resize(left), sine.resize(left);
        for (int64_t i = 0; i < left; i++) rest[i] = L[(which + 1 + i) * stride + which];
        for (int64_t I = 0; I < left; I += TILE) {
            const int height = int(std::min<int64_t>(TILE, left - I));
            double* row[TILE];
            double v[TILE];
            for (int a = 0; a < TILE; a++) {
                const int64_t i = which + std::min(I + a, left - 1);
                row[a] = &L[i * stride], v[a] = rest[i - which];
                if (a < height) std::copy_n(row[a] + stride, which, row[a]);
                row[a] += which;
            }
            for (int64_t j = 0; j < I; j++)
                for (int a = 0; a < TILE; a++) turn(row[a], j, v[a]);
            for (int a = 0; a < height; a++) {
                for (int64_t j = I; j < I + a; j++) turn(row[a], j, v[a]);
                const int64_t i = I + a;
                const double old = row[a][stride + i + 1], length = std::hypot(old, v[a]);
                cosine[i] = old / length, sine[i] = v[a] / length;
                row[a][i] = length;
            }
        }
    }
    INLINE void turn(double* row, int64_t j, double& v) {
        const double old = row[stride + j + 1];
        row[j] = cosine[j] * old + sine[j] * v;
        v = cosine[j] * v - sine[j] * old;
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
