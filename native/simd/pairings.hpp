// Dot products and distances of rows against a panel of samples. Included once per instruction-set level.
#pragma once
#include <cstddef>
#include <cstdint>

#include "maxmargin/loops.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

constexpr int width = panel_width;

// Sums are kept in vectors of one register each: six rows of them, one vector of samples and one value fill the registers.
#if defined(__AVX512F__)
constexpr int vector_bytes = 64, vectors_of_a_strip = 4;
#elif defined(__AVX__)
constexpr int vector_bytes = 32, vectors_of_a_strip = 2;
#else
constexpr int vector_bytes = 16, vectors_of_a_strip = 2;
#endif

template <class T>
struct Register {
    typedef T type __attribute__((vector_size(vector_bytes)));
    typedef T in_memory __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

template <Pairing pairing, class Vector>
inline Vector pair_terms(Vector x, Vector z) {
    if constexpr (pairing == Pairing::dot) {
        return x * z;
    } else {
        const Vector difference = x - z;
        if constexpr (pairing == Pairing::squared_distance)
            return difference * difference;
        else
            return difference < 0 ? -difference : difference;
    }
}

// `height` rows at a time, so that each vector of samples serves several rows. GCC would keep the sums of plain loops in memory.
template <Pairing pairing, int height, int n_vectors, class T>
inline void pair_strip(const T* rows, int n_features, const T* panel, T* tile) {
    using Vector = typename Register<T>::type;
    using Stored = typename Register<T>::in_memory;
    Vector sums[height][n_vectors] = {};
    for (int k = 0; k < n_features; ++k) {
        const auto* samples = reinterpret_cast<const Stored*>(panel + k * width);
#pragma GCC unroll 8
        for (int r = 0; r < height; ++r) {
            const Vector x = rows[r * n_features + k] - Vector{};
#pragma GCC unroll 8
            for (int v = 0; v < n_vectors; ++v) sums[r][v] += pair_terms<pairing, Vector>(x, samples[v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < height; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < n_vectors; ++v) reinterpret_cast<Stored*>(tile + r * width)[v] = sums[r][v];
}

template <Pairing pairing, class T>
void pair_rows(const T* rows, std::ptrdiff_t n_rows, const T* panel, int n_features, T* tile) {
    constexpr int lanes = vector_bytes / static_cast<int>(sizeof(T)), strip = vectors_of_a_strip * lanes;
    for (int j = 0; j < width; j += strip) {
        std::ptrdiff_t r = 0;
        for (; r + 6 <= n_rows; r += 6)
            pair_strip<pairing, 6, vectors_of_a_strip>(rows + r * n_features, n_features, panel + j, tile + r * width + j);
        for (; r + 2 <= n_rows; r += 2)
            pair_strip<pairing, 2, vectors_of_a_strip>(rows + r * n_features, n_features, panel + j, tile + r * width + j);
    }
    if (n_rows % 2 == 0) return;
    constexpr int most = 8;  // sums of a single row, as many as hide the latency of an addition
    constexpr int n_vectors = width / lanes < most ? width / lanes : most;
    for (int j = 0; j < width; j += n_vectors * lanes)
        pair_strip<pairing, 1, n_vectors>(rows + (n_rows - 1) * n_features, n_features, panel + j,
                                          tile + (n_rows - 1) * width + j);
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

template <class T>
void multiply_both_ways(const T* const* rows, int n_columns, const double* weights, const double* of_columns, double* out,
                        double* sums) {
    const T *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
    const double wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
    double sa = 0.0, sb = 0.0, sc = 0.0, sd = 0.0;
#pragma omp simd reduction(+ : sa, sb, sc, sd)
    for (int j = 0; j < n_columns; ++j) {
        const double w = of_columns[j];
        sa += w * a[j], sb += w * b[j], sc += w * c[j], sd += w * d[j];
        out[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j]);
    }
    sums[0] += sa, sums[1] += sb, sums[2] += sc, sums[3] += sd;
}

template <class T>
void weigh_rows(const T* tile, int n_rows, int n_columns, int stride, const double* weights, double* sums) {
    for (int r = 0; r < n_rows; ++r, tile += stride) {
        double parts[8] = {};
        int j = 0;
        for (; j + 8 <= n_columns; j += 8)
#pragma omp simd
            for (int k = 0; k < 8; ++k) parts[k] += weights[j + k] * tile[j + k];
        for (int k = 0; j + k < n_columns; ++k) parts[k] += weights[j + k] * tile[j + k];
        sums[r] = ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
    }
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
