// A'(A x - b) and |A x - b|^2 / 2 for a batch of matrices, each read once from memory; see products.cu.

#define POINTS 1
#include "products/products.cu"

struct Residual {
    const float* b;  // of this instance, or null
    float squares;   // the sum over the rows of this lane
    static constexpr int KNOWN = 1;
    __device__ const float* before(int row, int p, int k) const { return b != nullptr ? b + row : nullptr; }
    __device__ float after(int row, int p, float product, const float* at) {
        const float z = b != nullptr ? product - *at : product;
        squares += z * z;
        return z;
    }
};

// A (batch, m, n), x (batch, n), b (batch, m) or null -> gradient (blocks, batch, n) and value (blocks, batch) or null
extern "C" __global__ void __launch_bounds__(THREADS, 2)
normal_map(const float* A, const float* x, const float* b, float* gradient, float* value, int batch, int m, int n,
           int R) {
    __shared__ float parts[WARPS];
    const long long instance = blockIdx.x, place = (long long)blockIdx.y * batch + instance;
    Residual residual{b != nullptr ? b + instance * m : nullptr, 0.f};
    products(A, x, gradient + place * n, m, n, R, residual);
    if (value == nullptr) return;
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = residual.squares;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.f;
        for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp];
        value[place] = 0.5f * sum;
    }
}
