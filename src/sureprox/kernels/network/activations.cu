// The activations of LSTM cells, to an absolute error of a few 1e-7.

#ifndef EMULATED  // tests run the rest of this file on a CPU
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

constexpr float LOG2_E = 1.4426950408889634f;

__device__ __forceinline__ float sigmoid(float x) { return reciprocal(1.f + power_of_two(-LOG2_E * x)); }
__device__ __forceinline__ float hyperbolic(float x) {
    const float small = power_of_two(-2.f * LOG2_E * fabsf(x));
    return copysignf((1.f - small) * reciprocal(1.f + small), x);
}

// 1 / sigmoid(x), at most e^40 or so: the product of two of them is finite. A NaN stays one.
__device__ __forceinline__ float inverse_sigmoid(float x) {
    return 1.f + power_of_two(x < -40.f ? 40.f * LOG2_E : -LOG2_E * x);
}

// c = sigmoid(forget) c + sigmoid(in) tanh(candidate), h = sigmoid(out) tanh(c), from the preactivations of the gates:
// over common denominators there are two divisions instead of five.
__device__ __forceinline__ void lstm_cell(float in, float forget, float candidate, float out, float& c, float& h) {
    const float small = power_of_two(-2.f * LOG2_E * fabsf(candidate)), open = inverse_sigmoid(forget);
    const float both = inverse_sigmoid(in) * (1.f + small);
    c = (c * both + copysignf(1.f - small, candidate) * open) * reciprocal(both * open);
    const float left = power_of_two(-2.f * LOG2_E * fabsf(c));
    h = copysignf(1.f - left, c) * reciprocal(inverse_sigmoid(out) * (1.f + left));
}
