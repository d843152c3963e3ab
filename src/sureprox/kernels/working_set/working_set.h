// support/working_set.py: a loss with a separable penalty, from A as it is. Chains of instances are solved one after the
// other, each from the solution of the one before; chains are spread over threads. Only one chain of a large A has its own
// products spread, column by column, so that nobody's bits depend on the threads or on the neighbours.
#pragma once
#include "working_set/entries.h"
#include "working_set/inner.h"

template <class T> struct WorkingSet {
    const T *A, *b, *l1, *l2, *low, *high;  // A: dense, or null
    const int *starts_t, *places_t;         // of a sparse A: A' by rows, else null
    const T* values_t;
    const double* start;        // (batch, n), or null: zero
    double *x, *out, *gradient; // (batch, n), and what is known there: (batch, 3) and (batch, n), see certificate.h
    double *squares, *gram;     // of the columns, and A'A of a shared A: room for both, or null
    int64_t batch, m, n, copies, chain, most, logistic;  // `copies` of one A: `batch` where it is shared
    int64_t l1_row, l1_column, l2_row, l2_column, low_row, low_column, high_row, high_column;
    double tol, floor;
    int64_t threads;
};

constexpr int64_t WORKING_SETS = 60;     // working sets
constexpr int64_t ITERATIONS = 1000;     // what may be spent on an instance: two products with A in each,
constexpr int64_t ENOUGH = 1 << 26;      // or so many multiply-adds, tens of milliseconds
constexpr int64_t LEAST = 16, MANY = 512;
constexpr double SHARE = 1.5, SPARE = 0.9, LOOSE = 0.3, SMALL = 1e-12;  // as in support/working_set.py: a test compares them
constexpr double FLATTEST = 1e-6, LEVEL = 4e-15;
constexpr int64_t LENGTHS = 30;
constexpr double CLOSE = 1e-6;                // the tolerance of a chain at most: near the path the next step is a short one
constexpr double SHARP = 0.3;                 // of the tolerance: the gap to which a working set is solved,
constexpr double ROUGH = 1e-3;                // and of the gap at which a model is made

// What one thread keeps for a chain
template <class T, class Held, class Loss> struct Chain {
    const WorkingSet<T>& in;
    int threads;
    Held W;
    Inner inner;
    Penalty r;
    Loss loss;
    std::vector<double> x, t, u, g, squares, b, D, v, move;
    std::vector<int64_t> more;
    std::vector<std::pair<double, int64_t>> wanted;
    const double* norms = nullptr;
    double at_zero = 0;  // f(0)

    Chain(const WorkingSet<T>& in, int threads) : in(in), threads(threads) { inner.W = &W; }

    void begin(int64_t instance) {
        W.begin(in, instance);
        x.assign(in.n, 0), t.assign(in.m, 0), u.assign(in.m, 0), g.assign(in.n, 0), b.clear();
        norms = in.squares;
        inner.x.clear();
        inner.forget();
    }

    // t = A x and what follows from it
    void look() {
        v.resize(W.count);
        for (int64_t c = 0; c < W.count; c++) v[c] = x[W.index[c]];
        W.image(v.data(), t.data());
        loss.begin(in.m);
        for (int64_t i = 0; i < in.m; i++) u[i] = loss.row(t[i], b[i]);
        const bool first = !norms;
        if (first) squares.resize(in.n), norms = squares.data();
        W.products(u.data(), g.data(), first ? squares.data() : nullptr, threads);
    }

    double value() const {
        double value = loss.value();
        for (int64_t j = 0; j < in.n; j++) value += r.value(j, x[j]);
        return value;
    }

    // The columns in `more` join.
    void join() {
        W.add(more);
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
        if (!known) {
            at_zero = 0;
            loss.begin(in.m);
            for (double target : b) at_zero += loss.term(0, target);
        }
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
        const int64_t before = W.count;
        join();
        if (Loss::QUADRATIC) W.square(before, in.gram, threads);
        if (moved) look();
        return true;
    }

    bool fits(int64_t count) const { return count <= in.most && W.fits(count); }

    // x, and what is known there: of t and g, which were computed from A; nothing where there was no room for that
    void give(int64_t instance) const {
        double* out = in.out + 3 * instance;
        if (b.empty()) std::fill(out, out + 3, std::nan(""));
        else judge(r, in.n, x.data(), g.data(), loss, out);
        std::copy_n(x.data(), in.n, in.x + instance * in.n);
        std::copy_n(g.data(), in.n, in.gradient + instance * in.n);
    }

    // `followed`: the solution of the instance before is known.
    void solve(int64_t instance, bool followed) {
        r.take(in, instance);
        inner.r.plain = r.plain;
        inner.work = 0;
        if (!open(instance)) return;
        double steepest = 0;
        for (int64_t j = 0; j < in.n; j++) steepest = std::max(steepest, std::fabs(g[j]));
        const double tol = in.chain > 1 ? std::min(in.tol, CLOSE) : in.tol, tiny = LOOSE * tol * steepest;
        const int64_t most = std::max(ENOUGH, ITERATIONS * 2 * W.read());
        bool rounded = sizeof(T) < sizeof(double), exact = false;
        double sharp = SHARP, last = Penalty::NONE;
        int stuck = 0;
        for (int64_t round = 0; round < WORKING_SETS && inner.work < most; round++) {
            const double value = this->value(), gap = gap_of(r, in.n, x.data(), g.data(), loss, tiny);
            if (!Loss::QUADRATIC) exact |= !(value < last - LEVEL * std::fabs(last));  // what was gained, rounding took
            last = value;
            double kkt = 0;
            for (int64_t j = 0; j < in.n; j++)
                if (r.loose(j, g[j])) kkt = std::max(kkt, r.residual(j, x[j], g[j]));
            const double limit = SPARE * tol * std::max(value - gap, in.floor * at_zero);
            if ((gap <= limit && kkt <= tiny) || !std::isfinite(value)) return;
            choose();
            // Without l1 all that is violated will have to join.
            if (!in.l1 && !fits(W.count + int64_t(wanted.size()))) return;
            if (more.empty() && exact) {
                if (!rounded && ++stuck > 1) return;
                rounded = false;
            }
            if (more.empty()) sharp *= SHARP;
            const int64_t before = W.count;
            if (!fits(before + int64_t(more.size()))) return;
            join();
            inner.work += W.made(Loss::QUADRATIC ? before : 0) + W.read();
            model(before);
            for (int64_t c = 0; c < W.count; c++) inner.x[c] = x[W.index[c]], inner.q[c] = g[W.index[c]];
            const double rough = Loss::QUADRATIC ? 0 : ROUGH * gap;
                        const bool follows = Loss::QUADRATIC && round == 0 && followed;
            exact = inner.solve(std::max(sharp * limit, rough), tiny, most, follows);
            const double share = Loss::QUADRATIC ? 1 : searched(value, exact);
            for (int64_t c = 0; c < W.count; c++) {
                double& at = x[W.index[c]];
                const double there = share == 1 ? inner.x[c] : at + share * (inner.x[c] - at);
                at = rounded ? double(T(there)) : there;
            }
            look();
        }
    }

    // The quadratic model of the loss on W
    void model(int64_t before) {
        if (Loss::QUADRATIC) {
            W.square(before, in.gram, threads);
            inner.square = 2 * loss.value();
            return;
        }
        D.resize(in.m);
        double top = 0;
        for (int64_t i = 0; i < in.m; i++) D[i] = loss.curvature(i), top = std::max(top, D[i]);
        inner.square = 0;
        for (int64_t i = 0; i < in.m; i++) {
            D[i] = std::max(D[i], FLATTEST * top);
            inner.square += u[i] * u[i] / D[i];
        }
        W.weigh(D, threads);
        inner.forget();
    }

    // The longest of 1, 1/2, 1/4, ... times the way to the minimum of the model that lowers F, or 0; all of it too where F
    // tells no difference. `still`: whether F stays as it is but for rounding.
    double searched(double value, bool& still) {
        v.resize(W.count), move.resize(in.m);
        for (int64_t c = 0; c < W.count; c++) v[c] = inner.x[c] - x[W.index[c]];
        W.image(v.data(), move.data());
        double rest = 0;  // of r beyond W
        for (int64_t j = 0; j < in.n; j++)
            if (!W.inside[j]) rest += r.value(j, x[j]);
        const double rounding = LEVEL * std::fabs(value);
        double share = 1;
        still = false;
        for (int64_t k = 0; k < LENGTHS; k++, share /= 2) {
            double there = rest;
            for (int64_t i = 0; i < in.m; i++) there += loss.term(t[i] + share * move[i], b[i]);
            for (int64_t c = 0; c < W.count; c++) there += inner.r.value(c, x[W.index[c]] + share * v[c]);
            if (there < value - rounding) return share;
            still = k == 0 && there <= value + rounding;
            if (still) return share;
        }
        still = true;
        return 0;
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
        const double root = SHARE * std::sqrt(double(in.n)), thin = std::sqrt(double(in.m) * in.n / W.read());
        const int64_t usual = std::max<int64_t>(LEAST, int64_t(std::max(root, std::min<double>(root * thin, MANY))));
        const int64_t count = std::min<int64_t>(std::max(usual, size), int64_t(wanted.size()));
        const auto better = [](const auto& a, const auto& b) {
            return a.first > b.first || (a.first == b.first && a.second < b.second);
        };
        std::partial_sort(wanted.begin(), wanted.begin() + count, wanted.end(), better);
        more.clear();
        for (int64_t i = 0; i < count; i++) more.push_back(wanted[i].second);
        std::sort(more.begin(), more.end());
    }
};

// A shared A: what all of its instances need, once
template <class Held, class T> void prepare(const WorkingSet<T>& in) {
    if (!in.squares) return;
    Held all;
    all.begin(in, 0);
    std::vector<double> nothing(in.m, 0), g(in.n);
    all.products(nothing.data(), g.data(), in.squares, int(in.threads));
    if (!in.gram) return;
    std::vector<int64_t> everyone(in.n);
    for (int64_t j = 0; j < in.n; j++) everyone[j] = j;
    all.add(everyone);
    all.square(0, nullptr, int(in.threads));
    for (int64_t j = 0; j < in.n; j++) std::copy_n(&all.G[j * all.room], in.n, in.gram + j * in.n);
}

template <class Held, class Loss, class T> void working_sets(const WorkingSet<T>& in) {
    prepare<Held>(in);
    const int64_t chains = in.batch / in.chain, cost = 8 * in.chain * in.m * in.n;
    const int alone = chains == 1 ? int(in.threads) : 1;
    parallel(chains, cost, int(in.threads), [&](int64_t which) {
        Chain<T, Held, Loss> chain(in, alone);
        for (int64_t i = which * in.chain; i < (which + 1) * in.chain; i++) {
            const bool first = i == which * in.chain;
            if (first) chain.begin(i);
            chain.solve(i, !first);
            chain.give(i);
        }
    });
}

template <class T> void working_set(const WorkingSet<T>& in) {
    if (in.starts_t) return in.logistic ? working_sets<Entries<T>, Logistic>(in) : working_sets<Entries<T>, Squares>(in);
    return in.logistic ? working_sets<Columns<T>, Logistic>(in) : working_sets<Columns<T>, Squares>(in);
}
