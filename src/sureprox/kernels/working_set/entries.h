// The same of a sparse A, whose columns stay where they are.
#pragma once
#include "working_set/columns.h"

// A by rows and by columns (CSR of A and of A')
template <class T> struct Entries : Normal {
    const int *starts = nullptr, *places = nullptr, *starts_t = nullptr, *places_t = nullptr;
    const T *values = nullptr, *values_t = nullptr;
    std::vector<int64_t> where;  // (n): the place in W, or -1
    std::vector<std::pair<int64_t, double>> row;

    template <class In> void begin(const In& in, int64_t) {
        Normal::begin(in.m, in.n);
        starts = in.starts, places = in.places, values = in.A;
        starts_t = in.starts_t, places_t = in.places_t, values_t = in.values_t;
        where.assign(n, -1);
    }
    bool fits(int64_t) const { return true; }
    int64_t read() const { return starts[m]; }
    int64_t made(int64_t before) const { return (count - before) * count + read(); }

    void add(const std::vector<int64_t>& more) {
        const int64_t before = count;
        join(more);
        for (int64_t c = before; c < count; c++) where[index[c]] = c;
    }
    void square(int64_t before, const double*, int) {
        if (before < count) outer_products(before, [](int64_t) { return 1.0; });
    }
    void weigh(const std::vector<double>& D, int) {
        outer_products(0, [&](int64_t i) { return D[i]; });
    }
    // G = sum_i D_i a_i a_i', a_i the entries of row i in W: rows and columns from `first` on
    template <class Weight> void outer_products(int64_t first, const Weight& D) {
        for (int64_t p = 0; p < count; p++)
            for (int64_t q = p < first ? first : 0; q < count; q++) G[p * room + q] = 0;
        for (int64_t i = 0; i < m; i++) {
            row.clear();
            bool fresh = false;
            for (int e = starts[i]; e < starts[i + 1]; e++)
                if (const int64_t c = where[places[e]]; c >= 0) row.push_back({c, double(values[e])}), fresh |= c >= first;
            if (!fresh) continue;
            for (const auto& [p, a] : row) {
                const double by = D(i) * a;
                double* to = &G[p * room];
                for (const auto& [q, other] : row)
                    if (p >= first || q >= first) to[q] += by * other;
            }
        }
    }
    void image(const double* v, double* t) const {
        std::fill(t, t + m, 0.0);
        for (int64_t c = 0; c < count; c++)
            if (v[c] != 0)
                for (int e = starts_t[index[c]]; e < starts_t[index[c] + 1]; e++)
                    t[places_t[e]] += v[c] * double(values_t[e]);
    }
    void products(const double* u, double* g, double* squares, int threads) const {
        parallel((n + STRIP - 1) / STRIP, read() / n * STRIP, threads, [&](int64_t strip) {
            for (int64_t j = strip * STRIP; j < std::min(n, (strip + 1) * STRIP); j++) {
                double sum = 0, square = 0;
                for (int e = starts_t[j]; e < starts_t[j + 1]; e++) {
                    const double a = double(values_t[e]);
                    sum += a * u[places_t[e]], square += a * a;
                }
                g[j] = sum;
                if (squares) squares[j] = square;
            }
        });
    }
};
