// Decision values: sums over groups of support vectors for several outputs at once.
#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

template <class T>
void test_sums(const Kernel& kernel, Storage storage, int d, int n_queries) {
    const std::vector<std::int64_t> group_ends{10, 10, 63, 64, 230};  // one is empty, others end inside a tile
    const int n_support = 230, n_outputs = 3;
    const Data<T> support(n_support, d, 11), queries(n_queries, d, 12);
    std::vector<double> weights(n_outputs * n_support);
    for (std::size_t a = 0; a < weights.size(); ++a) weights[a] = std::sin(double(a));

    Samples<T> asked = queries.samples(storage);
    if (wants_panels(kernel, d)) asked.make_panels();
    std::vector<double> sums(group_ends.size() * n_outputs * n_queries, 0.5);
    weighted_sums(kernel, support.samples(storage), asked, weights.data(), n_outputs, group_ends, sums.data());

    double error = 0.0;
    std::int64_t first = 0;
    for (std::size_t g = 0; g < group_ends.size(); first = group_ends[g++])
        for (int q = 0; q < n_queries; ++q) {
            std::vector<double> expected(n_outputs, 0.5);
            for (int s = int(first); s < group_ends[g]; ++s) {
                const double k = plain_kernel(kernel, support.row(s), queries.row(q), d);
                for (int o = 0; o < n_outputs; ++o) expected[o] += weights[o * n_support + s] * k;
            }
            for (int o = 0; o < n_outputs; ++o)
                error = std::max(error, std::abs(sums[(g * n_outputs + o) * n_queries + q] - expected[o]));
        }
    CHECK(error <= n_support * tolerance<T>(kernel));
}

template <class T>
void test_arithmetic() {
    for (const auto& [name, kernel] : kernels())
        for (Storage storage : {Storage::dense, Storage::csr32})
            for (int d : {2, 13, 300})
                for (int n_queries : {1, 65}) {
                    if (!offered(kernel, storage)) continue;
                    run(std::string("weighted sums ") + name + ", " + name_of<T>() + ", " + name_of(storage) +
                            ", d = " + std::to_string(d) + ", " + std::to_string(n_queries) + " queries",
                        [&] { test_sums<T>(kernel, storage, d, n_queries); });
                }
}

void test_nothing_to_sum() {
    const Data<double> support(4, 2, 1), queries(3, 2, 2);
    const Kernel kernel{KernelKind::rbf};
    Samples<double> asked = queries.samples(Storage::dense);
    asked.make_panels();
    const std::int32_t none = 0;
    std::vector<double> sums(3, 0.25);
    const double weight = 1.0;
    weighted_sums(kernel, Samples<double>(support.samples(Storage::dense), &none, 0), asked, &weight, 1, {0}, sums.data());
    for (double sum : sums) CHECK(sum == 0.25);
}

}  // namespace

void test_weighted_sums() {
    test_arithmetic<float>();
    test_arithmetic<double>();
    run("weighted sums of no support vectors", test_nothing_to_sum);
}

}  // namespace tests
