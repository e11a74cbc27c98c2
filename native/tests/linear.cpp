// The solvers of linear machines against the statement of their problem, dense and CSR, and the pass of the certificate.
#include <cmath>
#include <random>
#include <vector>

#include "check.hpp"
#include "maxmargin/linear_certificate.hpp"
#include "maxmargin/linear_descent.hpp"
#include "maxmargin/linear_l1.hpp"
#include "maxmargin/linear_newton.hpp"

using namespace maxmargin;

namespace tests {
namespace {

struct Data {
    static constexpr int n = 300, d = 7;
    std::vector<double> dense, targets, sides, costs;
    std::vector<std::int32_t> starts{0}, features;
    std::vector<float> values;

    Data() {
        std::mt19937 random(0);
        std::normal_distribution<double> normal;
        for (int i = 0; i < n; ++i) {
            double score = 0.0;
            for (int k = 0; k < d; ++k) {
                const float x = random() % 3 ? static_cast<float>(normal(random)) : 0.0f;
                dense.push_back(x);
                score += x * (k - 3);
                if (x == 0.0f) continue;
                features.push_back(k);
                values.push_back(x);
            }
            starts.push_back(static_cast<std::int32_t>(features.size()));
            targets.push_back(score + normal(random));
            sides.push_back(score + 3.0 * normal(random) > 0.0 ? 1.0 : -1.0);
            costs.push_back(i % 10 ? 0.5 : 0.0);
        }
    }
    DenseView<double> rows() const { return {dense.data(), n, d, d}; }
    CsrView<float, std::int32_t> csr() const { return {starts.data(), features.data(), values.data(), n, d}; }
};

template <class View>
void solve_and_judge(const View& X, const LinearProblem& problem, bool newton) {
    std::vector<double> beta(Data::n), weights(Data::d + problem.has_bias()), terms(Data::n), products(Data::d);
    auto solver =
        newton ? newton_solver(X, problem, beta.data(), weights.data()) : descent_solver(X, problem, beta.data(), weights.data());
    const LinearProgress progress = solver->advance(1e-5, 100000, 10.0);
    CHECK(progress.done);
    const LinearEvidence found = linear_evidence(X, problem, weights.data(), beta.data(), terms.data(), products.data());
    double apart = 0.0, size = 0.0;
    for (int k = 0; k < Data::d; ++k) {
        apart += (weights[k] - products[k]) * (weights[k] - products[k]);
        size += products[k] * products[k];
    }
    const double bias = problem.has_bias() ? weights[Data::d] : 0.0;
    double gap = found.gaps + 0.5 * apart, dual = found.duals - 0.5 * size;
    if (problem.bias == Bias::regularised) {
        gap += 0.5 * std::pow(bias - found.total, 2);
        dual -= 0.5 * found.total * found.total;
    }
    if (problem.bias == Bias::free) gap += std::abs(bias * found.total);
    CHECK(gap <= 3e-5 * std::abs(dual));
    CHECK(found.box == 0.0);
    CHECK(found.plain <= found.gaps);
}

void test_solvers() {
    const Data data;
    std::vector<double> reach(Data::n);
    for (int i = 0; i < Data::n; ++i) reach[i] = data.sides[i] * data.costs[i];
    for (Bias bias : {Bias::none, Bias::regularised, Bias::free})
        for (bool squared : {false, true})
            for (bool newton : {false, true})
                for (bool two_sided : {false, true}) {
                    const LinearProblem problem{two_sided ? data.targets.data() : data.sides.data(),
                                                two_sided ? data.costs.data() : reach.data(),
                                                Data::n,
                                                two_sided ? 0.1 : 0.0,
                                                two_sided,
                                                squared,
                                                bias,
                                                1.0,
                                                0.0};
                    solve_and_judge(data.rows(), problem, newton);
                    solve_and_judge(data.csr(), problem, newton);
                }
}

void test_l1() {
    const Data data;
    std::vector<std::int32_t> starts{0}, samples;
    std::vector<double> values, reach(Data::n), beta(Data::n), weights(Data::d + 1);
    for (int k = 0; k < Data::d; ++k) {
        for (int i = 0; i < Data::n; ++i)
            if (data.dense[i * Data::d + k] != 0.0) samples.push_back(i), values.push_back(data.dense[i * Data::d + k]);
        starts.push_back(static_cast<std::int32_t>(samples.size()));
    }
    for (int i = 0; i < Data::n; ++i) reach[i] = data.sides[i] * data.costs[i];
    const CsrView<double, std::int32_t> columns{starts.data(), samples.data(), values.data(), Data::d, Data::n};
    const LinearProblem problem{data.sides.data(), reach.data(), Data::n, 0.0, false, true, Bias::free, 1.0, 0.0};
    const LinearProgress progress = l1_solver(columns, problem, beta.data(), weights.data())->advance(1e-6, 10000, 10.0);
    CHECK(progress.done);
    for (int k = 0; k < Data::d; ++k) {
        double product = 0.0;
        for (int i = 0; i < Data::n; ++i) product += beta[i] * data.dense[i * Data::d + k];
        CHECK(std::abs(product) <= 1.0 + 1e-12);
    }
}

}  // namespace

void test_linear() {
    run("linear machines reach the gap they claim", test_solvers);
    run("an L1 penalty: feasible duals", test_l1);
}

}  // namespace tests
