// Between memory that lies as (coordinate, unit), as the state does, and (unit, BLOCK), as the arithmetic wants it.
#pragma once
#include "blocks.h"

template <class T> INLINE void unit_by_unit(T* to, const T* from, int width, int64_t first, int64_t end) {
    for (int64_t j = first; j < end; j++)
        for (int k = 0; k < width; k++) to[k * BLOCK<T> + j] = from[j * width + k];
}
template <class T> INLINE void row_by_row(T* to, const T* from, int width, int64_t first, int64_t end) {
    for (int64_t j = first; j < end; j++)
        for (int k = 0; k < width; k++) to[j * width + k] = from[k * BLOCK<T> + j];
}

// (count, width) to (width, BLOCK); what is missing becomes zero
template <class T> void take_rows(T* to, const T* from, int width, int64_t count) {
    if (count < BLOCK<T>) std::memset(to, 0, width * BLOCK<T> * sizeof(T));
    unit_by_unit(to, from, width, 0, std::min<int64_t>(count, BLOCK<T>));
}
// and back
template <class T> void give_rows(T* to, const T* from, int width, int64_t count) {
    row_by_row(to, from, width, 0, std::min<int64_t>(count, BLOCK<T>));
}

#if defined(WIDE)
// 16 coordinates by 4 units at a time: coordinate 4 l + i is lane l of row i, so that turning 4 x 4 within the lanes
// puts coordinates in order.
INLINE void turn(__m512 (&row)[4]) {
    __m512d low = (__m512d)_mm512_unpacklo_ps(row[0], row[1]), low2 = (__m512d)_mm512_unpacklo_ps(row[2], row[3]);
    __m512d high = (__m512d)_mm512_unpackhi_ps(row[0], row[1]), high2 = (__m512d)_mm512_unpackhi_ps(row[2], row[3]);
    row[0] = (__m512)_mm512_unpacklo_pd(low, low2), row[1] = (__m512)_mm512_unpackhi_pd(low, low2);
    row[2] = (__m512)_mm512_unpacklo_pd(high, high2), row[3] = (__m512)_mm512_unpackhi_pd(high, high2);
}

template <> inline void take_rows<float>(float* to, const float* from, int width, int64_t count) {
    if (width % 4 || count < BLOCK<float>) {
        std::memset(to, 0, width * BLOCK<float> * sizeof(float));
        return unit_by_unit(to, from, width, 0, std::min<int64_t>(count, BLOCK<float>));
    }
    for (int j = 0; j < BLOCK<float>; j += 16, from += 16 * width)
        for (int k = 0; k < width; k += 4) {
            __m512 row[4];
            for (int i = 0; i < 4; i++) {
                auto piece = [&](int lane) { return _mm_loadu_ps(from + (4 * lane + i) * width + k); };
                __m512 v = _mm512_castps128_ps512(piece(0));
                v = _mm512_insertf32x4(v, piece(1), 1);
                v = _mm512_insertf32x4(v, piece(2), 2);
                row[i] = _mm512_insertf32x4(v, piece(3), 3);
            }
            turn(row);
            for (int i = 0; i < 4; i++) _mm512_storeu_ps(to + (k + i) * BLOCK<float> + j, row[i]);
        }
}

template <> inline void give_rows<float>(float* to, const float* from, int width, int64_t count) {
    if (width % 4 || count < BLOCK<float>)
        return row_by_row(to, from, width, 0, std::min<int64_t>(count, BLOCK<float>));
    for (int j = 0; j < BLOCK<float>; j += 16, to += 16 * width)
        for (int k = 0; k < width; k += 4) {
            __m512 row[4];
            for (int i = 0; i < 4; i++) row[i] = _mm512_loadu_ps(from + (k + i) * BLOCK<float> + j);
            turn(row);
            for (int i = 0; i < 4; i++) {
                float* place = to + i * width + k;
                _mm_storeu_ps(place, _mm512_castps512_ps128(row[i]));
                _mm_storeu_ps(place + 4 * width, _mm512_extractf32x4_ps(row[i], 1));
                _mm_storeu_ps(place + 8 * width, _mm512_extractf32x4_ps(row[i], 2));
                _mm_storeu_ps(place + 12 * width, _mm512_extractf32x4_ps(row[i], 3));
            }
        }
}
#endif
