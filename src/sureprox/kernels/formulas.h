// The formulas that C++ and CUDA share, of numbers or, in C++, vectors of them. Whoever includes this has included
// runtime/numbers.h on a CPU, runtime/device.cu on a GPU. Comparisons are written so that a NaN stays one.
#pragma once

template <class T> struct Limits;
template <> struct Limits<float> {
    static constexpr float EPS = 1.1920928955078125e-7f, TINY = 1.17549435082228750797e-38f, LARGEST = 3.4028235e38f;
};
template <> struct Limits<double> {
    static constexpr double EPS = 2.220446049250313e-16, TINY = 2.2250738585072014e-308;
    static constexpr double LARGEST = 1.7976931348623157e308;
};
template <class T> FORMULA bool finite(T v) { return magnitude(v) <= Limits<T>::LARGEST; }

template <class V, class W> FORMULA V cut(V v, W low, W high) { return v < low ? low : (v > high ? high : v); }
template <class V> FORMULA V sign(V v) {
    const V one = constant<V>(1), zero = constant<V>(0);
    return v > 0 ? one : (v < 0 ? -one : zero);
}

// prox of by |x|: v minus its projection on [-by, by]
template <class V, class W> FORMULA V soft_threshold(V v, W by) { return v - cut(v, -by, by); }

// The subdifferential of lam |x|
template <class V> struct Range {
    V low, high;
};
template <class V> FORMULA Range<V> subdifferential(V x, Number<V> lam) {
    const V middle = lam * sign(x), kink = x == 0 ? constant<V>(lam) : constant<V>(0);
    return {middle - kink, middle + kink};
}

// 1 / (1 + e^-v)
template <class V> FORMULA V sigmoid(V v) {
    return over(constant<V>(1), 1 + power_of_two(-LOG2E<Number<V>> * v));
}

// tanh v = numerator / denominator, the latter in [1, 2]
template <class V> struct Tanh {
    V numerator, denominator;
};
template <class V> FORMULA Tanh<V> hyperbolic_parts(V v) {
    const V small = power_of_two(-2 * LOG2E<Number<V>> * magnitude(v));
    return {with_sign(1 - small, v), 1 + small};
}
template <class V> FORMULA V hyperbolic(V v) {
    const V small = power_of_two(-2 * LOG2E<Number<V>> * magnitude(v));
    return with_sign(over(1 - small, 1 + small), v);
}

// asinh(v) / 2
template <class V> FORMULA V half_inverse_sinh(V v) {
    return with_sign(half_logarithm(magnitude(v) + root(1 + v * v)), v);
}

// LSTM: c+ = sigmoid(f) c + sigmoid(i) tanh(g), h+ = sigmoid(o) tanh(c+). `in`, `forget` and `out` are 1 / sigmoid of the
// gates: over common denominators there are two divisions instead of five.
template <class V> FORMULA V next_memory(V c, V in, V forget, Tanh<V> candidate) {
    const V both = in * candidate.denominator;
    return over(c * both + candidate.numerator * forget, both * forget);
}
template <class V> FORMULA V shown_memory(V out, Tanh<V> c) { return over(c.numerator, out * c.denominator); }

// FISTA: t+ and the momentum of the step
template <class T> FORMULA T next_pace(T t) { return (1 + exact_root(1 + 4 * (t * t))) / 2; }
template <class T> FORMULA T momentum_of(T t, T t_next) { return (t - 1) / t_next; }
