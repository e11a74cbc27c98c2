// Random samples in every form the library takes, and the kernels as plain double loops.
#pragma once
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "maxmargin/gram.hpp"
#include "maxmargin/tiles.hpp"

namespace tests {

using namespace maxmargin;

enum class Storage { dense, csr32, csr64 };

inline const char* name_of(Storage storage) {
    return storage == Storage::dense ? "dense" : storage == Storage::csr32 ? "CSR (int32)" : "CSR (int64)";
}
template <class T>
const char* name_of() {
    return std::is_same_v<T, float> ? "float" : "double";
}

struct Named {
    const char* name;
    Kernel kernel;
};
inline const std::vector<Named>& kernels() {
    static const std::vector<Named> all{{"linear", {KernelKind::linear}},
                                        {"polynomial", {KernelKind::polynomial, 0.5, 1.0, 3.0}},
                                        {"homogeneous polynomial", {KernelKind::polynomial, 0.5, 0.0, 2.0}},
                                        {"rbf", {KernelKind::rbf, 0.7}},
                                        {"laplacian", {KernelKind::laplacian, 0.4}},
                                        {"exponential", {KernelKind::exponential, 0.6}},
                                        {"sigmoid", {KernelKind::sigmoid, 0.3, -0.2}}};
    return all;
}

// n samples of d features, about a third of them zero, each of squared length about one: kernel values stay near one.
template <class T>
struct Data {
    int n, d;
    std::vector<T> values;

    Data(int n_samples, int n_features, unsigned seed) : n(n_samples), d(n_features), values(std::size_t(n) * d) {
        std::mt19937 random(seed);
        std::normal_distribution<double> normal(0.0, 1.0 / std::sqrt(d));
        for (T& value : values) value = random() % 3 ? static_cast<T>(normal(random)) : T(0);
    }
    // Sets: this share of the values is `value`, the others are zero.
    Data(int n_samples, int n_features, double share, T value, unsigned seed) : Data(n_samples, n_features, seed) {
        std::mt19937 random(seed);
        std::bernoulli_distribution present(share);
        for (T& entry : values) entry = present(random) ? value : T(0);
    }
    const T* row(int i) const { return values.data() + std::size_t(i) * d; }

    Samples<T> samples(Storage storage) const {
        if (storage == Storage::dense) return Samples<T>(DenseView<T>{values.data(), n, d, d}, nullptr);
        return storage == Storage::csr32 ? compressed<std::int32_t>() : compressed<std::int64_t>();
    }

private:
    template <class I>
    Samples<T> compressed() const {
        std::vector<I> starts{0}, features;
        std::vector<T> kept;
        for (int i = 0; i < n; ++i) {
            for (int k = 0; k < d; ++k)
                if (row(i)[k] != T(0)) features.push_back(k), kept.push_back(row(i)[k]);
            starts.push_back(static_cast<I>(features.size()));
        }
        return Samples<T>(CsrView<T, I>{starts.data(), features.data(), kept.data(), n, d});
    }
};

// k(x, z) by its definition, in double.
template <class T>
double plain_kernel(const Kernel& kernel, const T* x, const T* z, int d) {
    double dot = 0.0, squared = 0.0, manhattan = 0.0;
    for (int k = 0; k < d; ++k) {
        const double a = x[k], b = z[k];
        dot += a * b;
        squared += (a - b) * (a - b);
        manhattan += std::abs(a - b);
    }
    switch (kernel.kind) {
        case KernelKind::linear: return dot;
        case KernelKind::polynomial: return std::pow(kernel.gamma * dot + kernel.coef0, kernel.degree);
        case KernelKind::rbf: return std::exp(-kernel.gamma * squared);
        case KernelKind::laplacian: return std::exp(-kernel.gamma * manhattan);
        case KernelKind::exponential: return std::exp(-kernel.gamma * std::sqrt(squared));
        case KernelKind::sigmoid: return std::tanh(kernel.gamma * dot + kernel.coef0);
        case KernelKind::squared_distance: return squared;
        case KernelKind::manhattan_distance: return manhattan;
    }
    return NAN;
}

// The largest error of a kernel value of this size. The exponential kernel takes the root of a squared distance, which near zero
// turns an error of eps into one of sqrt(eps).
template <class T>
double tolerance(const Kernel& kernel) {
    const double eps = std::is_same_v<T, float> ? 1e-6 : 1e-14;
    return kernel.kind == KernelKind::exponential ? 4.0 * std::sqrt(eps) : 20.0 * eps;
}

// Whether the library has this kernel for this storage; it has no Manhattan distance of sparse samples.
inline bool offered(const Kernel& kernel, Storage storage) {
    return storage == Storage::dense || kernel.pairing() != Pairing::manhattan_distance;
}

}  // namespace tests
