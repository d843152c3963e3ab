// What kernels with one block per instance share.

#ifndef EMULATED  // tests run the rest of this file on a CPU
// What will be read later is on its way from now on.
__device__ __forceinline__ void announce(const float* place) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(place));
}
#endif

// `count` numbers, by all threads together
__device__ __forceinline__ void announce_all(const float* first, int count) {
    for (int k = 32 * threadIdx.x; k < count; k += 32 * blockDim.x) announce(first + k);
}

// The sums of eight numbers over a warp: that of number lane % 8 in every lane. Each exchange halves what a lane holds.
__device__ __forceinline__ float eight_sums(float (&v)[8]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 4; half > 0; half /= 2) {
        const bool upper = lane & half;
#pragma unroll
        for (int k = 0; k < half; ++k) {
            const float kept = upper ? v[k + half] : v[k], given = upper ? v[k] : v[k + half];
            v[k] = kept + __shfl_xor_sync(0xffffffffu, given, half);
        }
    }
    float sum = v[0];
    sum += __shfl_xor_sync(0xffffffffu, sum, 8);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 16);
}
