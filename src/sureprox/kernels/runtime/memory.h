// What the LSTM of the coordinates keeps: h, c and their next values, each (layers, hidden, stride), a row for each unit.
#pragma once
#include <cstdint>

template <class T> struct Memory {
    const T *h, *c;
    T *h_new, *c_new;
    int64_t stride;
};
