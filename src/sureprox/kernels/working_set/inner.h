// The problem of the working set alone: coordinate descent on its normal matrix G, and Newton steps on the coordinates at
// which r has a slope, by Cholesky factors.
#pragma once
#include "certificate/losses.h"
#include "certificate/separable.h"
#include "working_set/columns.h"

constexpr int64_t EPOCHS = 400;  // of one call, at most
constexpr double FLAT = 1e-9;    // relative: less of a slope is rounding
constexpr int64_t WORTH = 5;     // multiply-adds of a Newton step that take as long as one of coordinate descent
constexpr double TURN = 10;      // and as long as one of a coordinate that leaves a factor

struct Inner {
    enum Outcome { REACHED, MOVED, STUCK };
    static constexpr int64_t NOBODY = -1, LOST = -2;
    const Normal* W = nullptr;
    Penalty r;                 // of the working set
    std::vector<double> x, q;  // (room): the point, and the gradient there
    double square = 0;         // |A x - b|^2, or what takes its place in a model: <u, u / D>, u = phi'
    int64_t work = 0;          // multiply-adds so far
    std::vector<int64_t> moving, gone;  // the rows of the factor; the places of those that leave it
    std::vector<char> held;
    bool anew = false;
    std::vector<double> right, d, image, there, by, other, ridge;
    Cholesky factor;  // of G + diag(l2) for those that move

    int64_t count() const { return W->count; }
    const double* row(int64_t c) const { return &W->G[c * W->room]; }

    // to += by G_c
    void follow(std::vector<double>& to, int64_t c, double by) const {
        const double* G = row(c);
        for (int64_t k = 0; k < count(); k += LANES<double>) store(&to[k], load(&to[k]) + by * load(G + k));
    }

    // to = sum_i d_i G_c, c = moving[i]: some rows at a time, added up one after the other
    void combine(const std::vector<double>& d, std::vector<double>& to) const {
        to.assign(x.size(), 0);
        const int64_t size = int64_t(moving.size()), whole = size / TILE * TILE;
        for (int64_t i = 0; i < whole; i += TILE) {
            const double *G[TILE], *by = &d[i];
            for (int a = 0; a < TILE; a++) G[a] = row(moving[i + a]);
            for (int64_t k = 0; k < count(); k += LANES<double>) {
                Vec<double> sum = load(&to[k]);
                for (int a = 0; a < TILE; a++) sum += by[a] * load(G[a] + k);
                store(&to[k], sum);
            }
        }
        for (int64_t i = whole; i < size; i++) follow(to, moving[i], d[i]);
    }

    // x_c takes its best value; whether it has changed its side of the kink or left or reached a bound
    bool descend(int64_t c) {
        const double G = row(c)[c], h = G + r.l2[c], old = x[c];
        if (!(h > 0)) return false;
        const double v = G * old - q[c], soft = v > r.l1[c] ? v - r.l1[c] : v < -r.l1[c] ? v + r.l1[c] : 0;
        const double best = r.clipped(c, soft / h), by = best - old;
        work += 1;
        if (by == 0 || !(by == by)) return false;
        square += by * (2 * q[c] + by * G);
        x[c] = best;
        follow(q, c, by);
        work += count();
        return side(c, best) != side(c, old);
    }
    int side(int64_t c, double v) const {
        return v <= r.low[c] ? -2 : v >= r.high[c] ? 2 : r.l1[c] == 0 ? 0 : v > 0 ? 1 : v < 0 ? -1 : 3;
    }

    // The gap of this problem, 0 where it is solved
    double gap(double tiny) const {
        double product = square;  // z'b = <z, A x> - |z|^2
        for (int64_t c = 0; c < count(); c++) product -= q[c] * x[c];
        return gap_of(r, count(), x.data(), q.data(), Squares{std::max(square, 0.0), -product}, tiny);
    }

    // How far x_c may move before r has another slope there
    double lowest(int64_t c) const { return r.l1[c] > 0 && x[c] > 0 ? std::max(r.low[c], 0.0) : r.low[c]; }
    double highest(int64_t c) const { return r.l1[c] > 0 && x[c] < 0 ? std::min(r.high[c], 0.0) : r.high[c]; }

    // The coordinates that a Newton step moves, `held`, and the places of those that leave the factor: they are gone or have
    // another l2. `anew`: all rows from the first of them on are computed anew. The multiply-adds that all this takes.
    int64_t changes() {
        held.assign(count(), 0);
        double size = 0, turns = 0;
        for (int64_t c = 0; c < count(); c++) held[c] = std::abs(side(c, x[c])) < 2, size += held[c];
        const double before = double(moving.size());
        gone.clear();
        for (int64_t i = 0; i < int64_t(before); i++)
            if (!held[moving[i]] || ridge[i] != r.l2[moving[i]]) gone.push_back(i), turns += (before - i) * (before - i);
        const auto cube = [](double v) { return v * v * v / 6; };
        double kept = before - double(gone.size()), cost = turns;
        anew = false;
        if (!gone.empty()) {
            const bool depends = !factor.dependent.empty() && factor.dependent.back() >= gone[0];
            anew = depends || TURN * turns > cube(before) - cube(double(gone[0]));
            if (anew) kept = double(gone[0]), cost = 0;
        }
        return int64_t(cost + cube(size) - cube(kept));
    }

    // The factor of those that move; their number.
    int64_t face() {
        work += changes();
        if (anew) moving.resize(gone[0]), ridge.resize(gone[0]), factor.keep(gone[0], gone[0]);
        for (size_t i = anew ? 0 : gone.size(); i-- > 0;) {
            factor.remove(gone[i]);
            moving.erase(moving.begin() + gone[i]), ridge.erase(ridge.begin() + gone[i]);
        }
        for (int64_t c : moving) held[c] = 0;
        for (int64_t c = 0; c < count(); c++)
            if (held[c]) moving.push_back(c), ridge.push_back(r.l2[c]);
        factor.extend(int64_t(moving.size()), [&](int64_t i, int64_t j) {
            return row(moving[i])[moving[j]] + (i == j ? ridge[i] : 0);
        });
        return int64_t(moving.size());
    }
    // Nothing is known of G any more.
    void forget() { moving.clear(), ridge.clear(), factor.keep(0, 0); }

    // To the solution with these slopes, or as far towards it as they last, or to its projection, whichever is lower;
    // whether it was reached.
    Outcome newton() {
        const int64_t size = face();
        if (!size) return REACHED;
        right.resize(size), d.assign(size, 0);
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = moving[i];
            right[i] = -(q[c] + r.l2[c] * x[c] + side(c, x[c]) * r.l1[c]);
        }
        work += 2 * size * size + size * count();
        for (int64_t which : factor.dependent)
            if (slide(which)) return MOVED;
        factor.solve(right.data(), d.data());
        double until = 1, slope = 0, bend = 0;
        const int64_t first = first_end(until);
        if (first == LOST) return STUCK;
        if (first < 0) {
            shift(1, -1);
            return REACHED;
        }
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = moving[i];
            slope -= right[i] * d[i], bend += d[i] * (image[c] + r.l2[c] * d[i]);
        }
        const double partly = until * (slope + until * bend / 2);
        // the projection of the whole step
        there.resize(size), by.resize(size);
        double whole = 0;
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = moving[i];
            there[i] = std::min(std::max(x[c] + d[i], lowest(c)), highest(c));
            by[i] = there[i] - x[c];
        }
        combine(by, other);
        work += size * count();
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = moving[i];
            whole += by[i] * (other[c] / 2 + r.l2[c] * by[i] / 2 - right[i]);
        }
        if (!(whole < partly)) {
            shift(until, first);
            return MOVED;
        }
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = moving[i];
            square += by[i] * (2 * q[c] + other[c]);
            x[c] = there[i];
        }
        for (int64_t c = 0; c < count(); c++) q[c] += other[c];
        return MOVED;
    }

    // Where F changes along a direction that A_W does not see, but r does: to the first end; whether there was one.
    bool slide(int64_t which) {
        factor.null_vector(which, d.data());
        double slope = 0, size = 0;
        for (int64_t i = 0; i < int64_t(moving.size()); i++) {
            const int64_t c = moving[i];
            slope -= right[i] * d[i], size += std::fabs(d[i]) * (std::fabs(q[c]) + r.l1[c]);
        }
        if (!(std::fabs(slope) > FLAT * size)) return false;
        if (slope > 0)
            for (double& v : d) v = -v;
        double until = Penalty::NONE;
        const int64_t first = first_end(until);
        if (first < 0) return false;
        shift(until, first);
        return true;
    }

    // image = G d, and the coordinate that reaches its end first, before `until` times d; NOBODY, or LOST if d is
    int64_t first_end(double& until) {
        int64_t first = NOBODY;
        for (int64_t i = 0; i < int64_t(moving.size()); i++) {
            const int64_t c = moving[i];
            if (!std::isfinite(d[i])) return LOST;
            const double end = d[i] < 0 ? lowest(c) : highest(c), share = d[i] != 0 ? (end - x[c]) / d[i] : until;
            if (share < until) until = share, first = i;
        }
        combine(d, image);
        return first;
    }

    // x + t d; the coordinate number `first` of those that move reaches its end exactly.
    void shift(double t, int64_t first) {
        for (int64_t i = 0; i < int64_t(moving.size()); i++) {
            const int64_t c = moving[i];
            square += t * d[i] * (2 * q[c] + t * image[c]);
            const double end = d[i] < 0 ? lowest(c) : highest(c);
            x[c] = i == first ? end : std::min(std::max(x[c] + t * d[i], lowest(c)), highest(c));
        }
        for (int64_t c = 0; c < count(); c++) q[c] += t * image[c];
    }

    // Until the gap is below `target`; whether no coordinate would move any further but by rounding. What `follows` the
    // solution for another penalty begins with a Newton step: between two penalties at which the support changes it is all.
    bool solve(double target, double tiny, int64_t most, bool follows) {
        bool reached = false;  // the last step was Newton's, to its end
        int64_t since = work;
        if (follows && W->count && newton() != STUCK && gap(tiny) <= target) return false;
        for (int64_t epoch = 0; epoch < EPOCHS && work < most; epoch++) {
            bool turned = false;
            for (int64_t c = 0; c < count(); c++) turned |= descend(c);
            if (reached && !turned) return true;
            if (gap(tiny) <= target) return false;
            int64_t size = 0;
            for (int64_t c = 0; c < count(); c++) size += x[c] != 0;
            reached = false;
            const int64_t cost = changes() + size * (size + count());
            if (WORTH * (work - since) < cost * (turned ? 2 : 1)) continue;
            Outcome outcome = newton();
            for (int64_t step = 0; step < size && outcome == MOVED && work < most; step++) {
                if (gap(tiny) <= target) return false;
                outcome = newton();
            }
            reached = outcome == REACHED;
            since = work;
        }
        return false;
    }
};
