// Sums of the linear kernel: whole numbers in, so that 128 bits of integer hold what should come out.
#include "maxmargin/linear_sums.hpp"

#include <limits>
#include <numeric>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

using Wide = __int128;

constexpr double unit = std::numeric_limits<double>::epsilon() / 2;

double size_of(Wide value) { return std::abs(static_cast<double>(value)); }

// |value - rounded| <= bound, without rounding in the difference.
bool within(Wide value, double rounded, double bound) { return size_of(value - static_cast<Wide>(rounded)) <= bound; }

// Samples with small features, a large one that hardly varies (a time stamp), and zeros; weights that sum to zero.
template <class S>
struct Case {
    int n, d;
    std::vector<S> values;
    std::vector<double> centre, weights;
    std::vector<std::int32_t> rows, at;

    Case(int n_samples, int n_features, bool centred) : n(n_samples), d(n_features), values(std::size_t(n) * d) {
        const int small = sizeof(S) == 4 ? 1 << 10 : 1 << 20, large = sizeof(S) == 4 ? 15'000'000 : 1'700'000'000;
        std::mt19937 random(n + d);
        for (int i = 0; i < n; ++i)
            for (int k = 0; k < d; ++k)
                values[std::size_t(i) * d + k] = static_cast<S>(k == d - 1     ? large + int(random() % 1000)
                                                                : random() % 3 ? int(random() % small) - small / 2
                                                                               : 0);
        if (centred)
            for (int k = 0; k < d; ++k) centre.push_back(k == d - 1 ? large + 500 : k);
        for (int a = 0; a < n; a += 2) rows.push_back(a);
        for (int q = n - 1; q >= 0; q -= 3) at.push_back(q);
        double total = 0.0;
        for (std::size_t a = 0; a + 1 < rows.size(); ++a) {
            weights.push_back(int(random() % 2'000'001) - 1'000'000);
            total += weights.back();
        }
        weights.push_back(-total);
    }
    Wide value(int i, int k) const { return static_cast<Wide>(values[std::size_t(i) * d + k]); }
    Wide weight(int k) const {
        Wide sum = 0;
        for (std::size_t a = 0; a < rows.size(); ++a) sum += static_cast<Wide>(weights[a]) * value(rows[a], k);
        return sum;
    }
    Wide middle(int k) const { return centre.empty() ? 0 : static_cast<Wide>(centre[k]); }

    template <class View>
    void check(const View& view) const {
        const std::int64_t n_rows = std::int64_t(rows.size()), n_at = std::int64_t(at.size());
        std::vector<double> w(2 * d), offsets(4), sums(2 * n_at), sizes(2 * n_at), both = weights;
        for (double weight : weights) both.push_back(-2.0 * weight);  // a second output
        linear_sums(view, centre.empty() ? nullptr : centre.data(), rows.data(), n_rows, both.data(), 2, at.data(), n_at,
                    w.data(), offsets.data(), sums.data(), sizes.data());
        Wide offset = 0;
        for (int k = 0; k < d; ++k) {
            CHECK(within(weight(k), w[k], unit * size_of(weight(k))));
            CHECK(w[d + k] == -2.0 * w[k]);
            offset += middle(k) * weight(k);
        }
        CHECK(within(offset, offsets[0], unit * size_of(offset)));
        const double terms = double(n_rows + d) * unit;
        for (std::int64_t q = 0; q < n_at; ++q) {
            Wide sum = 0;
            for (int k = 0; k < d; ++k) sum += (value(at[q], k) - middle(k)) * weight(k);
            CHECK(within(sum, sums[q], unit * size_of(sum) + 2.0 * terms * terms * sizes[q]));
            CHECK(sums[n_at + q] == -2.0 * sums[q]);
            CHECK(sizes[n_at + q] == 2.0 * sizes[q]);
            CHECK(sizes[q] >= size_of(sum));
        }
    }
};

template <class S>
void test_dense(int d, bool centred) {
    const Case<S> given(90, d, centred);
    given.check(DenseView<S>{given.values.data(), given.n, d, d});
    std::vector<S> wide(std::size_t(given.n) * (d + 3), S(-1));  // rows that are farther apart than they are long
    for (int i = 0; i < given.n; ++i)
        std::copy_n(given.values.data() + std::size_t(i) * d, d, wide.data() + std::size_t(i) * (d + 3));
    given.check(DenseView<S>{wide.data(), given.n, d + 3, d});
}

template <class S, class I>
void test_csr(int d) {
    const Case<S> given(90, d, false);
    std::vector<I> starts{0}, features;
    std::vector<S> kept;
    for (int i = 0; i < given.n; ++i) {
        for (int k = 0; k < d; ++k)
            if (const S x = given.values[std::size_t(i) * d + k]; x != S(0)) features.push_back(I(k)), kept.push_back(x);
        starts.push_back(I(features.size()));
    }
    given.check(CsrView<S, I>{starts.data(), features.data(), kept.data(), given.n, d});
}

void test_nothing_to_sum() {
    const Case<double> given(8, 2, true);
    std::vector<double> w(2, 1.0), offsets(2, 1.0), sums(given.at.size(), 1.0), sizes(given.at.size(), 1.0);
    linear_sums(DenseView<double>{given.values.data(), 8, 2, 2}, given.centre.data(), nullptr, 0, given.weights.data(), 1,
                given.at.data(), std::int64_t(given.at.size()), w.data(), offsets.data(), sums.data(), sizes.data());
    CHECK(w == std::vector<double>(2, 0.0));
    CHECK(offsets[0] == 0.0);
    CHECK(sums == std::vector<double>(given.at.size(), 0.0));
}

}  // namespace

void test_linear_sums() {
    for (int d : {1, 2, 30})
        for (bool centred : {false, true}) {
            run("linear sums, float", [&] { test_dense<float>(d, centred); });
            run("linear sums, double", [&] { test_dense<double>(d, centred); });
        }
    for (int d : {2, 30}) {
        run("linear sums, float, CSR (int32)", [&] { test_csr<float, std::int32_t>(d); });
        run("linear sums, double, CSR (int64)", [&] { test_csr<double, std::int64_t>(d); });
    }
    run("linear sums of nothing", test_nothing_to_sum);
}

}  // namespace tests
