// The penalty r(x) = sum_j [l1_j |x_j| + l2_j/2 x_j^2], low_j <= x_j <= high_j, of one instance, and the duality gap of a
// loss with it: what problems/separable.py computes and explains, in double precision.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// Where the numbers of a penalty lie: one for each instance and coordinate, steps of zero where they are shared; null
// where the penalty has no such part.
template <class T> struct Spread {
    const T* at;
    int64_t row, column;
    void copy(int64_t instance, int64_t n, double none, std::vector<double>& to) const {
        to.assign(n, none);
        if (at)
            for (int64_t j = 0; j < n; j++) to[j] = double(at[instance * row + j * column]);
    }
};

template <class T> Spread<T> spread(const T* at, int64_t row, int64_t column) { return {at, row, column}; }

struct Penalty {
    static constexpr double NONE = std::numeric_limits<double>::infinity();
    std::vector<double> l1, l2, low, high;
    bool plain = true;  // neither l2 nor bounds

    // That of one instance of the struct of a kernel
    template <class In> void take(const In& in, int64_t instance) {
        spread(in.l1, in.l1_row, in.l1_column).copy(instance, in.n, 0, l1);
        spread(in.l2, in.l2_row, in.l2_column).copy(instance, in.n, 0, l2);
        spread(in.low, in.low_row, in.low_column).copy(instance, in.n, -NONE, low);
        spread(in.high, in.high_row, in.high_column).copy(instance, in.n, NONE, high);
        plain = !in.l2 && !in.low && !in.high;
    }
    void clear() { l1.clear(), l2.clear(), low.clear(), high.clear(); }
    void add(const Penalty& from, int64_t j) {
        l1.push_back(from.l1[j]), l2.push_back(from.l2[j]);
        low.push_back(from.low[j]), high.push_back(from.high[j]);
    }
    double clipped(int64_t j, double v) const { return std::min(std::max(v, low[j]), high[j]); }
    double value(int64_t j, double x) const { return l1[j] * std::fabs(x) + l2[j] / 2 * x * x; }
    bool within(int64_t j, double x) const { return !(x < low[j]) && !(x > high[j]); }
    // No cost and no bound on the side to which -g pushes
    bool loose(int64_t j, double g) const {
        return l1[j] == 0 && l2[j] == 0 && ((g < 0 && high[j] == NONE) || (g > 0 && low[j] == -NONE));
    }
    // How far -g is from the subdifferential at x
    double residual(int64_t j, double x, double g) const {
        const double middle = l2[j] * x + (x > 0 ? l1[j] : x < 0 ? -l1[j] : 0), kink = x == 0 ? l1[j] : 0;
        const double below = x <= low[j] ? -NONE : middle - kink + g, above = x >= high[j] ? -NONE : -g - middle - kink;
        return std::max(std::max(below, above), 0.0);
    }
    // l2/2 (x - y)^2 + (l1 |x| - c x) + v (y - x), every term >= 0
    double fenchel_young(int64_t j, double x, double g, double scale) const {
        const double p = -scale * g, weight = l1[j];
        if (plain) return std::max(weight * std::fabs(x) - p * x, 0.0);
        const double inside = std::min(std::max(p, -weight), weight), beyond = p - inside;
        const bool stopped = beyond > 0 ? high[j] != NONE : low[j] != -NONE;
        const double far = stopped && beyond != 0 ? std::copysign(NONE, beyond) : 0;
        const double y = clipped(j, l2[j] > 0 ? beyond / l2[j] : far);
        const double c = y == 0 ? inside : std::copysign(weight, y);
        const bool at_bound = y == low[j] || y == high[j];
        const double push = at_bound ? std::max((p - c - l2[j] * y) * (y - x), 0.0) : 0;
        return l2[j] / 2 * (x - y) * (x - y) + std::max(weight * std::fabs(x) - c * x, 0.0) + push;
    }
};

// The duality gap at x, where the gradient is g and the loss what `Loss` knows of it (losses.h). A loose coordinate with
// |g_j| <= `tiny` counts as if g_j were zero, up to |g_j x_j|.
template <class Loss>
double gap_of(const Penalty& r, int64_t n, const double* x, const double* g, const Loss& loss, double tiny = 0) {
    constexpr double NONE = Penalty::NONE;
    double high = NONE, low = NONE, flat_high = NONE, flat_low = NONE, left = 0;
    for (int64_t j = 0; j < n; j++) {
        if (g[j] == 0) continue;
        if (std::fabs(g[j]) <= tiny && r.loose(j, g[j])) {
            left += std::fabs(g[j] * x[j]);
            continue;
        }
        const double limit = r.l1[j] / std::fabs(g[j]);
        const bool up = r.high[j] == NONE, down = r.low[j] == -NONE;
        if (g[j] < 0 ? up : down) {
            flat_high = limit < flat_high ? limit : flat_high;
            if (r.l2[j] == 0) high = limit < high ? limit : high;
        }
        if (g[j] > 0 ? up : down) {
            flat_low = limit < flat_low ? limit : flat_low;
            if (r.l2[j] == 0) low = limit < low ? limit : low;
        }
    }
    const auto at = [&](double s) {
        double gap = loss.gap(s) + left * std::fabs(s);
        for (int64_t j = 0; j < n; j++) {
            if (std::fabs(g[j]) <= tiny && r.loose(j, g[j])) continue;
            gap += r.fenchel_young(j, x[j], g[j], s);
        }
        return gap;
    };
    const double first = at(std::min(std::max(loss.best(), -flat_low), flat_high));
    if (r.plain) return first;
    return std::min({first, at(std::min(std::max(1.0, -low), high)), at(0)});
}

// F, its duality gap and the KKT residual at x, as in `gap_of`
template <class Loss>
void judge(const Penalty& r, int64_t n, const double* x, const double* g, const Loss& loss, double* out) {
    double size = 0, kkt = 0;
    bool within = true;
    for (int64_t j = 0; j < n; j++) {
        size += r.value(j, x[j]), within &= r.within(j, x[j]);
        kkt = std::max(kkt, r.residual(j, x[j], g[j]));
    }
    const double gap = gap_of(r, n, x, g, loss), value = loss.value() + size;
    const double lost = value - value;  // zero, or not a number: then nothing is one
    out[0] = within ? value : Penalty::NONE, out[1] = gap + lost, out[2] = kkt + lost;
}
