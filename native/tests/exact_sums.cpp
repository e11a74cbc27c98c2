// The parts of a certificate: distances of samples that are close together, and kernel sums with a bound on their rounding
// errors.
#include "maxmargin/exact_sums.hpp"

#include <limits>
#include <numeric>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

constexpr double unit = std::numeric_limits<double>::epsilon() / 2;

// Samples in pairs: each of the second half is `apart` from one of the first.
template <class T>
Data<T> pairs_of_samples(int n_pairs, int d, double apart) {
    Data<T> data(2 * n_pairs, d, 7 + d);
    for (int i = 0; i < n_pairs; ++i)
        for (int k = 0; k < d; ++k) {
            T& x = data.values[std::size_t(i) * d + k];
            if (x == T(0)) x = T(0.5);  // so that sparse samples have the same features
            data.values[std::size_t(n_pairs + i) * d + k] = x + static_cast<T>(apart / std::sqrt(d));
        }
    return data;
}

// A kernel that tells such pairs apart gets their true distance, though dot products would lose all of its digits.
template <class T>
void test_near_pairs(Storage storage, int d) {
    const int n_pairs = 70;
    const double apart = sizeof(T) == 4 ? 1e-4 : 1e-7;
    const Data<T> data = pairs_of_samples<T>(n_pairs, d, apart);
    for (const Kernel& kernel : {Kernel{KernelKind::rbf, 1.0 / (apart * apart)}, Kernel{KernelKind::exponential, 1.0 / apart}}) {
        Gram<T> gram(kernel, data.samples(storage), {0, data.n}, 0);
        std::vector<std::int32_t> everyone(data.n);
        std::iota(everyone.begin(), everyone.end(), 0);
        Tile<T> tile;
        gram.fill_tile(everyone.data(), data.n, tile);
        double error = 0.0;
        for (int i = 0; i < n_pairs; ++i) {
            const double expected = plain_kernel(kernel, data.row(i), data.row(n_pairs + i), d);
            CHECK(expected > 0.05 && expected < 0.9);
            error = std::max(error, std::abs(tile.row(i)[n_pairs + i] - expected));
            error = std::max(error, std::abs(tile.row(n_pairs + i)[i] - expected));
            error = std::max(error, std::abs(tile.row(i)[i] - 1.0));
        }
        CHECK(error <= (sizeof(T) == 4 ? 1e-6 : 1e-13));
    }
}

// Exact sums agree with plain sums in the widest arithmetic.
void test_sums(const Kernel& kernel, Storage storage, int d, int n_queries, int n_outputs) {
    const int n_support = 250;
    const Data<double> support(n_support, d, 21), queries(n_queries, d, 22);
    std::vector<double> weights(n_outputs * n_support);
    for (std::size_t a = 0; a < weights.size(); ++a) weights[a] = a % 5 ? std::pow(10.0, a % 7 - 3.0) * std::sin(double(a)) : 0.0;
    std::vector<double> sums(n_outputs * n_queries, 7.0);
    Samples<double> rows = support.samples(storage), columns = queries.samples(storage);
    exact_sums(kernel, rows, columns, weights.data(), n_outputs, sums.data());
    for (int o = 0; o < n_outputs; ++o)
        for (int q = 0; q < n_queries; ++q) {
            long double expected = 0.0, size = 0.0;
            for (int s = 0; s < n_support; ++s) {
                const double weight = weights[o * n_support + s];
                expected += static_cast<long double>(weight) * plain_kernel(kernel, support.row(s), queries.row(q), d);
                size += std::abs(weight);
            }
            CHECK(close(sums[o * n_queries + q], double(expected), 10.0 * tolerance<double>(kernel) * double(size)));
        }
}

// Kernel values that are exactly one leave the rounding of the sum alone, which must not grow with the number of terms. A single
// output is summed over columns, several are summed over rows.
void test_bound(Storage storage, int d, double terms, int n_outputs) {
    const int n_support = 20'000;
    const Kernel kernel{KernelKind::rbf, 1.0};
    const Data<double> one(1, d, 5);
    const std::vector<std::int32_t> copies(n_support, 0);
    Samples<double> support(one.samples(storage), copies.data(), n_support), query = one.samples(storage);
    std::vector<double> weights(std::size_t(n_outputs) * n_support), sums(n_outputs);
    long double expected = 0.0, size = 0.0;
    for (int s = 0; s < n_support; ++s) {
        const double weight = (s % 3 ? 0.1 : -1e6) + 1e-7 * s;
        for (int o = 0; o < n_outputs; ++o) weights[o * n_support + s] = weight;
        expected += weight, size += std::abs(weight);
    }
    exact_sums(kernel, support, query, weights.data(), n_outputs, sums.data());
    for (double sum : sums) CHECK(std::abs(sum - expected) <= terms * unit * size);
}

// Close pairs cancel in a sum with weights of both signs, up to the difference of their kernel values.
void test_sums_of_near_pairs(Storage storage, int d) {
    const int n_pairs = 60;
    const double apart = 1e-7;
    const Kernel kernel{KernelKind::rbf, 1.0 / (apart * apart)};
    const Data<double> data = pairs_of_samples<double>(n_pairs, d, apart);
    std::vector<double> weights(data.n), sums(data.n);
    for (int i = 0; i < data.n; ++i) weights[i] = i < n_pairs ? 1.0 : -1.0;
    Samples<double> support = data.samples(storage), queries = data.samples(storage);
    exact_sums(kernel, support, queries, weights.data(), 1, sums.data());
    for (int i = 0; i < n_pairs; ++i) {
        const double difference = 1.0 - plain_kernel(kernel, data.row(i), data.row(n_pairs + i), d);
        CHECK(close(sums[i], difference, 1e-13));
        CHECK(close(sums[n_pairs + i], -difference, 1e-13));
    }
}

}  // namespace

void test_exact_sums() {
    for (Storage storage : {Storage::dense, Storage::csr32, Storage::csr64})
        for (int d : {3, 20, 80, 300}) {
            const std::string words = std::string(name_of(storage)) + ", d = " + std::to_string(d);
            run("near pairs, float, " + words, [&] { test_near_pairs<float>(storage, d); });
            run("near pairs, double, " + words, [&] { test_near_pairs<double>(storage, d); });
            run("exact sums of near pairs, " + words, [&] { test_sums_of_near_pairs(storage, d); });
        }
    for (const auto& [name, kernel] : kernels())
        for (Storage storage : {Storage::dense, Storage::csr32})
            for (int d : {2, 57, 300})
                for (int n_queries : {1, 65, 300})
                    for (int n_outputs : {1, 3})
                        if (offered(kernel, storage))
                            run(std::string("exact sums ") + name + ", " + name_of(storage) + ", d = " + std::to_string(d) +
                                    ", " + std::to_string(n_queries) + " queries, " + std::to_string(n_outputs) + " outputs",
                                [&] { test_sums(kernel, storage, d, n_queries, n_outputs); });
    for (int n_outputs : {1, 2}) {
        const std::string outputs = ", " + std::to_string(n_outputs) + " outputs";
        run("rounding of exact sums, panels" + outputs, [&] { test_bound(Storage::dense, 3, 12.0, n_outputs); });
        run("rounding of exact sums, sparse" + outputs, [&] { test_bound(Storage::csr32, 3, 12.0, n_outputs); });
        run("rounding of exact sums, products" + outputs, [&] { test_bound(Storage::dense, 300, 56.0, n_outputs); });
    }
}

}  // namespace tests
