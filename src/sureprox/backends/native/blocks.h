// Layers on a block of coordinates whose signals lie as (channel, BLOCK) in the nearest cache.
#pragma once
#include "parallel.h"

// Four rows of W s + b at a time: weights as (group, input, 4), biases as (group, 4).
template <class T, class Finish>
INLINE void groups_of_four(const T* weights, const T* bias, int groups, int inputs, const T* signal, Finish finish) {
    for (int u = 0; u < groups; u++) {
        Vec<T> sum[4][VECTORS];
        for (int q = 0; q < 4; q++)
            for (int v = 0; v < VECTORS; v++) sum[q][v] = all(bias[4 * u + q]);
        const T* w = weights + int64_t(4) * u * inputs;
        const T* s = signal;
        for (int k = 0; k < inputs; k++, w += 4, s += BLOCK<T>) {
            Vec<T> in[VECTORS];
            for (int v = 0; v < VECTORS; v++) in[v] = load(s + v * LANES<T>);
            for (int q = 0; q < 4; q++)
                for (int v = 0; v < VECTORS; v++) sum[q][v] += w[q] * in[v];
        }
        finish(u, sum);
    }
}

// What the gates are multiplied with before 2^gate is taken: e^-i, e^-f, e^-2g, e^-o.
template <class T> constexpr T GATE[4] = {T(-LOG2E), T(-LOG2E), T(-2 * LOG2E), T(-LOG2E)};

// c+ = sigmoid(f) c + sigmoid(i) tanh(g), h+ = sigmoid(o) tanh(c+), from gates scaled as above; two divisions.
template <class T> INLINE void cell(Vec<T> i, Vec<T> f, Vec<T> g, Vec<T> o, Vec<T>& c, Vec<T>& h) {
    const T one = 1;
    Vec<T> ei = exp2<T>(i), ef = exp2<T>(f), eg = exp2<T>(g), eo = exp2<T>(o);
    Vec<T> both = (one + ei) * (one + eg), forget = one + ef;
    c = (c * both + (one - eg) * forget) / (both * forget);
    Vec<T> ec = exp2<T>(c * T(-2 * LOG2E));
    h = (one - ec) / ((one + eo) * (one + ec));
}

// gates = W [signal, h], units as groups of four; c (hidden, BLOCK) is overwritten, h goes to `out`. `soon`: (hidden,
// BLOCK) numbers each that will be needed next, brought near meanwhile.
template <class T>
inline void lstm_block(
    const T* weights, const T* bias, int inputs, int hidden, const T* signal, T* c, T* out, const T* const (&soon)[4]) {
    groups_of_four<T>(weights, bias, hidden, inputs, signal, [&](int u, Vec<T>(&gate)[4][VECTORS]) IN_PLACE {
        for (int v = 0; v < VECTORS; v++) {
            const int64_t at = u * BLOCK<T> + v * LANES<T>;
            Vec<T> memory = load(c + at), h;
            cell<T>(gate[0][v], gate[1][v], gate[2][v], gate[3][v], memory, h);
            store(c + at, memory);
            store(out + at, h);
        }
        for (const T* memory : soon)
            for (size_t line = 0; line < BLOCK<T> * sizeof(T); line += 64)
                __builtin_prefetch((const char*)(memory + u * BLOCK<T>) + line);
    });
}

// rows of W s + b, optionally relu, to `out`; there is room for a multiple of four rows
template <class T>
inline void linear_block(const T* weights, const T* bias, int rows, int inputs, const T* signal, T* out, bool relu) {
    groups_of_four<T>(weights, bias, (rows + 3) / 4, inputs, signal, [&](int u, Vec<T>(&sum)[4][VECTORS]) IN_PLACE {
        for (int q = 0; q < 4; q++)
            for (int v = 0; v < VECTORS; v++) {
                Vec<T> s = sum[q][v];
                store(out + (4 * u + q) * BLOCK<T> + v * LANES<T>, relu ? upper<T>(s, Vec<T>{}) : s);
            }
    });
}

// W_ih (4 hidden, inputs), W_hh (4 hidden, hidden) and the sum of two biases, as `lstm_block` wants them
template <class T>
void pack_lstm(
    const T* w_in, const T* w_hidden, const T* b_in, const T* b_hidden, int inputs, int hidden, T* weights, T* bias) {
    const int all_inputs = inputs + hidden;
    for (int u = 0; u < hidden; u++)
        for (int q = 0; q < 4; q++) {
            const int row = q * hidden + u;
            T* to = weights + int64_t(4) * u * all_inputs + q;
            for (int k = 0; k < inputs; k++) to[4 * k] = GATE<T>[q] * w_in[row * inputs + k];
            for (int k = 0; k < hidden; k++) to[4 * (inputs + k)] = GATE<T>[q] * w_hidden[row * hidden + k];
            bias[4 * u + q] = GATE<T>[q] * (b_in[row] + b_hidden[row]);
        }
}

// One row of a linear layer, as `linear_block` wants it
template <class T> void pack_row(const T* w, T b, int row, int inputs, T* weights, T* bias) {
    for (int k = 0; k < inputs; k++) weights[(row / 4 * int64_t(inputs) + k) * 4 + row % 4] = w[k];
    bias[row] = b;
}
