// Dot products and distances of rows against a panel of samples. Included once per instruction-set level.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "maxmargin/loops.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr int width = panel_width;

// The number of bytes of a panel row in one strip of sums: six rows of sums, the samples and one value fill the registers.
#if defined(__AVX512F__)
constexpr int strip_bytes = 4 * 64;
#elif defined(__AVX__)
constexpr int strip_bytes = 2 * 32;
#else
constexpr int strip_bytes = 2 * 16;
#endif

template <Pairing pairing, class T>
inline T pair_term(T x, T z) {
    if constexpr (pairing == Pairing::dot) {
        return x * z;
    } else if constexpr (pairing == Pairing::squared_distance) {
        return (x - z) * (x - z);
    } else {
        return std::abs(x - z);
    }
}

// `height` rows at a time, so that each panel value loaded serves several rows and the sums stay in registers.
template <Pairing pairing, int height, class T>
inline void pair_strip(const T* rows, int n_features, const T* panel, T* tile) {
    constexpr int lanes = strip_bytes / sizeof(T);
    T sums[height][lanes] = {};
    for (int k = 0; k < n_features; ++k) {
        const T* samples = panel + k * width;
#pragma GCC unroll 8
        for (int r = 0; r < height; ++r) {
            const T x = rows[r * n_features + k];
#pragma omp simd
            for (int j = 0; j < lanes; ++j) sums[r][j] += pair_term<pairing>(x, samples[j]);
        }
    }
    for (int r = 0; r < height; ++r)
        for (int j = 0; j < lanes; ++j) tile[r * width + j] = sums[r][j];
}

template <Pairing pairing, class T>
void pair_rows(const T* rows, std::ptrdiff_t n_rows, const T* panel, int n_features, T* tile) {
    for (int j = 0; j < width; j += strip_bytes / sizeof(T)) {
        std::ptrdiff_t r = 0;
        for (; r + 6 <= n_rows; r += 6)
            pair_strip<pairing, 6>(rows + r * n_features, n_features, panel + j, tile + r * width + j);
        for (; r + 2 <= n_rows; r += 2)
            pair_strip<pairing, 2>(rows + r * n_features, n_features, panel + j, tile + r * width + j);
        for (; r < n_rows; ++r) pair_strip<pairing, 1>(rows + r * n_features, n_features, panel + j, tile + r * width + j);
    }
}

template <class T>
void pair_dense(Pairing pairing, const T* rows, int n_rows, const T* panel, int n_features, T* tile) {
    switch (pairing) {
        case Pairing::dot: return pair_rows<Pairing::dot>(rows, n_rows, panel, n_features, tile);
        case Pairing::squared_distance: return pair_rows<Pairing::squared_distance>(rows, n_rows, panel, n_features, tile);
        case Pairing::manhattan_distance: return pair_rows<Pairing::manhattan_distance>(rows, n_rows, panel, n_features, tile);
    }
}

template <class T>
void dot_sparse(const std::int32_t* features, const T* values, std::int64_t n_values, const std::int32_t* place, const T* panel,
                T* tile) {
    T sums[width] = {};
    for (std::int64_t v = 0; v < n_values; ++v) {
        const std::int32_t at = place[features[v]];
        if (at < 0) continue;
        const T x = values[v];
        const T* samples = panel + static_cast<std::int64_t>(at) * width;
#pragma omp simd
        for (int j = 0; j < width; ++j) sums[j] += x * samples[j];
    }
    for (int j = 0; j < width; ++j) tile[j] = sums[j];
}

template <class T>
void accumulate(const T* const* tile_rows, int n_rows, int n_columns, const double* weights, double* out) {
    int r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        const T *a = tile_rows[r], *b = tile_rows[r + 1], *c = tile_rows[r + 2], *d = tile_rows[r + 3];
        const double wa = weights[r], wb = weights[r + 1], wc = weights[r + 2], wd = weights[r + 3];
#pragma omp simd
        for (int j = 0; j < n_columns; ++j) out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j]);
    }
    for (; r < n_rows; ++r) {
        const T* a = tile_rows[r];
        const double wa = weights[r];
#pragma omp simd
        for (int j = 0; j < n_columns; ++j) out[j] += wa * a[j];
    }
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
