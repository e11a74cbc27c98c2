// Certificates of many machines at once, and chains of problems that are solved and certified in one call.
#include "maxmargin/proofs.hpp"

#include <algorithm>
#include <numeric>

#include "check.hpp"
#include "data.hpp"
#include "maxmargin/chain.hpp"

namespace tests {
namespace {

constexpr int n = 130, d = 5;
const Kernel kernel{KernelKind::rbf, 0.7};

// Classification with the costs C: a box for each sample.
struct Problem {
    std::vector<double> linear, lower, upper;

    explicit Problem(double C, int held_out = 0) {
        for (int i = 0; i < n; ++i) {
            const double sign = i % 3 ? 1.0 : -1.0, reach = i < held_out ? 0.0 : C;
            linear.push_back(-sign);
            lower.push_back(sign > 0.0 ? 0.0 : -reach);
            upper.push_back(sign > 0.0 ? reach : 0.0);
        }
    }
};

// The gap of a point at a level, from its definition: primal value less dual value.
double plain_gap(const Problem& problem, const std::vector<double>& K, const double* beta, double level) {
    double norm = 0.0, losses = 0.0, gains = 0.0;
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int j = 0; j < n; ++j) sum += K[i * n + j] * beta[j];
        const double above = sum + problem.linear[i] - level;
        norm += beta[i] * sum;
        losses += std::max(-above * problem.upper[i], -above * problem.lower[i]);
        gains -= beta[i] * problem.linear[i];
    }
    return 0.5 * norm + losses - (gains - 0.5 * norm);
}

std::vector<double> plain_matrix(const Data<double>& data) {
    std::vector<double> K(n * n);
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j) K[i * n + j] = plain_kernel(kernel, data.row(i), data.row(j), d);
    return K;
}

void test_points(bool claimed) {
    const Data<double> data(n, d, 3);
    const std::vector<double> K = plain_matrix(data);
    const Problem problem(2.0);
    std::vector<std::int32_t> members(n);
    std::iota(members.begin(), members.end(), 0);
    const int n_points = 4;
    std::vector<double> beta(n_points * n), claim(n_points * n), terms(n_points * n);
    std::vector<ClaimedPoint> points;
    for (int k = 0; k < n_points; ++k) {
        double* own = beta.data() + k * n;
        for (int i = 0; i + 3 < n; i += 3) {  // pairs of duals that cancel: some at a bound, some between
            const double size = i % 2 ? 2.0 : 0.4 * k;
            own[i] = -size, own[i + 1] = size;
        }
        for (int i = 0; i < n; ++i) {
            claim[k * n + i] = problem.linear[i] + 1e-3 * std::sin(i);
            for (int j = 0; j < n; ++j) claim[k * n + i] += K[i * n + j] * own[j];
        }
        points.push_back({members.data(), n, problem.linear.data(), problem.lower.data(), problem.upper.data(), own,
                          claimed ? claim.data() + k * n : nullptr, true, terms.data() + k * n});
    }
    const SumErrors errors{1e-14, 0.0, nullptr, nullptr, nullptr};
    const std::vector<Proof> proofs = prove_each(kernel, data.samples(Storage::dense), errors, points);
    for (int k = 0; k < n_points; ++k) {
        const double truth = plain_gap(problem, K, points[k].beta, proofs[k].level);
        CHECK(close(proofs[k].plain, truth, 1e-9 * truth));
        CHECK(proofs[k].gap >= truth * (1.0 - 1e-12));
        CHECK(proofs[k].gap <= truth + 1e-9 * truth);
        CHECK(proofs[k].equality_residual <= 1e-14 && proofs[k].box_residual == 0.0);
        for (double move : {-1e-3, 1e-3})
            CHECK(plain_gap(problem, K, points[k].beta, proofs[k].level + move) >= truth * (1.0 - 1e-12));
    }
}

// Each link of a chain reaches the tolerances, and what is held out stays at zero.
void test_chain(bool of_some, bool coupled) {
    const Data<double> data(n, d, 4);
    const std::vector<double> K = plain_matrix(data);
    const int stride = of_some ? n + 7 : in_chunks(n), held_out = 9, n_links = 5;
    std::vector<double> matrix(static_cast<std::size_t>(n) * stride, 0.0);
    for (int i = 0; i < n; ++i) std::copy_n(K.data() + i * n, n, matrix.data() + i * stride);
    const std::vector<float> rounded(matrix.begin(), matrix.end());
    std::vector<std::int32_t> members(n);
    std::iota(members.begin(), members.end(), 0);
    std::vector<Problem> problems;
    for (int k = 0; k < n_links; ++k) problems.emplace_back(std::pow(10.0, k - 1), held_out);
    std::vector<double> beta(n_links * n), gradients(n_links * n), terms(n_links * n);
    std::vector<Link> links;
    for (int k = 0; k < n_links; ++k)
        links.push_back({problems[k].lower.data(),
                         problems[k].upper.data(),
                         beta.data() + k * n,
                         gradients.data() + k * n,
                         terms.data() + k * n,
                         {}});
    for (const float* in_float32 : {static_cast<const float*>(nullptr), rounded.data()}) {
        const Chain chain{
            matrix.data(), in_float32, stride, of_some ? members.data() : nullptr, n, problems[0].linear.data(), coupled, 1e-3,
            1e-6,          1.0,        1e-15};
        CHECK(solve_chain(chain, links, Deadline(Deadline::never)) == n_links);
        for (int k = 0; k < n_links; ++k) {
            const double truth = plain_gap(problems[k], K, links[k].beta, links[k].proof.level);
            CHECK(truth <= 1e-6 * links[k].proof.dual * (1.0 + 1e-5));
            CHECK(close(links[k].proof.gap, truth, 1e-9 * links[k].proof.dual));
            CHECK(std::all_of(links[k].beta, links[k].beta + held_out, [](double b) { return b == 0.0; }));
        }
        CHECK(solve_chain(chain, links, Deadline(0.0)) == 0);
    }
}

}  // namespace

void test_proofs() {
    for (bool claimed : {false, true})
        run(std::string("certificates together, ") + (claimed ? "with claims" : "without claims"), [&] { test_points(claimed); });
    for (bool of_some : {false, true})
        for (bool coupled : {false, true})
            run(std::string("a chain, ") + (of_some ? "of some rows, " : "of all rows, ") + (coupled ? "with" : "without") +
                    " a sum",
                [&] { test_chain(of_some, coupled); });
}

}  // namespace tests
