// Layers on a block of coordinates whose signals lie as (channel, BLOCK) in the nearest cache.
#pragma once
#include "runtime/numbers.h"
#include "formulas.h"
#include "runtime/parallel.h"

// Four rows of W s + b at a time: weights as (group, input, 4), biases as (group, 4). `meanwhile(u, k)` is called for
// every input k of group u.
template <class T, class Finish, class Meanwhile>
INLINE void groups_of_four(const T* weights, const T* bias, int groups, int inputs, const T* signal, Finish finish,
                           const Meanwhile& meanwhile) {
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
            meanwhile(u, k);
        }
        finish(u, sum);
    }
}

constexpr auto NOTHING = [](int, int) {};

// What the gates are multiplied with before 2^gate is taken: e^-i, e^-f, e^-2g, e^-o.
template <class T> constexpr T GATE[4] = {-LOG2E<T>, -LOG2E<T>, -2 * LOG2E<T>, -LOG2E<T>};

// The cells of G vectors, from gates i, f, g, o scaled as above, which are lost; c becomes the new one. There is room for
// 2^MOST, so that tanh needs no |g|.
template <class T, int G> INLINE void cells(Vec<T> (&gates)[4][G], Vec<T> (&c)[G], Vec<T> (&h)[G]) {
    Vec<T> small[G];
    for (int q = 0; q < 4; q++) exp2_of<G>(gates[q]);
    for (int g = 0; g < G; g++)
        c[g] = next_memory<Vec<T>>(c[g], 1 + gates[0][g], 1 + gates[1][g], {1 - gates[2][g], 1 + gates[2][g]});
    for (int g = 0; g < G; g++) small[g] = c[g] * (-2 * LOG2E<T>);
    exp2_of<G>(small);
    for (int g = 0; g < G; g++) h[g] = shown_memory<Vec<T>>(1 + gates[3][g], {1 - small[g], 1 + small[g]});
}

// Memory of an LSTM, a row for each unit, `stride` apart; c_new may be c, and h_new null.
template <class T> struct Cells {
    const T* c;
    T *c_new, *h_new;
    int64_t stride;
};

// gates = W [signal, h], units as groups of four; the next h goes to `out` (hidden, BLOCK) as well. `meanwhile` as
// above.
template <class T, class Meanwhile>
inline void lstm_block(const T* weights, const T* bias, int inputs, int hidden, const T* signal, const Cells<T>& kept,
                       T* out, const Meanwhile& meanwhile) {
    groups_of_four<T>(weights, bias, hidden, inputs, signal, [&](int u, Vec<T>(&gate)[4][VECTORS]) IN_PLACE {
        Vec<T> c[VECTORS], h[VECTORS];
        for (int v = 0; v < VECTORS; v++) c[v] = load(kept.c + u * kept.stride + v * LANES<T>);
        cells<T, VECTORS>(gate, c, h);
        for (int v = 0; v < VECTORS; v++) {
            store(kept.c_new + u * kept.stride + v * LANES<T>, c[v]);
            store(out + u * BLOCK<T> + v * LANES<T>, h[v]);
        }
        if (kept.h_new)
            for (int v = 0; v < VECTORS; v++) store(kept.h_new + u * kept.stride + v * LANES<T>, h[v]);
    }, meanwhile);
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
    }, NOTHING);
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
