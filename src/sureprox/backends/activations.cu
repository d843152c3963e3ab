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
