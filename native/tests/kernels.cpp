// Every kernel in every arithmetic and storage, at sizes around the width of a panel, against a plain double loop.
#include <limits>
#include <numeric>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

template <class T>
void test_tile(const Kernel& kernel, Storage storage, const Data<T>& data) {
    const int n = data.n, d = data.d;
    Gram<T> gram(kernel, data.samples(storage), {0, n}, 0);
    std::vector<std::int32_t> members(n);
    std::iota(members.rbegin(), members.rend(), 0);  // backwards, so that member and sample differ
    Tile<T> tile;
    gram.fill_tile(members.data(), n, tile);
    CHECK(tile.size() == n);

    double error = 0.0, asymmetry = 0.0, padding = 0.0;
    for (int a = 0; a < n; ++a) {
        for (int b = 0; b < n; ++b) {
            const double expected = plain_kernel(kernel, data.row(members[a]), data.row(members[b]), d);
            error = std::max(error, std::abs(tile.row(a)[b] - expected));
            asymmetry = std::max(asymmetry, std::abs(double(tile.row(a)[b]) - tile.row(b)[a]));
        }
        for (int b = n; b < tile.stride(); ++b) padding = std::max(padding, std::abs(double(tile.row(a)[b])));
    }
    CHECK(error <= tolerance<T>(kernel));
    CHECK(asymmetry <= tolerance<T>(kernel));
    CHECK(padding == 0.0);

    std::vector<double> diagonal(n);
    gram.diagonal(diagonal.data());
    for (int i = 0; i < n; ++i)
        CHECK(close(diagonal[i], plain_kernel(kernel, data.row(i), data.row(i), d), tolerance<T>(kernel)));
}

// The pairings that kernels are functions of, for all pairs of samples.
void test_pairs(const Kernel& kernel, Storage storage, int n, int d) {
    const Data<double> data(n, d, 3 * n + d);
    Samples<double> samples = data.samples(storage);
    std::vector<double> pairs(n * n);
    pair_all(kernel, samples, pairs.data());
    double error = 0.0, largest = 1.0;
    for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b) {
            const double expected = plain_kernel(kernel.bare(), data.row(a), data.row(b), d);
            error = std::max(error, std::abs(pairs[a * n + b] - expected));
            largest = std::max(largest, std::abs(expected));
        }
    CHECK(error <= tolerance<double>(kernel.bare()) * largest);
    CHECK(kernel.pairing() == Pairing::dot || pairs[0] == 0.0);
}

template <class T>
void test_arithmetic() {
    for (const auto& [name, kernel] : kernels())
        for (Storage storage : {Storage::dense, Storage::csr32, Storage::csr64}) {
            if (!offered(kernel, storage)) continue;
            for (int d : {1, 2, 13, 57, 300, 4200})  // the last is multiplied by BLAS on every processor
                for (int n : d > 1000 ? std::vector{65} : std::vector{1, 63, 64, 65, 130})
                    run(std::string("kernel ") + name + ", " + name_of<T>() + ", " + name_of(storage) + ", " + std::to_string(n) +
                            " x " + std::to_string(d),
                        [&] { test_tile(kernel, storage, Data<T>(n, d, 17 * n + d)); });
        }
}

// Sums over the kernel values of sets with sets, and with samples that are not sets of the same value.
template <class T>
void test_sums_of_sets(const Kernel& kernel, const Data<T>& support, const Data<T>& queries) {
    const std::vector<double> weights(support.n, 1.0);
    std::vector<double> sums(queries.n);
    weighted_sums(kernel, support.samples(Storage::csr32), queries.samples(Storage::csr32), weights.data(), 1, {support.n},
                  sums.data());
    for (int j = 0; j < queries.n; ++j) {
        double expected = 0.0;
        for (int i = 0; i < support.n; ++i) expected += plain_kernel(kernel, support.row(i), queries.row(j), support.d);
        CHECK(close(sums[j], expected, support.n * tolerance<T>(kernel) * std::max(1.0, std::abs(expected) / support.n)));
    }
}

template <class T>
void test_sets() {
    const T value = T(0.15);
    for (const auto& [name, kernel] : kernels()) {
        if (!offered(kernel, Storage::csr32)) continue;
        for (double share : {0.02, 0.2, 0.5})  // sets of 2, 20 and 50 features
            for (int n : {1, 63, 511, 513, 600})
                run(std::string("sets, ") + name + ", " + name_of<T>() + ", " + std::to_string(n),
                    [&] { test_tile(kernel, Storage::csr64, Data<T>(n, 100, share, value, 3 * n)); });
        const Data<T> sets(70, 100, 0.2, value, 1);
        run(std::string("sums of sets, ") + name + ", " + name_of<T>(), [&] {
            test_sums_of_sets(kernel, sets, Data<T>(530, 100, 0.4, value, 2));
            test_sums_of_sets(kernel, sets, Data<T>(530, 100, 0.4, -value, 2));
            test_sums_of_sets(kernel, sets, Data<T>(530, 100, 0.9, value, 2));  // too large to be counted
            test_sums_of_sets(kernel, sets, Data<T>(530, 100, 2));
            test_sums_of_sets(kernel, Data<T>(70, 100, 0.0, value, 1), sets);
        });
    }
}

// The exponential function is a polynomial of the library: tested over its whole range, down to results that are nearly zero.
template <class T>
void test_exponential() {
    const double lowest = sizeof(T) == 4 ? -86.0 : -700.0, limit = sizeof(T) == 4 ? 5e-7 : 1e-15;
    const int n = 4096;
    std::vector<T> tile(n);
    for (int j = 0; j < n; ++j) tile[j] = static_cast<T>(-lowest * j / (n - 1.0));
    const std::vector<T> distance = tile;
    loops<T>().apply_kernel({KernelKind::rbf, 1.0}, tile.data(), n);
    double error = 0.0;
    for (int j = 0; j < n; ++j) {
        const double expected = std::exp(-static_cast<double>(distance[j]));
        // the argument of a float exponential is itself rounded, by its size times 2^-24
        error = std::max(error, std::abs(tile[j] / expected - 1.0) / (1.0 + (sizeof(T) == 4 ? distance[j] : 0.0)));
    }
    CHECK(tile[0] == T(1));
    CHECK(error <= limit);
    tile[0] = static_cast<T>(-2.0 * lowest);
    loops<T>().apply_kernel({KernelKind::rbf, 1.0}, tile.data(), 1);
    CHECK(tile[0] >= T(0) && tile[0] <= T(1e-37));
}

// A number without a normal float32 becomes zero, any other the nearest float.
void test_rounding() {
    const double smallest = std::numeric_limits<float>::min();
    const std::vector<double> values{1.0, -0.1, smallest, 0.99 * smallest, -0.5 * smallest, 1e-300, 0.0, 1e-30};
    std::vector<float> rounded(values.size(), 7.0f);
    loops<double>().round(values.data(), static_cast<int>(values.size()), rounded.data());
    for (std::size_t j = 0; j < values.size(); ++j)
        CHECK(rounded[j] == (std::abs(values[j]) < smallest ? 0.0f : static_cast<float>(values[j])));
}

}  // namespace

void test_kernels() {
    run("rounding", test_rounding);
    for (const auto& [name, kernel] : kernels())
        for (Storage storage : {Storage::dense, Storage::csr32})
            for (int d : {2, 57, 300})
                if (offered(kernel, storage))
                    run(std::string("pairs, ") + name + ", " + name_of(storage), [&] { test_pairs(kernel, storage, 130, d); });
    test_arithmetic<float>();
    test_arithmetic<double>();
    test_sets<float>();
    test_sets<double>();
    run("exponential, float", test_exponential<float>);
    run("exponential, double", test_exponential<double>);
}

}  // namespace tests
