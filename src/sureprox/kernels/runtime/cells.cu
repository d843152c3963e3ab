// The cell of an LSTM, to an absolute error of a few 1e-7.

#include "runtime/device.cu"
#include "formulas.h"

// 1 / sigmoid(x), at most e^40 or so: the product of two of them is finite. A NaN stays one.
FORMULA float inverse_sigmoid(float x) {
    return 1.f + power_of_two(x < -40.f ? 40.f * LOG2E<float> : -LOG2E<float> * x);
}

// c and h become the new ones, from the preactivations of the gates.
FORMULA void lstm_cell(float in, float forget, float candidate, float out, float& c, float& h) {
    c = next_memory(c, inverse_sigmoid(in), inverse_sigmoid(forget), hyperbolic_parts(candidate));
    h = shown_memory(inverse_sigmoid(out), hyperbolic_parts(c));
}
