// Tasks over threads, memory of a thread's own, and the gradient of least squares with one read of A.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <vector>
#include "runtime/team.h"
#include "runtime/vectors.h"

// Multiply-adds that are worth waking a thread for: tens of microseconds.
constexpr int64_t WORTH_SHARING = 1 << 18;

// work(i, later) for i < count on so many threads, or one where all together is little; `cost` is the multiply-adds of
// a task, `later` what the same thread will do next, or `count` where that is open. Who does which task is left to
// chance: tasks do not depend on each other.
template <class Work> void parallel_foreseen(int64_t count, int64_t cost, int threads, const Work& work) {
    const int used = count * cost < WORTH_SHARING ? 1 : int(std::min<int64_t>(threads, count));
    std::atomic<int64_t> next{0};
    auto run = [&] {
        for (int64_t i = next++; i < count;) {
            const bool plenty = next + used <= count;  // else a task taken early could be missed by an idle thread
            const int64_t later = plenty ? next++ : count;
            work(i, std::min(later, count));
            i = plenty ? later : next++;
        }
    };
    if (used > 1) team().run(used - 1, run);
    else run();
}

template <class Work> void parallel(int64_t count, int64_t cost, int threads, const Work& work) {
    parallel_foreseen(count, cost, threads, [&](int64_t i, int64_t) { work(i); });
}

// `count` numbers, aligned; each thread has one such piece for every `Slot`, and keeps it while it lives.
template <class T, int Slot> T* scratch(size_t count) {
    thread_local std::vector<char> memory;
    size_t bytes = count * sizeof(T) + 64;
    if (memory.size() < bytes) memory.resize(bytes);
    return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
}

// Memory that will be read soon, brought into the second cache line by line: one at a time costs nothing beside
// arithmetic, many at once would block it.
struct Upcoming {
    static constexpr int64_t MOST = 1 << 20;  // bytes: what that cache has room for beside the rest
    const char *at = nullptr, *end = nullptr;

    Upcoming() = default;
    Upcoming(const void* from, int64_t bytes) : at((const char*)from), end(at + std::min(bytes, MOST)) {}
    INLINE void line() {
        if (at < end) __builtin_prefetch(at, 0, 2), at += 64;
    }
};

inline int64_t rounded_up(int64_t count, int64_t multiple) { return (count + multiple - 1) / multiple * multiple; }

// Copies up to a block; what is missing becomes zero.
template <class T> inline void take(T* to, const T* from, int64_t count) {
    if (count >= BLOCK<T>) {
        for (int v = 0; v < VECTORS; v++) store(to + v * LANES<T>, load(from + v * LANES<T>));
    } else {
        std::memcpy(to, from, count * sizeof(T));
        std::memset(to + count, 0, (BLOCK<T> - count) * sizeof(T));
    }
}
template <class T> inline void give(T* to, const T* from, int64_t count) {
    if (count >= BLOCK<T>) {
        for (int v = 0; v < VECTORS; v++) store(to + v * LANES<T>, load(from + v * LANES<T>));
    } else {
        std::memcpy(to, from, count * sizeof(T));
    }
}

// g += sum_i (a_i'x - b_i) a_i over ROWS rows: their products with x, then their part of g while they are still in the
// nearest cache.
constexpr int ROWS = 4;
template <class T> void add_rows(const T* A, int64_t stride, const T* b, const T* x, T* g, int64_t padded) {
    Vec<T> sum[ROWS] = {};
    T residual[ROWS];
    for (int64_t j = 0; j < padded; j += LANES<T>) {
        const Vec<T> v = load(x + j);
        for (int i = 0; i < ROWS; i++) sum[i] += load(A + i * stride + j) * v;
    }
    for (int i = 0; i < ROWS; i++) residual[i] = total<T>(sum[i]) - b[i];
    for (int64_t j = 0; j < padded; j += LANES<T>) {
        Vec<T> v = load(g + j);
        for (int i = 0; i < ROWS; i++) {
            v += load(A + i * stride + j) * residual[i];
            __builtin_prefetch(A + (ROWS + i) * stride + j);  // the next rows, while nothing else is read
        }
        store(g + j, v);
    }
}

// g = A'(A x - b), A (m, n), with one read of A. x and g have room for whole vectors; x is zero beyond n >= LANES.
template <class T> void gradient(const T* A, const T* b, const T* x, T* g, int64_t m, int64_t n) {
    const int64_t padded = rounded_up(n, LANES<T>);
    std::memset(g, 0, padded * sizeof(T));
    // Rows may be read beyond their end, into the next one, where x is zero; the last ones are copied first.
    const int64_t whole = (m - 1) / ROWS * ROWS;
    for (int64_t i = 0; i < whole; i += ROWS) add_rows(A + i * n, n, b + i, x, g, padded);
    T* last = scratch<T, 0>(ROWS * padded);
    T target[ROWS] = {};
    std::memset(last, 0, ROWS * padded * sizeof(T));
    for (int64_t i = whole; i < m; i++) {
        std::memcpy(last + (i - whole) * padded, A + i * n, n * sizeof(T));
        target[i - whole] = b[i];
    }
    add_rows(last, padded, target, x, g, padded);
}
