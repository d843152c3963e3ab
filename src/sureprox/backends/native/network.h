// The coordinate network, a block of coordinates at a time.
#pragma once
#include "rows.h"

// heads(relu(inner(LSTM(features)))); inner may be missing
template <class T> struct Network {
    int features, hidden, layers, heads;
    bool inner;
    std::vector<T> lstm, lstm_bias, inner_weight, inner_bias, head_weight, head_bias;

    // tensors: (W_ih, W_hh, b_ih, b_hh) of each layer, then (W, b) of inner, then of each head
    Network(const T* const* tensors, int features, int hidden, int layers, int heads, bool inner)
        : features(features), hidden(hidden), layers(layers), heads(heads), inner(inner) {
        lstm.resize(weights_before(layers));
        lstm_bias.resize(4 * hidden * layers);
        for (int l = 0; l < layers; l++, tensors += 4)
            pack_lstm(tensors[0], tensors[1], tensors[2], tensors[3], l ? hidden : features, hidden,
                      lstm.data() + weights_before(l), lstm_bias.data() + 4 * hidden * l);
        if (inner) {
            inner_weight.resize(rounded_up(hidden, 4) * hidden);
            inner_bias.resize(rounded_up(hidden, 4));
            for (int r = 0; r < hidden; r++)
                pack_row(tensors[0] + r * hidden, tensors[1][r], r, hidden, inner_weight.data(), inner_bias.data());
            tensors += 2;
        }
        head_weight.resize(rounded_up(heads, 4) * hidden);
        head_bias.resize(rounded_up(heads, 4));
        for (int r = 0; r < heads; r++, tensors += 2)
            pack_row(tensors[0], tensors[1][0], r, hidden, head_weight.data(), head_bias.data());
    }

    int64_t weights_before(int layer) const {
        return layer ? int64_t(4) * hidden * (features + hidden + (layer - 1) * 2 * hidden) : 0;
    }
    int64_t room() const {  // numbers of working memory
        return BLOCK<T> * (features + hidden + int64_t(2) * hidden * layers + hidden + rounded_up(hidden, 4) +
                           rounded_up(heads, 4));
    }

    // Memory h, c, h_new, c_new: (layers, rows, hidden), `count` rows from `at` on. work: features (F, BLOCK) in its
    // first rows; returns the outputs (heads, BLOCK).
    T* block(T* work, const T* h, const T* c, T* h_new, T* c_new, int64_t rows, int64_t at, int64_t count) const {
        T* signal = work;
        T* cells = work + BLOCK<T> * (features + hidden + int64_t(2) * hidden * layers);
        for (int l = 0; l < layers; l++) {
            const int inputs = l ? hidden : features;
            T* next = signal + BLOCK<T> * (inputs + hidden);
            const int64_t from = (l * rows + at) * hidden;
            take_rows(signal + inputs * BLOCK<T>, h + from, hidden, count);
            take_rows(cells, c + from, hidden, count);
            const int64_t after = from + BLOCK<T> * hidden;
            lstm_block(lstm.data() + weights_before(l), lstm_bias.data() + 4 * hidden * l, inputs + hidden, hidden,
                       signal, cells, next, {h + after, c + after, h_new + after, c_new + after});
            give_rows(h_new + from, next, hidden, count);
            give_rows(c_new + from, cells, hidden, count);
            signal = next;
        }
        T* out = cells + BLOCK<T> * hidden;
        if (inner) {
            linear_block(inner_weight.data(), inner_bias.data(), hidden, hidden, signal, out, true);
            signal = out;
            out += BLOCK<T> * rounded_up(hidden, 4);
        }
        linear_block(head_weight.data(), head_bias.data(), heads, hidden, signal, out, false);
        return out;
    }
};
