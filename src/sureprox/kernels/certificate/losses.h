// Losses f(x) = sum_i phi_i(t_i), t = A x, in double precision and row by row: phi, its slope and curvature, and its part of
// the duality gap at the dual point s phi'. `row` is called for one row after the other.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

// 1/2 (t - b)^2
struct Squares {
    static constexpr bool QUADRATIC = true;
    double square = 0, product = 0;  // |z|^2 and z'b, z = t - b

    void begin(int64_t) { square = product = 0; }
    double row(double t, double b) {
        const double z = t - b;
        square += z * z, product += z * b;
        return z;
    }
    double value() const { return square / 2; }
    double term(double t, double b) const { return (t - b) * (t - b) / 2; }
    double curvature(int64_t) const { return 1; }
    // The best dual scale, and the gap phi(t) + phi*(s u) - s u t
    double best() const { return square > 0 ? -product / square : 1; }
    double gap(double s) const { return 0.5 * (1 - s) * (1 - s) * square; }
};

// The mean of log(1 + e^t) - b t, b 0 or 1: log(1 + e^z) with z = (1 - 2 b) t
struct Logistic {
    static constexpr bool QUADRATIC = false;
    int64_t m = 0;
    double sum = 0;
    std::vector<double> z;

    static double softplus(double v) { return std::max(v, 0.0) + std::log1p(std::exp(-std::fabs(v))); }
    static double sigmoid(double v) { return v >= 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); }

    void begin(int64_t rows) { m = rows, sum = 0, z.clear(); }
    double row(double t, double b) {
        const double sign = 1 - 2 * b;
        z.push_back(sign * t);
        sum += softplus(sign * t);
        return sign * sigmoid(sign * t) / m;
    }
    double value() const { return sum / m; }
    double term(double t, double b) const { return softplus((1 - 2 * b) * t) / m; }
    double curvature(int64_t i) const { return sigmoid(z[i]) * sigmoid(-z[i]) / m; }
    double best() const { return 1; }
    // KL(w | sigma) = w log s + (1 - w) log(1 + (1 - s) e^z), w = s sigma(z)
    double gap(double s) const {
        double gap = 0;
        const double log_s = std::log(s), log_rest = std::log1p(-s);
        for (double v : z) {
            const double w = s * sigmoid(v);
            gap += (w > 0 ? w * log_s : 0) + (s < 1 ? (1 - w) * softplus(v + log_rest) : 0);
        }
        return std::max(gap / m, 0.0);
    }
};
