// support/newton.py for LASSO problems with an A each: from x, its gradient and A to the point, as lasso_polish.cu does it.
//
// The candidates W are the support of x and, an eighth as many, the coordinates outside with the largest |g|. In each
// round of the active set method G_SS is factorized, G = A_W'A_W in double precision. If a coordinate that was no
// candidate should have joined at the point that comes out, or the rounds were not enough, all is done once more from
// there.
#pragma once
#include "runtime/widened.h"
#include "support/rules.h"

template <class T> struct Polish {
    const T *A, *lam;     // (count, m, n), (count)
    const int64_t* rows;  // (batch), numbers of instances
    const double *x, *g;  // (batch, n), a point of each of them and the gradient there
    double* z;            // (batch, n)
    int64_t batch, m, n, rounds, threads;
};

constexpr int TALL = 4, BROAD = 2 * LANES<double>;

// What one thread needs for one instance of n coordinates and m rows. `wide`: candidates, rounded up.
struct Candidates {
    int64_t m, n, width = 0, size = 0, wide = 0;
    std::vector<int64_t> columns;
    std::vector<double> part, G, U, x, g, pull, d, z, slope;
    std::vector<char> inside;

    Candidates(int64_t m, int64_t n) : m(m), n(n) {}

    // Whether there are any
    bool choose(const double* at, const double* gradient, double lam) {
        columns.clear();
        std::vector<int64_t> others;
        for (int64_t j = 0; j < n; j++) (at[j] != 0 || lam == 0 ? columns : others).push_back(j);
        size = int64_t(columns.size());
        if (size > m) return false;
        width = std::min(candidates_for(size), n);
        const auto steepness = [&](int64_t j) { return gradient[j] == gradient[j] ? std::fabs(gradient[j]) : 0; };
        const auto steeper = [&](int64_t a, int64_t b) {
            const double first = steepness(a), second = steepness(b);
            return first > second || (first == second && a < b);
        };
        std::partial_sort(others.begin(), others.begin() + (width - size), others.end(), steeper);
        columns.insert(columns.end(), others.begin(), others.begin() + (width - size));
        wide = rounded_up(width + 1, BROAD);
        for (auto* values : {&x, &g, &pull, &d, &z, &slope}) values->assign(wide, 0);
        inside.assign(width, 0);
        for (int64_t c = 0; c < width; c++) {
            x[c] = at[columns[c]], g[c] = gradient[columns[c]], inside[c] = c < size;
            pull[c] = pull_of(x[c], lam);
        }
        return true;
    }

    // part (m, wide): the columns; G (wide, wide), its lower half first
    template <class T> void form(const T* A) {
        part.assign(m * wide, 0);
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = 0; c < width; c++) part[i * wide + c] = A[i * n + columns[c]];
        G.assign(wide * wide, 0);
        for (int64_t p = 0; p < width; p += TALL)
            for (int64_t q = 0; q < p + TALL; q += BROAD) {
                Vec<double> sums[TALL][2] = {};
                for (const double* row = part.data(); row < part.data() + m * wide; row += wide) {
                    const Vec<double> first = load(row + q), second = load(row + q + LANES<double>);
                    for (int i = 0; i < TALL; i++) sums[i][0] += row[p + i] * first, sums[i][1] += row[p + i] * second;
                }
                for (int i = 0; i < TALL; i++)
                    for (int v = 0; v < 2; v++) store(&G[(p + i) * wide + q + v * LANES<double>], sums[i][v]);
            }
        for (int64_t i = 0; i < width; i++)
            for (int64_t k = i + 1; k < width; k++) G[i * wide + k] = G[k * wide + i];
    }

    // to += G d
    void add_image(std::vector<double>& to) const {
        for (int64_t k = 0; k < width; k++)
            if (d[k] != 0)
                for (int64_t j = 0; j < wide; j += LANES<double>) store(&to[j], load(&to[j]) + d[k] * load(&G[k * wide + j]));
    }

    // d in S: G_SS d_S = r, by elimination in U (count, stride), whose last column is r; whether A_S has full rank.
    bool solve(const std::vector<double>& r) {
        std::vector<int64_t> on;
        for (int64_t c = 0; c < width; c++)
            if (inside[c]) on.push_back(c);
        const int64_t count = int64_t(on.size()), stride = rounded_up(count + 1, LANES<double>);
        U.assign(count * stride, 0);
        for (int64_t i = 0; i < count; i++) {
            for (int64_t k = i; k < count; k++) U[i * stride + k] = G[on[i] * wide + on[k]];
            U[i * stride + count] = r[on[i]];
        }
        for (int64_t j = 0; j < count; j++) {
            const double* top = &U[j * stride];
            if (!(top[j] > 0)) return false;
            for (int64_t i = j + 1; i < count; i++) {
                const double by = top[i] / top[j];
                double* row = &U[i * stride];
                // whole vectors: what is left of the diagonal is not used
                for (int64_t k = i / LANES<double> * LANES<double>; k < stride; k += LANES<double>)
                    store(row + k, load(row + k) - by * load(top + k));
            }
        }
        for (int64_t j = count - 1; j >= 0; j--) {
            double value = U[j * stride + count];
            for (int64_t k = j + 1; k < count; k++) value -= U[j * stride + k] * d[on[k]];
            d[on[j]] = value / U[j * stride + j];
        }
        return true;
    }

    enum Outcome { FAILED, UNFINISHED, FINISHED };

    // z: the point, zero outside S, if it could be computed; whether more rounds would change it.
    Outcome active_set(double lam, int64_t rounds) {
        for (int64_t round = 0; round < rounds; round++) {
            for (int64_t j = 0; j < width; j++) d[j] = inside[j] ? 0 : x[j], slope[j] = pull[j] - g[j];
            add_image(slope);
            if (!solve(slope)) return FAILED;
            for (int64_t j = 0; j < width; j++) d[j] = inside[j] ? d[j] : -x[j];
            slope = g;
            add_image(slope);
            bool changed = false;
            for (int64_t j = 0; j < width; j++) {
                const double there = x[j] + d[j];
                if (!std::isfinite(there)) return FAILED;
                const bool leaves = leaves_at(pull[j], there), joins = joins_at(inside[j], slope[j], lam * (1 + SLACK));
                z[j] = leaves ? 0 : there;
                if (leaves || joins) {
                    pull[j] = next_pull(joins, slope[j], lam);
                    inside[j] = !inside[j], changed = true;
                }
            }
            if (!changed) return FINISHED;
        }
        return UNFINISHED;
    }

    // gradient (n), at x, becomes that at z; whether all but the candidates are where they should be.
    template <class T> bool complete(const T* A, double* gradient, double lam) {
        for (int64_t c = 0; c < width; c++) d[c] = z[c] - x[c];
        for (int64_t i = 0; i < m; i += TALL) {
            double images[TALL] = {};
            const int count = int(std::min<int64_t>(TALL, m - i));
            for (int r = 0; r < count; r++) {
                Vec<double> sums = {};
                for (int64_t c = 0; c < wide; c += LANES<double>) sums += load(&part[(i + r) * wide + c]) * load(&d[c]);
                images[r] = total<double>(sums);
            }
            int64_t j = 0;
            for (; count == TALL && j + LANES<double> <= n; j += LANES<double>) {
                Vec<double> sum = load(gradient + j);
                for (int r = 0; r < TALL; r++) sum += images[r] * widened(A + (i + r) * n + j);
                store(gradient + j, sum);
            }
            for (; j < n; j++)
                for (int r = 0; r < count; r++) gradient[j] += images[r] * double(A[(i + r) * n + j]);
        }
        std::vector<char> candidate(n, 0);
        for (int64_t c = 0; c < width; c++) candidate[columns[c]] = 1;
        for (int64_t j = 0; j < n; j++)
            if (!candidate[j] && std::fabs(gradient[j]) > lam * (1 + SLACK)) return false;
        return true;
    }
};

template <class T> void polish(const Polish<T>& in) {
    parallel(in.batch, 2 * in.m * in.n, in.threads, [&](int64_t r) {
        const T* A = in.A + in.rows[r] * in.m * in.n;
        const double lam = in.lam[in.rows[r]];
        double* z = in.z + r * in.n;
        std::memcpy(z, in.x + r * in.n, in.n * sizeof(double));
        std::vector<double> gradient(in.g + r * in.n, in.g + (r + 1) * in.n);
        thread_local Candidates kept(0, 0);
        kept.m = in.m, kept.n = in.n;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            if (!kept.choose(z, gradient.data(), lam)) return;
            kept.form(A);
            const auto outcome = kept.active_set(lam, in.rounds);
            if (outcome == Candidates::FAILED) return;
            const bool last = attempt == ATTEMPTS - 1 ||
                              (kept.complete(A, gradient.data(), lam) && outcome == Candidates::FINISHED);
            std::memset(z, 0, in.n * sizeof(double));
            for (int64_t c = 0; c < kept.width; c++) z[kept.columns[c]] = kept.z[c];
            if (last) return;
        }
    });
}
