// The columns of A that a working set holds, and their normal matrix.
#pragma once
#include "working_set/cholesky.h"

// G = A_W' D A_W of the columns W of one A (m, n), in the order in which they joined; D = 1, or the curvatures of a model.
struct Normal {
    int64_t m = 0, n = 0, count = 0, room = 0;  // `room`: the stride of G
    std::vector<int64_t> index;                 // (count)
    std::vector<char> inside;                   // (n)
    std::vector<double> G;                      // (room, room)

    void begin(int64_t rows, int64_t all) {
        m = rows, n = all, count = 0;
        index.clear();
        inside.assign(n, 0);
    }
    void join(const std::vector<int64_t>& more) {
        const int64_t before = count;
        count += int64_t(more.size());
        for (int64_t j : more) index.push_back(j), inside[j] = 1;
        if (count <= room) return;
        const int64_t wider = rounded_up(std::max(count, 2 * room), BLOCK<double>);
        std::vector<double> next(wider * wider, 0);
        for (int64_t p = 0; p < before; p++) std::copy_n(&G[p * room], before, &next[p * wider]);
        G.swap(next);
        room = wider;
    }
};

// The normal matrix of columns (count, tall), into `to` with this stride: rows and columns from `first`, a multiple of
// TILE, on. There is room for whole tiles.
inline void normal_matrix(const double* columns, int64_t tall, int64_t first, int64_t count, double* to, int64_t stride,
                          int threads) {
    const int64_t tiles = (count - first + TILE - 1) / TILE;
    parallel(tiles, TILE * tall * count, threads, [&](int64_t tile) {
        const int64_t p = first + tile * TILE;
        for (int64_t q = 0; q <= p; q += TILE) {
            double sums[TILE][TILE];
            dots(columns + p * tall, tall, columns + q * tall, tall, tall, sums);
            for (int a = 0; a < TILE; a++)
                for (int b = 0; b < TILE; b++) to[(p + a) * stride + q + b] = sums[a][b];
            for (int a = 0; a < TILE && q < p; a++)
                for (int b = 0; b < TILE; b++) to[(q + b) * stride + p + a] = sums[a][b];
        }
    });
}

constexpr int64_t STRIP = 512;  // columns whose products one thread computes

// g = A'z of a strip of columns, and with `squares` those of its columns
template <class T, bool SQUARES>
void strip_products(const T* A, int64_t m, int64_t n, int64_t from, int64_t to, const double* z, double* g, double* s) {
    constexpr int64_t HEIGHT = 8;
    const int64_t whole = from + (to - from) / LANES<double> * LANES<double>;
    for (int64_t j = from; j < to; j++) g[j] = 0;
    if (SQUARES)
        for (int64_t j = from; j < to; j++) s[j] = 0;
    for (int64_t i = 0; i < m; i += HEIGHT) {
        const int count = int(std::min<int64_t>(HEIGHT, m - i));
        double by[HEIGHT];
        for (int r = 0; r < count; r++) by[r] = z[i + r];
        const T* rows = A + i * n;
        const auto columns = [&](auto height) IN_PLACE {
            for (int64_t j = from; j < whole; j += LANES<double>) {
                Vec<double> sum = load(g + j), squares = SQUARES ? load(s + j) : Vec<double>{};
                for (int r = 0; r < height; r++) {
                    const Vec<double> a = widened(rows + r * n + j);
                    sum += a * by[r];
                    if (SQUARES) squares += a * a;
                }
                store(g + j, sum);
                if (SQUARES) store(s + j, squares);
            }
        };
        if (count == HEIGHT) columns(std::integral_constant<int, HEIGHT>());
        else columns(count);
        for (int64_t j = whole; j < to; j++)
            for (int r = 0; r < count; r++) {
                const double a = double(rows[r * n + j]);
                g[j] += a * by[r];
                if (SQUARES) s[j] += a * a;
            }
    }
}

// Of a dense A (m, n): the columns W are held in double precision.
template <class T> struct Columns : Normal {
    static constexpr int64_t LARGEST = 1 << 24;  // numbers
    const T* A = nullptr;
    int64_t tall = 0;                  // m rounded up
    std::vector<double> part, scaled;  // (room, tall): the columns, and their rows times sqrt(D)

    template <class In> void begin(const In& in, int64_t instance) {
        Normal::begin(in.m, in.n);
        A = in.A + instance / in.copies * m * n;
        tall = rounded_up(m, LANES<double>);
    }
    bool fits(int64_t size) const { return size * tall <= LARGEST; }
    int64_t read() const { return m * n; }  // multiply-adds of a product with A
    int64_t made(int64_t before) const { return (count - before) * count * m; }  // and of what joining took

    void add(const std::vector<int64_t>& more) {
        const int64_t before = count;
        join(more);
        part.resize(room * tall, 0);
        for (int64_t i = 0; i < m; i++)
            for (int64_t c = before; c < count; c++) part[c * tall + i] = double(A[i * n + index[c]]);
        for (int64_t c = before; c < count; c++)
            for (int64_t i = m; i < tall; i++) part[c * tall + i] = 0;
    }
    // G of all, D = 1, where that of those `before` is known; that of A is `whole` (n, n), if given, with the same bits.
    void square(int64_t before, const double* whole, int threads) {
        if (before == count) return;
        if (!whole) return normal_matrix(part.data(), tall, before / TILE * TILE, count, G.data(), room, threads);
        for (int64_t p = before; p < count; p++)
            for (int64_t q = 0; q <= p; q++) G[p * room + q] = G[q * room + p] = whole[index[p] * n + index[q]];
    }
    void weigh(const std::vector<double>& D, int threads) {
        scaled.resize(room * tall);
        std::vector<double> root(tall, 0);
        for (int64_t i = 0; i < m; i++) root[i] = std::sqrt(D[i]);
        for (int64_t c = 0; c < count; c++)
            for (int64_t i = 0; i < tall; i += LANES<double>)
                store(&scaled[c * tall + i], load(&part[c * tall + i]) * load(&root[i]));
        normal_matrix(scaled.data(), tall, 0, count, G.data(), room, threads);
    }
    // t = A_W v
    void image(const double* v, double* t) const {
        std::fill(t, t + m, 0.0);
        for (int64_t c = 0; c < count; c++)
            if (v[c] != 0)
                for (int64_t i = 0; i < m; i++) t[i] += v[c] * part[c * tall + i];
    }
    // g = A'u, and with `squares` those of the columns
    void products(const double* u, double* g, double* squares, int threads) const {
        parallel((n + STRIP - 1) / STRIP, m * STRIP, threads, [&](int64_t strip) {
            const int64_t from = strip * STRIP, to = std::min(n, from + STRIP);
            if (squares) strip_products<T, true>(A, m, n, from, to, u, g, squares);
            else strip_products<T, false>(A, m, n, from, to, u, g, squares);
        });
    }
};
