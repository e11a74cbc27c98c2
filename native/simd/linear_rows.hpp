// Products of one dense row with a vector, in float64. Included once per instruction-set level.
#pragma once
#include <cstdint>

namespace maxmargin::MAXMARGIN_LEVEL {

template <class T>
double dot(const T* row, const double* w, int n_features) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int k = 0; k < n_features; ++k) sum += row[k] * w[k];
    return sum;
}

template <class T>
void add(double weight, const T* row, double* out, int n_features) {
#pragma omp simd
    for (int k = 0; k < n_features; ++k) out[k] += weight * row[k];
}

template <class T>
double square(const T* row, int n_features) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int k = 0; k < n_features; ++k) sum += static_cast<double>(row[k]) * row[k];
    return sum;
}

}  // namespace maxmargin::MAXMARGIN_LEVEL
