// The scalar functions of the kernels, written without branches so that they vectorise.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "maxmargin/kernel.hpp"
#include "maxmargin/loops.hpp"
#include "minmax.hpp"

namespace maxmargin::MAXMARGIN_LEVEL {

// exp(x) for x <= 88: 2^n 2^f with n = round(x / ln 2), |f| <= 1/2, and a minimax polynomial for 2^f (relative error 2e-9,
// exactly 1 at 0). Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa.
inline float exponential(float x) {
    constexpr float per_ln2 = 1.44269504088896341f;
    x = larger(x, -87.0f);
    const float shifted = x * per_ln2 + 12582912.0f;
    const float f = x * per_ln2 - (shifted - 12582912.0f);
    float p = 1.5353361461e-4f;
    p = p * f + 1.3398874570e-3f;
    p = p * f + 9.6184373607e-3f;
    p = p * f + 5.5503324706e-2f;
    p = p * f + 2.4022647914e-1f;
    p = p * f + 6.9314720286e-1f;
    p = p * f + 1.0f;
    const std::uint32_t power = std::bit_cast<std::uint32_t>(shifted) << 23;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + power);
}

// exp(x) for x <= 709: exp(r) with |r| <= ln 2 / 2 by the Taylor polynomial of degree 13 (its remainder is below 2^-57).
inline double exponential(double x) {
    x = larger(x, -708.0);
    const double shifted = x * 1.4426950408889634074 + 6755399441055744.0;
    const double n = shifted - 6755399441055744.0;
    const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double p = 1.6059043836821613e-10;
    p = p * r + 2.0876756987868099e-09;
    p = p * r + 2.5052108385441719e-08;
    p = p * r + 2.7557319223985891e-07;
    p = p * r + 2.7557319223985893e-06;
    p = p * r + 2.4801587301587302e-05;
    p = p * r + 1.9841269841269841e-04;
    p = p * r + 1.3888888888888889e-03;
    p = p * r + 8.3333333333333332e-03;
    p = p * r + 4.1666666666666664e-02;
    p = p * r + 1.6666666666666666e-01;
    p = p * r + 0.5;
    p = p * (r * r) + r + 1.0;
    const std::uint64_t power = std::bit_cast<std::uint64_t>(shifted) << 52;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + power);
}

// tanh(x) = 1 - 2 / (exp(2x) + 1); for a small x, of which that loses all digits, Taylor's polynomial (remainder below 1e-19).
template <class T>
inline T hyperbolic_tangent(T x) {
    const T z = smaller(x * x, T(0.01));
    T p = T(-929569.0 / 638512875.0);
    p = p * z + T(21844.0 / 6081075.0);
    p = p * z - T(1382.0 / 155925.0);
    p = p * z + T(62.0 / 2835.0);
    p = p * z - T(17.0 / 315.0);
    p = p * z + T(2.0 / 15.0);
    p = p * z - T(1.0 / 3.0);
    const T small = x + x * z * p, large = T(1) - T(2) / (exponential(smaller(T(2) * x, T(80))) + T(1));
    return x * x < T(0.01) ? small : large;
}

template <class T, class Function>
inline void map_tile(T* tile, int size, Function f) {
#pragma omp simd
    for (int j = 0; j < size; ++j) tile[j] = f(tile[j]);
}

// Round to float32; to zero where float32 has no normal number, because arithmetic with subnormal ones is many times slower.
template <class T>
void round(const T* values, int size, float* out) {
#pragma omp simd
    for (int j = 0; j < size; ++j) {
        const T normal = std::abs(values[j]) < T(std::numeric_limits<float>::min()) ? T(0) : values[j];
        out[j] = static_cast<float>(normal);
    }
}

// See loops.hpp.
template <class T>
int to_squared_distances(T* tile, int n_rows, int n_columns, const T* row_norms, const T* column_norms, int* near_rows) {
    T largest = 0;
#pragma omp simd reduction(max : largest)
    for (int j = 0; j < n_columns; ++j) largest = larger(largest, column_norms[j]);
    int n_near = 0;
    for (int r = 0; r < n_rows; ++r) {
        T* row = tile + static_cast<std::ptrdiff_t>(r) * n_columns;
        const T norm = row_norms[r];
        T lowest = norm + largest;
#pragma omp simd reduction(min : lowest)
        for (int j = 0; j < n_columns; ++j) {
            const T squared = (norm + column_norms[j]) - T(2) * row[j];
            lowest = smaller(lowest, squared);
            row[j] = larger(squared, T(0));
        }
        near_rows[n_near] = r;
        n_near += lowest < near_share<T> * (norm + largest);
    }
    return n_near;
}

template <class T>
void apply_kernel(const Kernel& kernel, T* tile, int size) {
    const T gamma = static_cast<T>(kernel.gamma), coef0 = static_cast<T>(kernel.coef0);
    switch (kernel.kind) {
        case KernelKind::linear:
        case KernelKind::squared_distance:
        case KernelKind::manhattan_distance: return;
        case KernelKind::rbf:
        case KernelKind::laplacian: return map_tile(tile, size, [=](T s) { return exponential(-gamma * s); });
        case KernelKind::exponential: return map_tile(tile, size, [=](T s) { return exponential(-gamma * std::sqrt(s)); });
        case KernelKind::sigmoid: return map_tile(tile, size, [=](T s) { return hyperbolic_tangent(gamma * s + coef0); });
        case KernelKind::polynomial: {
            const int power = static_cast<int>(kernel.degree);
            if (power != kernel.degree || power < 0 || power > 64) {
                // a negative base is a zero that was rounded
                for (int j = 0; j < size; ++j)
                    tile[j] = static_cast<T>(std::pow(larger(gamma * tile[j] + coef0, T(0)), kernel.degree));
                return;
            }
            return map_tile(tile, size, [=](T s) {
                const T base = gamma * s + coef0;
                T value = 1;
                for (int k = 0; k < power; ++k) value *= base;
                return value;
            });
        }
    }
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
