// support/working_set.py: least squares with a separable penalty, from A as it is. Chains of instances are solved one
// after the other, each from the solution of the one before; chains are spread over threads. Only one chain of a large A
// has its own products spread, column by column, so that nobody's bits depend on the threads or on the neighbours.
#pragma once
#include "working_set/inner.h"

template <class T> struct WorkingSet {
    const T *A, *b, *l1, *l2, *low, *high;
    const double* start;        // (batch, n), or null: zero
    double *x, *squares, *gram; // (batch, n); of the columns, and A'A of a shared A: room for both, or null
    int64_t batch, m, n, copies, chain, most;  // `copies` of one A: `batch` where it is shared
    int64_t l1_row, l1_column, l2_row, l2_column, low_row, low_column, high_row, high_column;
    double tol, floor;
    int64_t threads;
};

constexpr int64_t STRIP = 512;             // columns whose products one thread computes
constexpr int64_t WORKING_SETS = 60;     // working sets
constexpr int64_t ITERATIONS = 1000;       // what may be spent on an instance: two products with A in each
constexpr int64_t LARGEST_COLUMNS = 1 << 24;  // numbers in double precision
constexpr int64_t LEAST = 16;
constexpr double SHARE = 1.5, SPARE = 0.9, LOOSE = 0.3, SMALL = 1e-12;  // as in support/working_set.py: a test compares them
constexpr double SHARP = 0.3;                 // of the tolerance: the gap to which a working set is solved

// g = A'z of a strip of columns, and with `squares` those of its columns
template <class T, bool SQUARES>
void strip_products(const T* A, int64_t m, int64_t n, int64_t from, int64_t to, const double* z, double* g, double* s) {
    constexpr int64_t HEIGHT = 8;
    const int64_t whole = from + (to - from) / LANES<double> * LANES<double>;
    for (int64_t j = from; j < to; j++) g[j] = 0;
    if (SQUARES)
        for (int64_t j = from; j < to; j++) s[j] = 0;
    for (int64_t i = 0; i < m; i += HEIGHT) {
        const int count = int(std::min<int64_t>(HEIGHT, m - i));
        double by[HEIGHT];
        for (int r = 0; r < count; r++) by[r] = z[i + r];
        const T* rows = A + i * n;
        const auto columns = [&](auto height) IN_PLACE {
            for (int64_t j = from; j < whole; j += LANES<double>) {
                Vec<double> sum = load(g + j), squares = SQUARES ? load(s + j) : Vec<double>{};
                for (int r = 0; r < height; r++) {
                    const Vec<double> a = widened(rows + r * n + j);
                    sum += a * by[r];
                    if (SQUARES) squares += a * a;
                }
                store(g + j, sum);
                if (SQUARES) store(s + j, squares);
            }
        };
        if (count == HEIGHT) columns(std::integral_constant<int, HEIGHT>());
        else columns(count);
        for (int64_t j = whole; j < to; j++)
            for (int r = 0; r < count; r++) {
                const double a = double(rows[r * n + j]);
                g[j] += a * by[r];
                if (SQUARES) s[j] += a * a;
            }
    }
}

template <class T>
void products(const T* A, int64_t m, int64_t n, const double* z, double* g, double* squares, int threads) {
    parallel((n + STRIP - 1) / STRIP, m * STRIP, threads, [&](int64_t part) {
        const int64_t from = part * STRIP, to = std::min(n, from + STRIP);
        if (squares) strip_products<T, true>(A, m, n, from, to, z, g, squares);
        else strip_products<T, false>(A, m, n, from, to, z, g, squares);
    });
}

// What one thread keeps for a chain
template <class T> struct Chain {
    const WorkingSet<T>& in;
    int threads;
    Columns W;
    Inner inner;
    Penalty r;
    std::vector<double> x, z, g, squares, b;
    std::vector<int64_t> more;
    std::vector<std::pair<double, int64_t>> wanted;
    const T* A = nullptr;
    const double* norms = nullptr;
    double bb = 0, square = 0, product = 0;

    Chain(const WorkingSet<T>& in, int threads) : in(in), threads(threads) { inner.W = &W; }

    void begin(int64_t instance) {
        A = in.A + instance / in.copies * in.m * in.n;
        W.begin(in.m, in.n);
        x.assign(in.n, 0), z.assign(in.m, 0), g.assign(in.n, 0), b.clear();
        norms = in.squares;
        inner.x.clear();
    }

    // z = A_W x_W - b, and its numbers
    void residual() {
        for (int64_t i = 0; i < in.m; i++) z[i] = -b[i];
        for (int64_t c = 0; c < W.count; c++)
            if (const double v = x[W.index[c]])
                for (int64_t i = 0; i < in.m; i++) z[i] += v * W.part[c * W.tall + i];
        square = product = 0;
        for (int64_t i = 0; i < in.m; i++) square += z[i] * z[i], product += z[i] * b[i];
    }

    void look() {
        residual();
        const bool first = !norms;
        if (first) squares.resize(in.n), norms = squares.data();
        products(A, in.m, in.n, z.data(), g.data(), first ? squares.data() : nullptr, threads);
    }

    // The columns in `more` join.
    void join() {
        W.add(A, more, in.gram, threads);
        inner.r.clear();
        for (int64_t j : W.index) inner.r.add(r, j);
        inner.x.resize(W.room, 0), inner.q.resize(W.room, 0);
    }

    // From x, or where there is none yet from `start`: false if there is nothing that could be done.
    bool open(int64_t instance) {
        std::vector<double> target(in.m);
        for (int64_t i = 0; i < in.m; i++) target[i] = double(in.b[instance * in.m + i]);
        const bool known = target == b;
        b.swap(target);
        bb = 0;
        for (double v : b) bb += v * v;
        more.clear();
        bool moved = !known;
        for (int64_t j = 0; j < in.n; j++) {
            if (!known && in.start) x[j] = in.start[instance * in.n + j];
            const double v = r.clipped(j, x[j]);
            moved |= v != x[j];
            x[j] = v;
            if (v != 0 && !W.inside[j]) more.push_back(j);
        }
        if (!fits(W.count + int64_t(more.size()))) {
            b.clear();  // g is not that of x
            return false;
        }
        join();
        if (moved) look();
        return true;
    }

    bool fits(int64_t count) const { return count <= in.most && count * W.tall <= LARGEST_COLUMNS; }

    void solve(int64_t instance) {
        r.take(in, instance);
        inner.r.plain = r.plain;
        inner.work = 0;
        if (!open(instance)) return;
        double steepest = 0;
        for (int64_t j = 0; j < in.n; j++) steepest = std::max(steepest, std::fabs(g[j]));
        const double tiny = LOOSE * in.tol * steepest;
        const int64_t most = ITERATIONS * 2 * in.m * in.n;
        bool rounded = sizeof(T) < sizeof(double), exact = false;
        double sharp = SHARP;
        int stuck = 0;
        for (int64_t round = 0; round < WORKING_SETS && inner.work < most; round++) {
            double value = 0.5 * square, kkt = 0;
            for (int64_t j = 0; j < in.n; j++) value += r.value(j, x[j]);
            const double gap = gap_of(r, in.n, x.data(), g.data(), square, product, tiny);
            for (int64_t j = 0; j < in.n; j++)
                if (r.loose(j, g[j])) kkt = std::max(kkt, r.residual(j, x[j], g[j]));
            const double limit = SPARE * in.tol * std::max(value - gap, in.floor * bb / 2);
            if ((gap <= limit && kkt <= tiny) || !std::isfinite(value)) return;
            choose();
            // Without l1 all that is violated will have to join.
            if (!in.l1 && !fits(W.count + int64_t(wanted.size()))) return;
            if (more.empty() && exact) {
                if (!rounded && ++stuck > 1) return;
                rounded = false;
            }
            if (more.empty()) sharp *= SHARP;
            const int64_t before = W.count, after = before + int64_t(more.size());
            if (!fits(after)) return;
            join();
            inner.work += (after - before) * after * in.m + in.m * in.n;
            for (int64_t c = 0; c < W.count; c++) inner.x[c] = x[W.index[c]], inner.q[c] = g[W.index[c]];
            inner.square = square;
            exact = inner.solve(std::max(sharp * limit, 0.0), tiny, most);
            for (int64_t c = 0; c < W.count; c++) x[W.index[c]] = rounded ? double(T(inner.x[c])) : inner.x[c];
            look();
        }
    }

    // `more`: the coordinates outside that promise most, by v^2 / (|a|^2 + l2), v being how far they are from optimal
    void choose() {
        wanted.clear();
        int64_t size = 0;
        for (int64_t j = 0; j < in.n; j++) {
            size += x[j] != 0;
            if (W.inside[j]) continue;
            const double v = r.residual(j, x[j], g[j]);
            if (v > SMALL * std::fabs(g[j])) wanted.push_back({v * v / (norms[j] + r.l2[j]), j});
        }
        const int64_t usual = std::max<int64_t>(LEAST, int64_t(SHARE * std::sqrt(double(in.n))));
        const int64_t count = std::min<int64_t>(std::max(usual, size), int64_t(wanted.size()));
        const auto better = [](const auto& a, const auto& b) {
            return a.first > b.first || (a.first == b.first && a.second < b.second);
        };
        std::partial_sort(wanted.begin(), wanted.begin() + count, wanted.end(), better);
        more.clear();
        for (int64_t i = 0; i < count; i++) more.push_back(wanted[i].second);
        std::sort(more.begin(), more.end());
    }

    // A thread keeps what it needs for the next chain, unless that is much.
    void end() {
        if (W.room * (W.room + W.tall) > (1 << 21)) W.release();
    }
};

// A shared A: what all of its instances need, once
template <class T> void prepare(const WorkingSet<T>& in) {
    if (in.squares) {
        std::vector<double> nothing(in.m, 0), g(in.n);
        products(in.A, in.m, in.n, nothing.data(), g.data(), in.squares, int(in.threads));
    }
    if (!in.gram) return;
    Columns all;
    std::vector<int64_t> everyone(in.n);
    for (int64_t j = 0; j < in.n; j++) everyone[j] = j;
    all.begin(in.m, in.n);
    all.add(in.A, everyone, nullptr, int(in.threads));
    for (int64_t j = 0; j < in.n; j++) std::copy_n(&all.G[j * all.room], in.n, in.gram + j * in.n);
}

template <class T> void working_set(const WorkingSet<T>& in) {
    prepare(in);
    const int64_t chains = in.batch / in.chain, cost = 8 * in.chain * in.m * in.n;
    const int alone = chains == 1 ? int(in.threads) : 1;
    parallel(chains, cost, int(in.threads), [&](int64_t which) {
        Chain<T> chain(in, alone);
        for (int64_t i = which * in.chain; i < (which + 1) * in.chain; i++) {
            if (i == which * in.chain) chain.begin(i);
            chain.solve(i);
            std::copy_n(chain.x.data(), in.n, in.x + i * in.n);
        }
    });
}
