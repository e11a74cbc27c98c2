// Linear machines, for Python: shapes, dtypes, the GIL. No algorithm.
#include "linear.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "maxmargin/linear_certificate.hpp"
#include "maxmargin/linear_descent.hpp"
#include "maxmargin/linear_joint.hpp"
#include "maxmargin/linear_l1.hpp"
#include "maxmargin/linear_newton.hpp"

namespace nb = nanobind;
using namespace maxmargin;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;

using Table = nb::ndarray<double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

using Make = std::unique_ptr<LinearSolver>(const LinearProblem&, const std::string& method, double* beta, double* weights);

using MakeJoint = std::unique_ptr<LinearSolver>(const JointLinearProblem&, double* shares, double* weights);

using Judge = LinearEvidence(const LinearProblem&, const double* weights, const double* beta, double* terms, double* products);

// The rows of a training set, where they are. Of their kind only what can be done with them is known.
struct LinearRows {
    std::int64_t n_samples;
    int n_features;
    std::function<Make> make;
    std::function<MakeJoint> make_joint;
    std::function<Judge> evidence;
};

template <class View, class... Held>
LinearRows rows_of(View X, Held... held) {  // what is held keeps the arrays alive
    auto make = [X, held...](const LinearProblem& problem, const std::string& method, double* beta, double* weights) {
        if (method == "newton") return newton_solver(X, problem, beta, weights);
        if (method == "descent") return descent_solver(X, problem, beta, weights);
        if (method == "block-descent") return descent_solver(X, problem, beta, weights, true);
        throw std::invalid_argument("no solver of linear machines is called " + method);
    };
    auto make_joint = [X, held...](const JointLinearProblem& problem, double* shares, double* weights) {
        return joint_solver(X, problem, shares, weights);
    };
    auto evidence = [X, held...](const LinearProblem& problem, const double* weights, const double* beta, double* terms,
                                 double* products) { return linear_evidence(X, problem, weights, beta, terms, products); };
    return {X.n_samples, X.n_features, make, make_joint, evidence};
}

// A solver, and the arrays that it works on.
struct Solver {
    nb::ndarray<> beta, weights;
    std::unique_ptr<LinearSolver> solver;
};

Bias bias_of(const std::string& name) {
    if (name == "none") return Bias::none;
    if (name == "regularised") return Bias::regularised;
    if (name == "free") return Bias::free;
    throw std::invalid_argument("no bias is called " + name);
}

void require_length(std::size_t length, std::size_t wanted) {
    if (length != wanted) throw std::invalid_argument("an array has not one entry for each sample, feature or weight");
}

// A problem, and the arrays that it points to.
struct Problem {
    Vector<const double> targets, reach;
    LinearProblem given;
    Problem(Vector<const double> t, Vector<const double> c, double epsilon, bool two_sided, bool squared, const std::string& bias,
            double constant, double total)
        : targets(t), reach(c),
          given{t.data(), c.data(), static_cast<std::int64_t>(t.shape(0)), epsilon, two_sided, squared, bias_of(bias),
                constant, total} {
        require_length(c.shape(0), t.shape(0));
    }
};

struct JointProblem {
    Vector<const std::int32_t> labels;
    Vector<const double> costs;
    JointLinearProblem given;
    JointProblem(Vector<const std::int32_t> y, Vector<const double> c, int n_classes, const std::string& bias, double constant)
        : labels(y), costs(c),
          given{y.data(), c.data(), static_cast<std::int64_t>(y.shape(0)), n_classes, bias_of(bias), constant} {
        require_length(c.shape(0), y.shape(0));
        for (std::size_t i = 0; i < y.shape(0); ++i)
            if (y.data()[i] < 0 || y.data()[i] >= n_classes) throw std::invalid_argument("a label is no class");
    }
};

void require_fit(const LinearRows& rows, const Problem& problem, std::size_t n_duals, std::size_t n_weights) {
    require_length(problem.given.n_samples, rows.n_samples);
    require_length(n_duals, rows.n_samples);
    require_length(n_weights, rows.n_features + problem.given.has_bias());
}

// Values of other types are refused: nanobind would convert them to the first type that a function is defined for, float32.
template <class S>
void bind_dense(nb::class_<LinearRows>& rows) {
    rows.def_static(
        "from_dense",
        [](Matrix<const S> X) {
            if (X.size() > 0 && X.shape(1) > 1 && X.stride(1) != 1) throw std::invalid_argument("X must be C-contiguous");
            const DenseView<S> view{X.data(), static_cast<std::int64_t>(X.shape(0)), X.stride(0), static_cast<int>(X.shape(1))};
            return rows_of(view, X);
        },
        nb::arg().noconvert());
}

template <class S, class I>
void bind_csr(nb::class_<LinearRows>& rows) {
    rows.def_static(
        "from_csr",
        [](Vector<const I> starts, Vector<const I> features, Vector<const S> values, int n_features) {
            const CsrView<S, I> view{starts.data(), features.data(), values.data(),
                                     static_cast<std::int64_t>(starts.shape(0)) - 1, n_features};
            return rows_of(view, starts, features, values);
        },
        nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg());
}

// A solver over the columns of a training set in CSC.
template <class S, class I>
void bind_l1(nb::module_& module) {
    module.def(
        "make_l1_solver",
        [](Vector<const I> starts, Vector<const I> samples, Vector<const S> values, int n_samples, const Problem& problem,
           Vector<double> beta, Vector<double> weights) {
            const CsrView<S, I> columns{starts.data(), samples.data(), values.data(),
                                        static_cast<std::int64_t>(starts.shape(0)) - 1, n_samples};
            require_length(problem.given.n_samples, n_samples);
            require_length(beta.shape(0), n_samples);
            require_length(weights.shape(0), columns.n_samples + problem.given.has_bias());
            nb::gil_scoped_release release;
            return Solver{nb::ndarray<>(beta), nb::ndarray<>(weights),
                          l1_solver(columns, problem.given, beta.data(), weights.data())};
        },
        nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg(), nb::arg(), nb::arg().noconvert(),
        nb::arg().noconvert(), nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>(), nb::keep_alive<0, 3>(), nb::keep_alive<0, 5>());
}

}  // namespace

void bind_linear(nb::module_& module) {
    nb::class_<LinearProgress>(module, "LinearProgress")
        .def_ro("primal", &LinearProgress::primal)
        .def_ro("dual", &LinearProgress::dual)
        .def_ro("gap", &LinearProgress::gap)
        .def_ro("passes", &LinearProgress::passes)
        .def_ro("rounds", &LinearProgress::rounds)
        .def_ro("done", &LinearProgress::done)
        .def_ro("stalled", &LinearProgress::stalled);
    nb::class_<Solver>(module, "LinearSolver")
        .def("advance", [](Solver& self, double gap_tol, std::int64_t max_rounds, double seconds) {
            nb::gil_scoped_release release;
            return self.solver->advance(gap_tol, max_rounds, seconds);
        });
    nb::class_<LinearRows> rows(module, "LinearRows");
    bind_dense<float>(rows);
    bind_dense<double>(rows);
    bind_csr<float, std::int32_t>(rows);
    bind_csr<double, std::int32_t>(rows);
    bind_csr<float, std::int64_t>(rows);
    bind_csr<double, std::int64_t>(rows);
    nb::class_<LinearEvidence>(module, "LinearEvidence")
        .def_ro("gaps", &LinearEvidence::gaps)
        .def_ro("plain", &LinearEvidence::plain)
        .def_ro("duals", &LinearEvidence::duals)
        .def_ro("total", &LinearEvidence::total)
        .def_ro("size", &LinearEvidence::size)
        .def_ro("reach", &LinearEvidence::reach)
        .def_ro("violation", &LinearEvidence::violation)
        .def_ro("box", &LinearEvidence::box);
    nb::class_<Problem>(module, "LinearProblem")
        .def(nb::init<Vector<const double>, Vector<const double>, double, bool, bool, const std::string&, double, double>());
    rows.def(
        "solver",
        [](const LinearRows& self, const std::string& method, const Problem& problem, Vector<double> beta,
           Vector<double> weights) {
            require_fit(self, problem, beta.shape(0), weights.shape(0));
            nb::gil_scoped_release release;
            return Solver{nb::ndarray<>(beta), nb::ndarray<>(weights),
                          self.make(problem.given, method, beta.data(), weights.data())};
        },
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 3>());
    nb::class_<JointProblem>(module, "JointLinearProblem")
        .def(nb::init<Vector<const std::int32_t>, Vector<const double>, int, const std::string&, double>());
    rows.def(
        "joint_solver",
        [](const LinearRows& self, const JointProblem& problem, Table shares, Table weights) {
            const std::size_t n_classes = problem.given.n_classes;
            require_length(problem.given.n_samples, self.n_samples);
            require_length(shares.shape(0), self.n_samples);
            require_length(weights.shape(0), self.n_features + problem.given.has_bias());
            require_length(shares.shape(1), n_classes);
            require_length(weights.shape(1), n_classes);
            nb::gil_scoped_release release;
            return Solver{nb::ndarray<>(shares), nb::ndarray<>(weights),
                          self.make_joint(problem.given, shares.data(), weights.data())};
        },
        nb::keep_alive<0, 1>(), nb::keep_alive<0, 2>());
    bind_l1<float, std::int32_t>(module);
    bind_l1<double, std::int32_t>(module);
    bind_l1<float, std::int64_t>(module);
    bind_l1<double, std::int64_t>(module);
    rows.def("evidence", [](const LinearRows& self, const Problem& problem, Vector<const double> weights,
                            Vector<const double> beta, Vector<double> terms, Vector<double> products) {
        require_fit(self, problem, beta.shape(0), weights.shape(0));
        require_length(terms.shape(0), self.n_samples);
        require_length(products.shape(0), self.n_features);
        nb::gil_scoped_release release;
        return self.evidence(problem.given, weights.data(), beta.data(), terms.data(), products.data());
    });
}
