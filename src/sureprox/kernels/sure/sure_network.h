// The network of Sure: the LSTM of the instances, and the one of the coordinates of one instance.
#pragma once
#include "runtime/blocks.h"
#include "sure/sure_step.h"

constexpr int OUTPUTS = 4;  // at most

template <class T> struct SureNetwork {
    int instance, coordinate, outputs;
    int64_t width;  // units of the instance LSTM in whole vectors
    std::vector<T> gate_weight, gate_bias;  // (SEEN_INSTANCE + instance, 4, width), (4, width), scaled by GATE
    const T *out_weight, *out_bias, *told;
    std::vector<T> lstm, lstm_bias, inner_weight, inner_bias, head_weight, head_bias;

    // tensors: W_ih, W_hh, b_ih, b_hh, W, b of `out`, then W of `told`, the LSTM of the coordinates, inner, heads
    SureNetwork(const T* const* tensors, int instance, int coordinate, int outputs)
        : instance(instance), coordinate(coordinate), outputs(outputs), width(rounded_up(instance, LANES<T>)) {
        gate_weight.resize((SEEN_INSTANCE + instance) * 4 * width);
        gate_bias.resize(4 * width);
        for (int q = 0; q < 4; q++)
            for (int u = 0; u < instance; u++) {
                const int row = q * instance + u;
                T* to = gate_weight.data() + q * width + u;
                for (int k = 0; k < SEEN_INSTANCE; k++) to[k * 4 * width] = GATE<T>[q] * tensors[0][row * SEEN_INSTANCE + k];
                for (int k = 0; k < instance; k++)
                    to[(SEEN_INSTANCE + k) * 4 * width] = GATE<T>[q] * tensors[1][row * instance + k];
                gate_bias[q * width + u] = GATE<T>[q] * (tensors[2][row] + tensors[3][row]);
            }
        out_weight = tensors[4], out_bias = tensors[5];
        if (!coordinate) return;
        told = tensors[6];
        lstm.resize(4 * coordinate * (SEEN_COORDINATE + coordinate));
        lstm_bias.resize(4 * coordinate);
        pack_lstm(tensors[7], tensors[8], tensors[9], tensors[10], SEEN_COORDINATE, coordinate, lstm.data(),
                  lstm_bias.data());
        inner_weight.resize(rounded_up(coordinate, 4) * coordinate);
        inner_bias.resize(rounded_up(coordinate, 4));
        for (int r = 0; r < coordinate; r++)
            pack_row(tensors[11] + r * coordinate, tensors[12][r], r, coordinate, inner_weight.data(),
                     inner_bias.data());
        head_weight.resize(OUTPUTS * coordinate);
        head_bias.resize(OUTPUTS);
        for (int r = 0; r < outputs; r++)
            pack_row(tensors[13] + r * coordinate, tensors[14][r], r, coordinate, head_weight.data(),
                     head_bias.data());
    }

    // `outputs` numbers from SEEN_INSTANCE features; memory h, c (instance)
    void instances(const T* features, const T* h, const T* c, T* h_new, T* c_new, T* out) const {
        T* gates = scratch<T, 2>(7 * width);
        T *memory = gates + 4 * width, *hidden = memory + width;
        std::memcpy(gates, gate_bias.data(), 4 * width * sizeof(T));
        for (int k = 0; k < SEEN_INSTANCE + instance; k++) {
            const T value = k < SEEN_INSTANCE ? features[k] : h[k - SEEN_INSTANCE];
            const T* w = gate_weight.data() + k * 4 * width;
            for (int64_t v = 0; v < 4 * width; v += LANES<T>) store(gates + v, load(gates + v) + value * load(w + v));
        }
        std::memset(memory, 0, width * sizeof(T));
        std::memcpy(memory, c, instance * sizeof(T));
        for (int64_t v = 0; v < width; v += LANES<T>) {
            Vec<T> gate[4][1], cell[1] = {load(memory + v)}, shown[1];
            for (int q = 0; q < 4; q++) gate[q][0] = load(gates + q * width + v);
            cells<T, 1>(gate, cell, shown);
            store(memory + v, cell[0]), store(hidden + v, shown[0]);
        }
        std::memcpy(h_new, hidden, instance * sizeof(T)), std::memcpy(c_new, memory, instance * sizeof(T));
        for (int r = 0; r < outputs; r++) {
            T sum = out_bias[r];
            for (int k = 0; k < instance; k++) sum += out_weight[r * instance + k] * hidden[k];
            out[r] = sum;
        }
    }

    // The biases of the coordinates of an instance with memory h: of their gates (coordinate, 4), of their outputs
    void tell(const T* h, const T* out, T* gates, T* heads) const {
        for (int u = 0; u < coordinate; u++)
            for (int q = 0; q < 4; q++) {
                T sum = 0;
                for (int k = 0; k < instance; k++) sum += told[(q * coordinate + u) * instance + k] * h[k];
                gates[4 * u + q] = lstm_bias[4 * u + q] + GATE<T>[q] * sum;
            }
        for (int r = 0; r < OUTPUTS; r++) heads[r] = r < outputs ? head_bias[r] + out[r] : T(0);
    }

    int64_t cost() const { return int64_t(lstm.size() + inner_weight.size() + head_weight.size()); }  // multiply-adds
    int64_t room() const { return BLOCK<T> * (SEEN_COORDINATE + 3 * coordinate + rounded_up(coordinate, 4) + OUTPUTS); }

    // A block: features (SEEN_COORDINATE, BLOCK) in the first rows of `work`, memory (coordinate, n) from `at` on, biases
    // from `tell`; returns the outputs (OUTPUTS, BLOCK)
    T* coordinates(T* work, const T* gates, const T* heads, const T* h, const T* c, T* h_new, T* c_new, int64_t n,
                   int64_t at, int64_t count) const {
        T* old = work + BLOCK<T> * SEEN_COORDINATE;
        T *cells = old + BLOCK<T> * coordinate, *shown = cells + BLOCK<T> * coordinate;
        T *inside = shown + BLOCK<T> * coordinate, *out = inside + BLOCK<T> * rounded_up(coordinate, 4);
        for (int u = 0; u < coordinate; u++) {
            take(old + u * BLOCK<T>, h + u * n + at, count);
            take(cells + u * BLOCK<T>, c + u * n + at, count);
        }
        lstm_block(lstm.data(), gates, SEEN_COORDINATE + coordinate, coordinate, work,
                   Cells<T>{cells, cells, nullptr, BLOCK<T>}, shown, NOTHING);
        for (int u = 0; u < coordinate; u++) {
            give(h_new + u * n + at, shown + u * BLOCK<T>, count);
            give(c_new + u * n + at, cells + u * BLOCK<T>, count);
        }
        linear_block(inner_weight.data(), inner_bias.data(), coordinate, coordinate, shown, inside, true);
        linear_block(head_weight.data(), heads, OUTPUTS, coordinate, inside, out, false);
        return out;
    }
};
