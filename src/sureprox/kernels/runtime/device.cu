// Numbers on a GPU, as formulas.h wants them: roots, logarithms and quotients to 3e-7, which is enough for what a network
// sees and returns.

#define FORMULA __device__ __forceinline__

#ifndef EMULATED  // tests run the rest of this file on a CPU
FORMULA float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FORMULA float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FORMULA float quick_log2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FORMULA float quick_root(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif

template <class T> constexpr T LOG2E = T(1.4426950408889634074);

template <class V> using Number = V;  // of which V is one, or a vector
template <class V> using Mask = bool;

template <class V> FORMULA V constant(V value) { return value; }
FORMULA float magnitude(float v) { return fabsf(v); }
FORMULA double magnitude(double v) { return fabs(v); }
FORMULA float with_sign(float size, float of) { return copysignf(size, of); }
FORMULA double with_sign(double size, double of) { return copysign(size, of); }
template <class T> FORMULA T infinite() { return __uint_as_float(0x7f800000u); }
FORMULA float larger(float a, float b) { return fmaxf(a, b); }
FORMULA float exact_root(float v) { return sqrtf(v); }
FORMULA float root(float v) { return quick_root(v); }
FORMULA float quotient(float a, float b) { return a * reciprocal(b); }
FORMULA float over(float a, float b) { return a * reciprocal(b); }  // b >= 1
FORMULA float logarithm(float v) { return quick_log2(v) / LOG2E<float>; }
FORMULA float half_logarithm(float v) { return 0.5f / LOG2E<float> * quick_log2(v); }
FORMULA float decimal_logarithm(float v) { return 0.30102999566398120f * quick_log2(v); }
