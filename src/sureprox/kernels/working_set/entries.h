// The same of a sparse A, whose columns stay where they are.
#pragma once
#include "working_set/columns.h"

// A by columns (CSR of A'), and A_W by rows
template <class T> struct Entries : Normal {
    static constexpr int64_t TASK = 16;  // rows of G that one thread computes
    const int *starts_t = nullptr, *places_t = nullptr;
    const T* values_t = nullptr;
    int64_t entries = 0;                         // of A
    std::vector<int64_t> begins;                 // (m + 2): of the rows of A_W, and their end
    std::vector<std::pair<int, double>> by_row;  // place in W, rising in each row, and value

    template <class In> void begin(const In& in, int64_t) {
        Normal::begin(in.m, in.n);
        starts_t = in.starts_t, places_t = in.places_t, values_t = in.values_t;
        entries = starts_t[n];
    }
    bool fits(int64_t) const { return true; }
    int64_t read() const { return std::max<int64_t>(entries, 1); }
    int64_t made(int64_t before) const { return (count - before) * count + int64_t(by_row.size()); }
    // work(c, i, a) for every entry a in row i of column c of A_W
    template <class Work> void every(const Work& work) const {
        for (int64_t c = 0; c < count; c++)
            for (int e = starts_t[index[c]]; e < starts_t[index[c] + 1]; e++) work(c, places_t[e], double(values_t[e]));
    }

    void add(const std::vector<int64_t>& more) {
        join(more);
        begins.assign(m + 2, 0);
        every([&](int64_t, int i, double) { begins[i + 2]++; });
        for (int64_t i = 0; i < m; i++) begins[i + 2] += begins[i + 1];
        by_row.resize(begins[m + 1]);
        every([&](int64_t c, int i, double a) { by_row[begins[i + 1]++] = {int(c), a}; });
    }
    void square(int64_t before, const double*, int threads) {
        if (before < count) outer_products(before, [](int64_t) { return 1.0; }, threads);
    }
    void weigh(const std::vector<double>& D, int threads) {
        outer_products(0, [&](int64_t i) { return D[i]; }, threads);
    }
    // G_pq = sum_i D_i a_ip a_iq over the entries of column p and those of their rows: rows and columns from `first` on
    template <class Weight> void outer_products(int64_t first, const Weight& D, int threads) {
        const int64_t tasks = (count - first + TASK - 1) / TASK, each = int64_t(by_row.size()) / count;
        parallel(tasks, TASK * each * (1 + int64_t(by_row.size()) / m), threads, [&](int64_t task) {
            for (int64_t p = first + task * TASK; p < std::min(count, first + (task + 1) * TASK); p++) {
                double* to = &G[p * room];
                std::fill(to, to + p + 1, 0.0);
                for (int e = starts_t[index[p]]; e < starts_t[index[p] + 1]; e++) {
                    const int i = places_t[e];
                    const double by = D(i) * double(values_t[e]);
                    for (int64_t k = begins[i]; k < begins[i + 1] && by_row[k].first <= p; k++)
                        to[by_row[k].first] += by * by_row[k].second;
                }
            }
        });
        for (int64_t p = first; p < count; p++)
            for (int64_t q = 0; q < p; q++) G[q * room + p] = G[p * room + q];
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
            for (int64_t j = strip * STRIP; j < std::min(n, (strip + 1) * STRIP); j++) column(j, u, g, squares);
        });
    }
    // <a_j, u> and |a_j|^2, by sums that do not wait for each other
    void column(int64_t j, const double* u, double* g, double* squares) const {
        constexpr int SUMS = 4;
        double sum[SUMS] = {}, square[SUMS] = {};
        const int first = starts_t[j], end = starts_t[j + 1], whole = first + (end - first) / SUMS * SUMS;
        const auto take = [&](int e, int k) IN_PLACE {
            const double a = double(values_t[e]);
            sum[k] += a * u[places_t[e]], square[k] += a * a;
        };
        for (int e = first; e < whole; e += SUMS)
            for (int k = 0; k < SUMS; k++) take(e + k, k);
        for (int e = whole; e < end; e++) take(e, 0);
        g[j] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        if (squares) squares[j] = (square[0] + square[1]) + (square[2] + square[3]);
    }
};
