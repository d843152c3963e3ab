// The coordinate-wise network (two LSTM layers of 20 units, optional inner layer, heads), forward and backward, on
// the matrix units, one warp per 16 coordinates ("rows").
//
// Compile-time: FEATURES (1 to 3, or 20), HEADS (1 to 3), INNER (0 or 1), OFFSET (of the LSTM in the flat weights),
// MEMORY (bytes of shared memory of the backward pass).
//
// Who holds what. Thread (g, q) = (lane / 4, lane % 4) of a warp works on rows g and g + 8. A vector of 20 units is
// spread over the four threads of a row, five values each: unit(q, i). The 80 gates are spread alike, 20 values each:
// value j of thread q is gate j % 4 (i, f, g, o) of unit(q, j / 4), so that a thread has all four gates of its units.
// In mma.m16n8k8 thread q supplies the columns k = q and q + 4 of A and receives the columns 2 q and 2 q + 1 of the
// result. The order of units along k and n is free, since the weights can be permuted to match: with values 2 s and
// 2 s + 1 of each thread as step s along k, and values 2 t and 2 t + 1 as tile t along n, the result of one layer is
// the operand of the next with no exchange between threads.
//
// Precision. Each product is split into three of the matrix units' tf32 (high x high + high x low + low x high),
// which together keep float32 accuracy.

#ifndef EMULATED  // tests run the rest of this file on a CPU, with their own version of these two
#define SHARED_BYTES(name) extern __shared__ __align__(16) unsigned char name[];
// d (16 x 8) += a (16 x 8) b (8 x 8), spread over the lanes of the warp
__device__ __forceinline__ void mma(float& d0, float& d1, float& d2, float& d3, const unsigned (&a)[4], unsigned b0,
                                    unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

#include "runtime/cells.cu"

constexpr int UNITS = 20, GATES = 80, V = 5, WARPS = 8, THREADS = 32 * WARPS, TILE = 16, BLOCK_ROWS = WARPS * TILE;
constexpr bool WIDE = FEATURES == UNITS;
constexpr int K1 = WIDE ? 10 : 6;  // values per thread that enter layer 1: its own 5 units, then 5 inputs or 1 feature

constexpr int W_IH0 = OFFSET, W_HH0 = W_IH0 + GATES * FEATURES, B_IH0 = W_HH0 + GATES * UNITS, B_HH0 = B_IH0 + GATES;
constexpr int W_IH1 = B_HH0 + GATES, W_HH1 = W_IH1 + GATES * UNITS, B_IH1 = W_HH1 + GATES * UNITS;
constexpr int B_HH1 = B_IH1 + GATES, W_INNER = B_HH1 + GATES, B_INNER = W_INNER + UNITS * UNITS;
constexpr int HEAD = INNER ? B_INNER + UNITS : W_INNER;  // each head: 20 weights, then its bias
constexpr int WEIGHTS = HEAD + HEADS * (UNITS + 1);

__device__ __forceinline__ int unit(int q, int i) { return i < 4 ? 4 * q + i : 16 + q; }
__device__ __forceinline__ int gate_row(int q, int j) { return (j % 4) * UNITS + unit(q, j / 4); }

// Where the weight from value i of thread qx to value j of thread qg lies among the flat weights; -1: there is none.
struct Layer1 {
    __device__ static int at(int qg, int j, int qx, int i) {
        int row = gate_row(qg, j);
        if (i < V) return W_HH0 + row * UNITS + unit(qx, i);
        if (WIDE) return W_IH0 + row * FEATURES + unit(qx, i - V);
        return qx < FEATURES ? W_IH0 + row * FEATURES + qx : -1;
    }
};
struct Layer2 {
    __device__ static int at(int qg, int j, int qx, int i) {
        int row = gate_row(qg, j);
        return i < V ? W_IH1 + row * UNITS + unit(qx, i) : W_HH1 + row * UNITS + unit(qx, i - V);
    }
};
struct Inner {
    __device__ static int at(int qo, int j, int qx, int i) {
        return i < V && j < V ? W_INNER + unit(qo, j) * UNITS + unit(qx, i) : -1;
    }
};
template <class Layer> struct Transposed {
    __device__ static int at(int qo, int j, int qx, int i) { return Layer::at(qx, i, qo, j); }
};

// The operand B of every product of a layer, in the order in which the lanes read it: IN values in, OUT values out.
template <class Layer, int IN, int OUT>
__device__ void fill(float2* fragments, const float* weights) {
#pragma unroll 8
    for (int entry = threadIdx.x; entry < (IN / 2) * (OUT / 2) * 32; entry += THREADS) {
        int lane = entry % 32, tile = (entry / 32) % (OUT / 2), step = entry / 32 / (OUT / 2);
        int g = lane / 4, q = lane % 4;
        int first = Layer::at(g / 2, 2 * tile + g % 2, q, 2 * step);
        int second = Layer::at(g / 2, 2 * tile + g % 2, q, 2 * step + 1);
        fragments[entry] = make_float2(first < 0 ? 0.f : weights[first], second < 0 ? 0.f : weights[second]);
    }
}

// value = high + low, high the nearest number with the 11 significant bits of tf32. What is not a number may be lost in
// high, but not in low.
__device__ __forceinline__ void split(float value, unsigned& high, unsigned& low) {
    high = (__float_as_uint(value) + 0x1000u) & 0xffffe000u;
    low = __float_as_uint(value - __uint_as_float(high));
}

// d += a b in three products of tf32
__device__ __forceinline__ void multiply_add(float& d0, float& d1, float& d2, float& d3, const unsigned (&high)[4],
                                             const unsigned (&low)[4], float b0, float b1) {
    unsigned bh0, bh1, bl0, bl1;
    split(b0, bh0, bl0);
    split(b1, bh1, bl1);
    mma(d0, d1, d2, d3, low, bh0, bh1);
    mma(d0, d1, d2, d3, high, bl0, bl1);
    mma(d0, d1, d2, d3, high, bh0, bh1);
}

// out += W in, for the 16 rows of the warp
template <int IN, int OUT>
__device__ __forceinline__ void dense(float (&out)[OUT][2], const float (&in)[IN][2], const float2* fragments) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 0; step < IN / 2; ++step) {
        unsigned high[4], low[4];
        split(in[2 * step][0], high[0], low[0]);
        split(in[2 * step][1], high[1], low[1]);
        split(in[2 * step + 1][0], high[2], low[2]);
        split(in[2 * step + 1][1], high[3], low[3]);
#pragma unroll
        for (int tile = 0; tile < OUT / 2; ++tile) {
            float2 b = fragments[(step * (OUT / 2) + tile) * 32 + lane];
            multiply_add(out[2 * tile][0], out[2 * tile + 1][0], out[2 * tile][1], out[2 * tile + 1][1], high, low,
                         b.x, b.y);
        }
    }
}

// Five units of rows `row` and `row` + 8 of a (rows, 20) array; what lies past the end reads as zero.
__device__ __forceinline__ void load(float (&x)[V][2], const float* from, int row, int rows) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int at = row + 8 * half;
        float4 four = make_float4(0.f, 0.f, 0.f, 0.f);
        float fifth = 0.f;
        if (at < rows) {
            four = *reinterpret_cast<const float4*>(from + (long long)at * UNITS + 4 * q);
            fifth = from[(long long)at * UNITS + 16 + q];
        }
        x[0][half] = four.x, x[1][half] = four.y, x[2][half] = four.z, x[3][half] = four.w, x[4][half] = fifth;
    }
}
__device__ __forceinline__ void store(float* to, const float (&x)[V][2], int row, int rows) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int at = row + 8 * half;
        if (at < rows) {
            *reinterpret_cast<float4*>(to + (long long)at * UNITS + 4 * q) =
                make_float4(x[0][half], x[1][half], x[2][half], x[3][half]);
            to[(long long)at * UNITS + 16 + q] = x[4][half];
        }
    }
}

// What enters layer 1: its own units, then the inputs.
__device__ __forceinline__ void first_inputs(float (&x)[K1][2], const float (&h)[V][2], const float* features, int row,
                                             int rows) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < V; ++i) x[i][0] = h[i][0], x[i][1] = h[i][1];
    if constexpr (WIDE) {
        float wide[V][2];
        load(wide, features, row, rows);
#pragma unroll
        for (int i = 0; i < V; ++i) x[V + i][0] = wide[i][0], x[V + i][1] = wide[i][1];
    } else {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            int at = row + 8 * half;
            x[V][half] = at < rows && q < FEATURES ? features[(long long)at * FEATURES + q] : 0.f;
        }
    }
}

// Preactivations to activations, in place; the new cell and hidden state.
__device__ __forceinline__ void cell(float (&gates)[UNITS][2], const float (&c)[V][2], float (&c_new)[V][2],
                                     float (&squashed)[V][2], float (&h_new)[V][2]) {
#pragma unroll
    for (int i = 0; i < V; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float in = sigmoid(gates[4 * i][half]), forget = sigmoid(gates[4 * i + 1][half]);
            float candidate = hyperbolic(gates[4 * i + 2][half]), out = sigmoid(gates[4 * i + 3][half]);
            float value = forget * c[i][half] + in * candidate;
            c_new[i][half] = value;
            squashed[i][half] = hyperbolic(value);
            h_new[i][half] = out * squashed[i][half];
            gates[4 * i][half] = in, gates[4 * i + 1][half] = forget;
            gates[4 * i + 2][half] = candidate, gates[4 * i + 3][half] = out;
        }
}

// As `cell`, without the activations; c becomes the new one.
__device__ __forceinline__ void next_cell(const float (&gates)[UNITS][2], float (&c)[V][2], float (&h_new)[V][2]) {
#pragma unroll
    for (int i = 0; i < V; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            lstm_cell(gates[4 * i][half], gates[4 * i + 1][half], gates[4 * i + 2][half], gates[4 * i + 3][half],
                      c[i][half], h_new[i][half]);
}

// Weights in shared memory, as the forward pass needs them.
struct ForwardWeights {
    float2 layer1[(K1 / 2) * 10 * 32];
    float2 layer2[5 * 10 * 32];
    float2 inner[INNER ? 3 * 3 * 32 : 1];
    float bias1[4 * UNITS], bias2[4 * UNITS];  // thread q's twenty gates from 20 q on
    float inner_bias[UNITS], head[HEADS * (UNITS + 1)];

    __device__ void read(const float* weights) {
        fill<Layer1, K1, UNITS>(layer1, weights);
        fill<Layer2, 10, UNITS>(layer2, weights);
        if constexpr (INNER) fill<Inner, 6, 6>(inner, weights);
        for (int k = threadIdx.x; k < GATES; k += THREADS) {
            int row = gate_row(k / UNITS, k % UNITS);
            bias1[k] = weights[B_IH0 + row] + weights[B_HH0 + row];
            bias2[k] = weights[B_IH1 + row] + weights[B_HH1 + row];
        }
        for (int k = threadIdx.x; k < UNITS; k += THREADS) inner_bias[k] = INNER ? weights[B_INNER + k] : 0.f;
        for (int k = threadIdx.x; k < HEADS * (UNITS + 1); k += THREADS) head[k] = weights[HEAD + k];
    }
};

__device__ __forceinline__ void bias(float (&gates)[UNITS][2], const float* from) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int j = 0; j < UNITS; ++j) gates[j][0] = gates[j][1] = from[UNITS * q + j];
}

// What the heads see: relu(inner(h)), or h itself.
__device__ __forceinline__ void last_layer(float (&r)[V][2], const float (&h)[V][2], const ForwardWeights& w) {
    if constexpr (INNER) {
        int q = threadIdx.x % 4;
        float in[6][2], out[6][2];
#pragma unroll
        for (int i = 0; i < V; ++i) {
            in[i][0] = h[i][0], in[i][1] = h[i][1];
            out[i][0] = out[i][1] = w.inner_bias[unit(q, i)];
        }
        in[V][0] = in[V][1] = out[V][0] = out[V][1] = 0.f;
        dense<6, 6>(out, in, w.inner);
#pragma unroll
        for (int i = 0; i < V; ++i)  // a NaN stays one
            r[i][0] = out[i][0] < 0.f ? 0.f : out[i][0], r[i][1] = out[i][1] < 0.f ? 0.f : out[i][1];
    } else {
#pragma unroll
        for (int i = 0; i < V; ++i) r[i][0] = h[i][0], r[i][1] = h[i][1];
    }
}

// features (rows, FEATURES), h and c (2, rows, 20) -> out (rows, HEADS), h_new and c_new (2, rows, 20)
extern "C" __global__ void __launch_bounds__(THREADS, 2)
network_forward(const float* features, const float* h, const float* c, const float* weights, float* out, float* h_new,
                float* c_new, int rows) {
    __shared__ ForwardWeights w;
    w.read(weights);
    __syncthreads();
    int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    long long layer = (long long)rows * UNITS;
    for (int first = blockIdx.x * BLOCK_ROWS; first < rows; first += gridDim.x * BLOCK_ROWS) {
        int row = first + warp * TILE + g;
        float h1[V][2], h2[V][2], cells[V][2];
        float gates[UNITS][2];
        {
            float x[K1][2];
            load(h1, h, row, rows);
            first_inputs(x, h1, features, row, rows);
            load(cells, c, row, rows);
            bias(gates, w.bias1);
            dense<K1, UNITS>(gates, x, w.layer1);
        }
        next_cell(gates, cells, h1);
        store(c_new, cells, row, rows);
        store(h_new, h1, row, rows);
        {
            float x[10][2];
            load(h2, h + layer, row, rows);
#pragma unroll
            for (int i = 0; i < V; ++i) {
                x[i][0] = h1[i][0], x[i][1] = h1[i][1];
                x[V + i][0] = h2[i][0], x[V + i][1] = h2[i][1];
            }
            load(cells, c + layer, row, rows);
            bias(gates, w.bias2);
            dense<10, UNITS>(gates, x, w.layer2);
        }
        next_cell(gates, cells, h2);
        store(c_new + layer, cells, row, rows);
        store(h_new + layer, h2, row, rows);
        float r[V][2];
        last_layer(r, h2, w);
#pragma unroll
        for (int k = 0; k < HEADS; ++k)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                float sum = 0.f;
#pragma unroll
                for (int i = 0; i < V; ++i) sum += w.head[k * (UNITS + 1) + unit(q, i)] * r[i][half];
                sum += __shfl_xor_sync(0xffffffffu, sum, 1);
                sum += __shfl_xor_sync(0xffffffffu, sum, 2);
                int at = row + 8 * half;
                if (q == 0 && at < rows) out[(long long)at * HEADS + k] = sum + w.head[k * (UNITS + 1) + UNITS];
            }
    }
}

// Gradients with respect to the gates' preactivations, in place of their activations, and to the old cell state.
__device__ __forceinline__ void cell_backward(float (&gates)[UNITS][2], const float (&c)[V][2],
                                              const float (&squashed)[V][2], const float (&d_h)[V][2],
                                              float (&d_c)[V][2]) {
#pragma unroll
    for (int i = 0; i < V; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float in = gates[4 * i][half], forget = gates[4 * i + 1][half];
            float candidate = gates[4 * i + 2][half], out = gates[4 * i + 3][half];
            float flat = squashed[i][half], dh = d_h[i][half];
            float dc = d_c[i][half] + dh * out * (1.f - flat * flat);
            gates[4 * i][half] = dc * candidate * in * (1.f - in);
            gates[4 * i + 1][half] = dc * c[i][half] * forget * (1.f - forget);
            gates[4 * i + 2][half] = dc * in * (1.f - candidate * candidate);
            gates[4 * i + 3][half] = dh * flat * out * (1.f - out);
            d_c[i][half] = dc * forget;
        }
}

// One array of the rows of a block, from which the gradients of the weights are summed: value i of thread q in column
// 4 i + q. WIDTH is 8 or 24 modulo 32, so that the lanes of a product read from different banks.
template <int WIDTH> struct Staged {
    float values[BLOCK_ROWS * WIDTH];

    template <int N> __device__ __forceinline__ void put(const float (&x)[N][2], int from) {
        int row = threadIdx.x / 32 * TILE + threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            values[row * WIDTH + 4 * (from + i) + q] = x[i][0];
            values[(row + 8) * WIDTH + 4 * (from + i) + q] = x[i][1];
        }
    }
    // operand A, transposed: columns 16 tile + ... of rows 8 step + ...
    __device__ __forceinline__ void left(unsigned (&high)[4], unsigned (&low)[4], int tile, int step) const {
        int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
        const float* at = values + (8 * step + q) * WIDTH + 16 * tile + g;
        split(at[0], high[0], low[0]);
        split(at[8], high[1], low[1]);
        split(at[4 * WIDTH], high[2], low[2]);
        split(at[4 * WIDTH + 8], high[3], low[3]);
    }
    __device__ __forceinline__ float2 right(int tile, int step) const {
        int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
        const float* at = values + (8 * step + q) * WIDTH + 8 * tile + g;
        return make_float2(at[0], at[4 * WIDTH]);
    }
    __device__ __forceinline__ float column_sum(int column) const {
        float sums[4] = {};
#pragma unroll 8
        for (int row = 0; row < BLOCK_ROWS; row += 4)
#pragma unroll
            for (int k = 0; k < 4; ++k) sums[k] += values[(row + k) * WIDTH + column];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
};

struct BackwardMemory {
    ForwardWeights forward;
    float2 layer1[10 * (K1 / 2) * 32], layer2[10 * 5 * 32], inner[INNER ? 3 * 3 * 32 : 1];
    Staged<88> d_gates1, d_gates2;
    Staged<K1 == 6 ? 24 : 40> x1;
    Staged<40> x2;
    Staged<24> d_last;  // gradients at the inner layer (five values), then at the heads (one value)
    Staged<40> x_last;  // h of layer 2, then what the heads see (the last tile of d_last reads on into it, unused)
};
static_assert(sizeof(BackwardMemory) == MEMORY, "the launcher reserves MEMORY bytes of shared memory");

// Sum over the rows of the block of (column of gates) x (column of inputs): 5 tiles of 16 x 8 of a layer's gradient.
template <int A, int B>
__device__ __forceinline__ void gate_products(float (&sum)[5][4], const Staged<A>& left, const Staged<B>& right,
                                              int tile) {
#pragma unroll 2
    for (int step = 0; step < BLOCK_ROWS / 8; ++step) {
        float2 b = right.right(tile, step);
#pragma unroll
        for (int m = 0; m < 5; ++m) {
            unsigned high[4], low[4];
            left.left(high, low, m, step);
            multiply_add(sum[m][0], sum[m][1], sum[m][2], sum[m][3], high, low, b.x, b.y);
        }
    }
}

template <class Layer, int VALUES>
__device__ void put_gate_gradients(float* to, const float (&sum)[5][4], int tile) {
    int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
    for (int m = 0; m < 5; ++m)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            int mu = 16 * m + g + (e < 2 ? 0 : 8), nu = 8 * tile + 2 * q + e % 2;
            if (nu / 4 >= VALUES) continue;
            int at = Layer::at(mu % 4, mu / 4, nu % 4, nu / 4);
            if (at >= 0) to[at] = sum[m][e];
        }
}

// Gradients d_out, d_h_new, d_c_new of what `network_forward` returns to those of what it takes. The gradient of the
// weights comes as one row of `partial` (blocks, WEIGHTS) per block, to be added up: no atomics, so always the same.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
network_backward(const float* features, const float* h, const float* c, const float* weights, const float* d_out,
                 const float* d_h_new, const float* d_c_new, float* d_features, float* d_h, float* d_c, float* partial,
                 int rows) {
    SHARED_BYTES(raw)
    BackwardMemory& s = *reinterpret_cast<BackwardMemory*>(raw);
    s.forward.read(weights);
    fill<Transposed<Layer1>, UNITS, K1>(s.layer1, weights);
    fill<Transposed<Layer2>, UNITS, 10>(s.layer2, weights);
    if constexpr (INNER) fill<Transposed<Inner>, 6, 6>(s.inner, weights);
    __syncthreads();
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const long long layer = (long long)rows * UNITS;
    float sum[5][4] = {}, more[5][4] = {}, last[4] = {};
    float column = 0.f;  // thread t: the sum of column t of the gates of layer 1, of layer 2, then of d_last

    for (int first = blockIdx.x * BLOCK_ROWS; first < rows; first += gridDim.x * BLOCK_ROWS) {
        const int row = first + warp * TILE + g;
        float gates1[UNITS][2], gates2[UNITS][2], c1[V][2], c2[V][2], h1[V][2], squashed1[V][2], squashed2[V][2];
        {
            float x[K1][2], c_next[V][2];
            load(h1, h, row, rows);
            first_inputs(x, h1, features, row, rows);
            s.x1.put(x, 0);
            load(c1, c, row, rows);
            bias(gates1, s.forward.bias1);
            dense<K1, UNITS>(gates1, x, s.forward.layer1);
            cell(gates1, c1, c_next, squashed1, h1);
        }
        float r[V][2], d_h2[V][2];
        {
            float x[10][2], h2[V][2], c_next[V][2];
            load(h2, h + layer, row, rows);
#pragma unroll
            for (int i = 0; i < V; ++i) {
                x[i][0] = h1[i][0], x[i][1] = h1[i][1];
                x[V + i][0] = h2[i][0], x[V + i][1] = h2[i][1];
            }
            s.x2.put(x, 0);
            load(c2, c + layer, row, rows);
            bias(gates2, s.forward.bias2);
            dense<10, UNITS>(gates2, x, s.forward.layer2);
            cell(gates2, c2, c_next, squashed2, h2);
            last_layer(r, h2, s.forward);
            s.x_last.put(h2, 0);
            s.x_last.put(r, V);
        }
        {
            float d_heads[HEADS][2], own[1][2], d_r[6][2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                int at = row + 8 * half;
                own[0][half] = 0.f;
#pragma unroll
                for (int k = 0; k < HEADS; ++k) {
                    d_heads[k][half] = at < rows ? d_out[(long long)at * HEADS + k] : 0.f;
                    if (k == q) own[0][half] = d_heads[k][half];
                }
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    float value = 0.f;
#pragma unroll
                    for (int k = 0; k < HEADS; ++k)
                        value += s.forward.head[k * (UNITS + 1) + unit(q, i)] * d_heads[k][half];
                    d_r[i][half] = INNER && !(r[i][half] > 0.f) ? 0.f : value;
                }
                d_r[V][half] = 0.f;
            }
            s.d_last.put(own, V);
            load(d_h2, d_h_new + layer, row, rows);
            if constexpr (INNER) {
                float d_in[6][2] = {};
                dense<6, 6>(d_in, d_r, s.inner);
#pragma unroll
                for (int i = 0; i < V; ++i) d_h2[i][0] += d_in[i][0], d_h2[i][1] += d_in[i][1];
                float d_z[V][2];
#pragma unroll
                for (int i = 0; i < V; ++i) d_z[i][0] = d_r[i][0], d_z[i][1] = d_r[i][1];
                s.d_last.put(d_z, 0);
            } else {
#pragma unroll
                for (int i = 0; i < V; ++i) d_h2[i][0] += d_r[i][0], d_h2[i][1] += d_r[i][1];
            }
        }
        float d_h1[V][2], d_cell[V][2];
        load(d_h1, d_h_new, row, rows);
        {
            load(d_cell, d_c_new + layer, row, rows);
            cell_backward(gates2, c2, squashed2, d_h2, d_cell);
            store(d_c + layer, d_cell, row, rows);
            s.d_gates2.put(gates2, 0);
            float d_x[10][2] = {};
            dense<UNITS, 10>(d_x, gates2, s.layer2);
#pragma unroll
            for (int i = 0; i < V; ++i) {
                d_h1[i][0] += d_x[i][0], d_h1[i][1] += d_x[i][1];
                d_h2[i][0] = d_x[V + i][0], d_h2[i][1] = d_x[V + i][1];
            }
            store(d_h + layer, d_h2, row, rows);
        }
        {
            load(d_cell, d_c_new, row, rows);
            cell_backward(gates1, c1, squashed1, d_h1, d_cell);
            store(d_c, d_cell, row, rows);
            s.d_gates1.put(gates1, 0);
            float d_x[K1][2] = {};
            dense<UNITS, K1>(d_x, gates1, s.layer1);
#pragma unroll
            for (int i = 0; i < V; ++i) d_h1[i][0] = d_x[i][0], d_h1[i][1] = d_x[i][1];
            store(d_h, d_h1, row, rows);
            if constexpr (WIDE) {
                float wide[V][2];
#pragma unroll
                for (int i = 0; i < V; ++i) wide[i][0] = d_x[V + i][0], wide[i][1] = d_x[V + i][1];
                store(d_features, wide, row, rows);
            } else {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    int at = row + 8 * half;
                    if (at < rows && q < FEATURES) d_features[(long long)at * FEATURES + q] = d_x[V][half];
                }
            }
        }
        __syncthreads();
        // Layer 2 has five tiles of inputs, layer 1 three (or five): one per warp, and two for warps 0 and 1.
        if (warp < 5) gate_products(sum, s.d_gates2, s.x2, warp);
        else gate_products(sum, s.d_gates1, s.x1, warp - 5);
        if (WIDE && warp < 2) gate_products(more, s.d_gates1, s.x1, warp + 3);
#pragma unroll 4
        for (int step = 0; step < BLOCK_ROWS / 8; ++step) {
            unsigned high[4], low[4];
            s.d_last.left(high, low, warp < 5, step);
            float2 b = s.x_last.right(warp < 5 ? warp : warp - 5, step);
            multiply_add(last[0], last[1], last[2], last[3], high, low, b.x, b.y);
        }
        if (threadIdx.x < GATES) column += s.d_gates1.column_sum(threadIdx.x);
        else if (threadIdx.x < 2 * GATES) column += s.d_gates2.column_sum(threadIdx.x - GATES);
        else if (threadIdx.x < 2 * GATES + 24) column += s.d_last.column_sum(threadIdx.x - 2 * GATES);
        __syncthreads();
    }

    float* to = partial + (long long)blockIdx.x * WEIGHTS;
    for (int k = threadIdx.x; k < OFFSET; k += THREADS) to[k] = 0.f;
    if (warp < 5) put_gate_gradients<Layer2, 10>(to, sum, warp);
    else put_gate_gradients<Layer1, K1>(to, sum, warp - 5);
    if (WIDE && warp < 2) put_gate_gradients<Layer1, K1>(to, more, warp + 3);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        int mu = (warp < 5 ? 16 : 0) + g + (e < 2 ? 0 : 8), nu = 8 * (warp < 5 ? warp : warp - 5) + 2 * q + e % 2;
        int from = unit(nu % 4, nu / 4 % V);
        if (INNER && mu < UNITS && nu < UNITS) to[W_INNER + unit(mu % 4, mu / 4) * UNITS + from] = last[e];
        if (mu >= UNITS && mu < UNITS + HEADS && nu >= UNITS) to[HEAD + (mu - UNITS) * (UNITS + 1) + from] = last[e];
    }
    int t = threadIdx.x;
    if (t < GATES) to[B_IH0 + gate_row(t % 4, t / 4)] = to[B_HH0 + gate_row(t % 4, t / 4)] = column;
    else if (t < 2 * GATES) {
        t -= GATES;
        to[B_IH1 + gate_row(t % 4, t / 4)] = to[B_HH1 + gate_row(t % 4, t / 4)] = column;
    } else if (t < 2 * GATES + 24) {
        t -= 2 * GATES;
        if (INNER && t < UNITS) to[B_INNER + unit(t % 4, t / 4)] = column;
        if (t >= UNITS && t < UNITS + HEADS) to[HEAD + (t - UNITS) * (UNITS + 1) + UNITS] = column;
    }
}
