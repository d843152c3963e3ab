// Numbers and vectors of numbers on a CPU, as formulas.h wants them.
#pragma once
#include "runtime/vectors.h"

#define FORMULA INLINE

template <class V> struct Part { using T = V; };
template <> struct Part<Vec<float>> { using T = float; };
template <> struct Part<Vec<double>> { using T = double; };

template <class V> using Number = typename Part<V>::T;  // of which V is one, or a vector
template <class V> using Mask = decltype(V() < V());
template <class V> constexpr bool SINGLE = std::is_floating_point<V>::value;

template <class V> FORMULA V constant(Number<V> value) {
    if constexpr (SINGLE<V>) return value;
    else return all(value);
}
template <class V> FORMULA V magnitude(V v) {
    if constexpr (SINGLE<V>) return std::fabs(v);
    else return absolute<Number<V>>(v);
}
template <class V> FORMULA V with_sign(V size, V of) {
    if constexpr (SINGLE<V>) return std::copysign(size, of);
    else return of < 0 ? -size : size;
}
template <class T> FORMULA T infinite() { return std::numeric_limits<T>::infinity(); }
template <class V> FORMULA V larger(V a, V b) { return a > b ? a : b; }
template <class V> FORMULA V root(V v) {
    if constexpr (SINGLE<V>) return std::sqrt(v);
    else return square_root<Number<V>>(v);
}
template <class V> FORMULA V exact_root(V v) { return root(v); }
template <class V> FORMULA V quotient(V a, V b) { return a / b; }
template <class V> FORMULA V over(V a, V b) {  // 1 <= b <= 2^122
    if constexpr (SINGLE<V>) return a / b;
    else return divided<Number<V>>(a, b);
}
template <class V> FORMULA V power_of_two(V v) {  // at most 2^MOST where v is a vector
    if constexpr (SINGLE<V>) return std::exp2(v);
    else return exp2<Number<V>>(v);
}
template <class V> FORMULA V logarithm(V v) {
    if constexpr (SINGLE<V>) return std::log(v);
    else return log<Number<V>>(v);
}
template <class V> FORMULA V half_logarithm(V v) { return Number<V>(0.5) * logarithm(v); }
template <class T> FORMULA T decimal_logarithm(T v) { return std::log10(v); }
