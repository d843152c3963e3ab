// The coordinate network, a block of coordinates at a time.
#pragma once
#include "runtime/blocks.h"
#include "runtime/memory.h"

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
    int64_t cost() const { return int64_t(lstm.size() + inner_weight.size() + head_weight.size()); }  // multiply-adds
    int64_t room() const {  // numbers of working memory
        return BLOCK<T> * (features + hidden + int64_t(2) * hidden * layers + hidden + rounded_up(hidden, 4) +
                           rounded_up(heads, 4));
    }

    // `count` coordinates from `at` on; `upcoming` is brought near meanwhile.
    // work: features (F, BLOCK) in its first rows; returns the outputs (heads, BLOCK).
    T* block(T* work, const Memory<T>& memory, int64_t at, int64_t count, Upcoming& upcoming) const {
        const bool whole = count == BLOCK<T>;  // else its memory is copied, since a whole block of it is read and written
        T *signal = work, *room = work + BLOCK<T> * (features + hidden + int64_t(2) * hidden * layers);
        for (int l = 0; l < layers; l++) {
            const int inputs = l ? hidden : features;
            const int64_t from = l * hidden * memory.stride + at, stride = memory.stride;
            T *old = signal + BLOCK<T> * inputs, *next = old + BLOCK<T> * hidden;
            Cells<T> kept{memory.c + from, memory.c_new + from, memory.h_new + from, stride};
            for (int u = 0; u < hidden; u++) take(old + u * BLOCK<T>, memory.h + from + u * stride, count);
            if (!whole) {
                for (int u = 0; u < hidden; u++) take(room + u * BLOCK<T>, kept.c + u * stride, count);
                kept = {room, room, nullptr, BLOCK<T>};
            }
            // The block after this one; the line in which it begins was needed for this one already
            const char* soon[4] = {(const char*)(memory.h + from + BLOCK<T>), (const char*)(memory.c + from + BLOCK<T>),
                                   (const char*)(memory.h_new + from + BLOCK<T>),
                                   (const char*)(memory.c_new + from + BLOCK<T>)};
            lstm_block(lstm.data() + weights_before(l), lstm_bias.data() + 4 * hidden * l, inputs + hidden, hidden,
                       signal, kept, next, [&](int u, int k) IN_PLACE {
                           constexpr int LINES = (BLOCK<T> * sizeof(T) + 63) / 64;
                           if (k < 4 * LINES)
                               __builtin_prefetch(soon[k / LINES] + u * stride * sizeof(T) + k % LINES * 64 + 63);
                           upcoming.line();
                       });
            for (int u = 0; !whole && u < hidden; u++) {
                give(memory.h_new + from + u * stride, next + u * BLOCK<T>, count);
                give(memory.c_new + from + u * stride, room + u * BLOCK<T>, count);
            }
            signal = next;
        }
        T* out = room + BLOCK<T> * hidden;
        if (inner) {
            linear_block(inner_weight.data(), inner_bias.data(), hidden, hidden, signal, out, true);
            signal = out;
            out += BLOCK<T> * rounded_up(hidden, 4);
        }
        linear_block(head_weight.data(), head_bias.data(), heads, hidden, signal, out, false);
        return out;
    }
};
