// Python's view of the kernel machines: shapes, dtypes, the GIL. No algorithm. linear.cpp has that of the linear ones.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <omp.h>

#include <optional>
#include <stdexcept>

#include "linear.hpp"
#include "maxmargin/blas.hpp"
#include "maxmargin/chain.hpp"
#include "maxmargin/differences.hpp"
#include "maxmargin/exact_sums.hpp"
#include "maxmargin/gram.hpp"
#include "maxmargin/linear_sums.hpp"
#include "maxmargin/loops.hpp"
#include "maxmargin/proofs.hpp"
#include "maxmargin/threads.hpp"
#include "maxmargin/tiles.hpp"
#include "maxmargin/working_set.hpp"

namespace nb = nanobind;
using namespace maxmargin;

namespace {

template <class T>
using Vector = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Rows = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

DualState state_of(const Vector<const double>& beta, const Vector<const double>& lower, const Vector<const double>& upper,
                   const Vector<const double>& gradient, std::vector<std::int64_t> edges) {
    return {static_cast<std::int64_t>(beta.shape(0)), beta.data(), lower.data(), upper.data(), gradient.data(), std::move(edges)};
}

template <class T>
nb::ndarray<nb::numpy, T> owned(std::vector<T>&& values) {
    auto* held = new std::vector<T>(std::move(values));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::ndarray<nb::numpy, T>(held->data(), {held->size()}, owner);
}

void use_blas(nb::object routines) {
    auto pointer = [&](const char* name) {
        PyObject* capsule = nb::object(routines[name]).ptr();
        return PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    };
    blas::routines.sgemm = reinterpret_cast<blas::Gemm32*>(pointer("sgemm"));
    blas::routines.dgemm = reinterpret_cast<blas::Gemm64*>(pointer("dgemm"));
    blas::routines.dtrsm = reinterpret_cast<blas::Trsm64*>(pointer("dtrsm"));
    blas::routines.dpotrf = reinterpret_cast<blas::Potrf64*>(pointer("dpotrf"));
    blas::routines.dpotrs = reinterpret_cast<blas::Potrs64*>(pointer("dpotrs"));
    if (PyErr_Occurred()) throw nb::python_error();
}

nb::tuple as_tuple(const Proof& p) {
    return nb::make_tuple(p.level, p.dual, p.gap, p.plain, p.violation, p.box_residual, p.equality_residual, p.size,
                          p.value_error, p.checked);
}

const std::pair<const char*, KernelKind> kernel_kinds[] = {
    {"linear", KernelKind::linear},       {"poly", KernelKind::polynomial},         {"rbf", KernelKind::rbf},
    {"laplacian", KernelKind::laplacian}, {"exponential", KernelKind::exponential}, {"sigmoid", KernelKind::sigmoid}};

Kernel make_kernel(const std::string& name, double gamma, double coef0, double degree) {
    for (const auto& [known, kind] : kernel_kinds)
        if (name == known) return {kind, gamma, coef0, degree};
    throw std::invalid_argument("no native kernel is called " + name);
}

template <class S>
DenseView<S> dense_view(const Matrix<const S>& X) {
    if (X.size() > 0 && X.shape(1) > 1 && X.stride(1) != 1) throw std::invalid_argument("X must be C-contiguous");
    return {X.data(), static_cast<std::int64_t>(X.shape(0)), X.stride(0), static_cast<int>(X.shape(1))};
}

template <class S, class I>
CsrView<S, I> csr_view(const Vector<const I>& starts, const Vector<const I>& features, const Vector<const S>& values,
                       int n_features) {
    return {starts.data(), features.data(), values.data(), static_cast<std::int64_t>(starts.shape(0)) - 1, n_features};
}

Order order_of(const std::optional<Vector<const std::int32_t>>& order) {
    return order ? Order{order->data(), static_cast<std::int64_t>(order->shape(0))} : Order{};
}

// Functions that are defined for several types of values take no others: nanobind would convert them to the first of these types,
// float32.
template <class T, class S>
void bind_dense(nb::class_<Samples<T>>& samples) {
    samples.def_static(
        "from_dense",
        [](Matrix<const S> X, Vector<const double> centre, std::optional<Vector<const std::int32_t>> order) {
            const double* mean = centre.shape(0) ? centre.data() : nullptr;
            nb::gil_scoped_release release;
            return Samples<T>(dense_view(X), mean, order_of(order));
        },
        nb::arg().noconvert(), nb::arg(), nb::arg().none());
}

template <class T, class S, class I>
void bind_csr(nb::class_<Samples<T>>& samples) {
    samples.def_static(
        "from_csr",
        [](Vector<const I> starts, Vector<const I> features, Vector<const S> values, int n_features,
           std::optional<Vector<const std::int32_t>> order) {
            nb::gil_scoped_release release;
            return Samples<T>(csr_view(starts, features, values, n_features), order_of(order));
        },
        nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg(), nb::arg().none());
}

template <class S>
void bind_count_differences(nb::module_& module) {
    module.def(
        "count_differences",
        [](Matrix<const S> X, Vector<const double> point, Vector<std::int64_t> ends, Vector<std::int64_t> excess) {
            nb::gil_scoped_release release;
            count_differences(dense_view(X), point.data(), ends.data(), excess.data());
        },
        nb::arg().noconvert(), nb::arg(), nb::arg(), nb::arg());
}

template <class S, class V, class I>
void bind_take_differences(nb::module_& module) {
    module.def(
        "take_differences",
        [](Matrix<const S> X, Vector<const double> point, Vector<const double> signs, Vector<const I> starts, Vector<I> features,
           Vector<V> values) {
            nb::gil_scoped_release release;
            take_differences(dense_view(X), point.data(), signs.data(), starts.data(), features.data(), values.data());
        },
        nb::arg().noconvert(), nb::arg(), nb::arg(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert());
}

// w, offsets, sums and sizes, as defined in linear_sums.hpp
template <class View>
nb::tuple linear_sums_of(const View& X, const Vector<const double>& centre, const Vector<const std::int32_t>& rows,
                         const Rows<const double>& weights, const Vector<const std::int32_t>& at) {
    const std::size_t n_outputs = weights.shape(0), n_at = at.shape(0);
    std::vector<double> w(n_outputs * X.n_features), offsets(2 * n_outputs), sums(n_outputs * n_at), sizes(n_outputs * n_at);
    {
        nb::gil_scoped_release release;
        linear_sums(X, centre.shape(0) ? centre.data() : nullptr, rows.data(), static_cast<std::int64_t>(rows.shape(0)),
                    weights.data(), static_cast<int>(n_outputs), at.data(), static_cast<std::int64_t>(n_at), w.data(),
                    offsets.data(), sums.data(), sizes.data());
    }
    return nb::make_tuple(owned(std::move(w)), owned(std::move(offsets)), owned(std::move(sums)), owned(std::move(sizes)));
}

template <class S>
void bind_linear_sums(nb::module_& module) {
    module.def(
        "linear_sums",
        [](Matrix<const S> X, Vector<const double> centre, Vector<const std::int32_t> rows, Rows<const double> weights,
           Vector<const std::int32_t> at) { return linear_sums_of(dense_view(X), centre, rows, weights, at); },
        nb::arg().noconvert(), nb::arg(), nb::arg(), nb::arg(), nb::arg());
}

template <class S, class I>
void bind_sparse_linear_sums(nb::module_& module) {
    module.def(
        "linear_sums_csr",
        [](Vector<const I> starts, Vector<const I> features, Vector<const S> values, int n_features, Vector<const double> centre,
           Vector<const std::int32_t> rows, Rows<const double> weights, Vector<const std::int32_t> at) {
            return linear_sums_of(csr_view(starts, features, values, n_features), centre, rows, weights, at);
        },
        nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg());
}

template <class T>
void bind(nb::module_& module, const char* samples_name, const char* gram_name, const char* tile_name) {
    nb::class_<Samples<T>> samples(module, samples_name);
    bind_dense<T, float>(samples);
    bind_dense<T, double>(samples);
    bind_csr<T, float, std::int32_t>(samples);
    bind_csr<T, double, std::int32_t>(samples);
    bind_csr<T, float, std::int64_t>(samples);
    bind_csr<T, double, std::int64_t>(samples);

    nb::class_<Tile<T>>(module, tile_name)
        .def(nb::init<>())
        .def("assign",
             [](Tile<T>& self, Matrix<const T> K) {
                 self.resize(static_cast<int>(K.shape(0)));
                 for (int a = 0; a < self.size(); ++a)
                     for (int b = 0; b < self.size(); ++b) self.row(a)[b] = K(a, b);
             })
        .def(
            "view",
            [](Tile<T>& self, Matrix<const T> K) {
                if (K.stride(0) != in_chunks(static_cast<int>(K.shape(0))))
                    throw std::invalid_argument("rows must be padded to whole chunks");
                self.make_view(K.data(), static_cast<int>(K.shape(0)));
            },
            nb::keep_alive<1, 2>())
        .def("add_to_diagonal",
             [](Tile<T>& self, Vector<const double> shift) {
                 for (int a = 0; a < self.size(); ++a) self.row(a)[a] += static_cast<T>(shift(a));
             })
        .def(
            "array",
            [](Tile<T>& self) {
                const auto size = static_cast<std::size_t>(self.size());
                return nb::ndarray<nb::numpy, T>(self.row(0), {size, size}, nb::handle(), {self.stride(), 1});
            },
            nb::rv_policy::reference_internal)
        .def("to_array", [](const Tile<T>& self) {
            const auto size = static_cast<std::size_t>(self.size());
            std::vector<T> values(size * size);
            for (int a = 0; a < self.size(); ++a) std::copy_n(self.row(a), size, values.data() + a * size);
            auto* held = new std::vector<T>(std::move(values));
            nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
            return nb::ndarray<nb::numpy, T>(held->data(), {size, size}, owner);
        });
    nb::class_<Gram<T>>(module, gram_name)
        .def("__init__",
             [](Gram<T>* self, const Kernel& kernel, Samples<T>& taken, std::vector<std::int64_t> segments,
                std::int64_t cache_bytes) {
                 nb::gil_scoped_release release;
                 new (self) Gram<T>(kernel, std::move(taken), std::move(segments), cache_bytes);
             })
        .def_prop_ro("entries_computed", &Gram<T>::entries_computed)
        .def_prop_ro("cached_blocks", &Gram<T>::cached_blocks)
        .def("release_cross_blocks", &Gram<T>::release_cross_blocks)
        .def("expect",
             [](Gram<T>& self, Vector<const std::int32_t> rows) {
                 self.expect(rows.data(), static_cast<std::int64_t>(rows.shape(0)));
             })
        .def("subset",
             [](const Gram<T>& self, Vector<const std::int32_t> members) {
                 nb::gil_scoped_release release;
                 return self.subset(members.data(), members.shape(0));
             })
        .def("accumulate",
             [](Gram<T>& self, Vector<const std::int32_t> rows, Vector<const double> weights, std::vector<int> segments,
                Vector<double> out, std::optional<Vector<const std::uint8_t>> known) {
                 nb::gil_scoped_release release;
                 return self.accumulate(rows.data(), weights.data(), rows.shape(0), segments, out.data(), 1,
                                        known ? known->data() : nullptr);
             })
        .def("accumulate_each",
             [](Gram<T>& self, Vector<const std::int32_t> rows, Rows<const double> weights, std::vector<int> segments,
                Rows<double> out) {
                 nb::gil_scoped_release release;
                 self.accumulate(rows.data(), weights.data(), rows.shape(0), segments, out.data(),
                                 static_cast<int>(out.shape(0)));
             })
        .def("fill_tile",
             [](Gram<T>& self, Vector<const std::int32_t> members, Tile<T>& tile) {
                 nb::gil_scoped_release release;
                 self.fill_tile(members.data(), static_cast<int>(members.shape(0)), tile);
             })
        .def("diagonal", [](const Gram<T>& self) {
            std::vector<double> out(self.size());
            self.diagonal(out.data());
            return owned(std::move(out));
        });

    module.def("solve_tile",
               [](const Tile<T>& K, Vector<const double> lower, Vector<const double> upper, Vector<double> beta,
                  Vector<double> gradient, const std::vector<int>& edges, double tolerance, long max_steps, double seconds) {
                   TileProblem<T> problem{K,     lower.data(), upper.data(), beta.data(),      gradient.data(),
                                          edges, tolerance,    max_steps,    Deadline(seconds)};
                   TileResult result;
                   {
                       nb::gil_scoped_release release;
                       result = loops<T>().solve_tile(problem);
                   }
                   return nb::make_tuple(result.steps, result.violation, result.lowest_curvature, result.level);
               });
    module.def("solve_joint_tile", [](const Tile<T>& K, Rows<const double> upper, Rows<double> beta, Rows<double> gradient,
                                      double tolerance, long max_steps, double seconds) {
        JointTileProblem<T> problem{K,
                                    static_cast<int>(upper.shape(0)),
                                    upper.data(),
                                    beta.data(),
                                    gradient.data(),
                                    tolerance,
                                    max_steps,
                                    Deadline(seconds)};
        TileResult result;
        {
            nb::gil_scoped_release release;
            result = loops<T>().solve_joint_tile(problem);
        }
        return nb::make_tuple(result.steps, result.violation, result.lowest_curvature, result.level);
    });
    // members, bounds, beta and gradient of all problems one after the other; problem i ends at ends[i]
    module.def("solve_tiles", [](const Gram<T>& gram, std::vector<std::int64_t> ends, Vector<const std::int32_t> members,
                                 Vector<const double> lower, Vector<const double> upper, Vector<const double> shift,
                                 Vector<double> beta, Vector<double> gradient, bool coupled, double tolerance, double polish,
                                 long max_steps, double seconds) {
        std::vector<SmallProblem<T>> problems;
        std::int64_t start = 0;
        for (std::int64_t end : ends) {
            problems.push_back({members.data() + start,
                                static_cast<int>(end - start),
                                lower.data() + start,
                                upper.data() + start,
                                shift.shape(0) ? shift.data() + start : nullptr,
                                beta.data() + start,
                                gradient.data() + start,
                                coupled,
                                tolerance,
                                polish,
                                max_steps,
                                {}});
            start = end;
        }
        {
            nb::gil_scoped_release release;
            solve_tiles(gram, problems, Deadline(seconds));
        }
        nb::list results;
        for (const auto& p : problems)
            results.append(nb::make_tuple(p.result.steps, p.result.violation, p.result.lowest_curvature, p.result.level));
        return results;
    });
    module.def("fill_tile_from", [](Matrix<const T> matrix, Vector<const std::int32_t> members, Tile<T>& tile) {
        nb::gil_scoped_release release;
        fill_tile_from(matrix.data(), matrix.stride(0), members.data(), static_cast<int>(members.shape(0)), tile);
    });
    module.def("accumulate_from", [](Matrix<const T> matrix, Vector<const std::int32_t> rows, Vector<const double> weights,
                                     std::int64_t first, std::int64_t last, Vector<double> out) {
        nb::gil_scoped_release release;
        accumulate_from(matrix.data(), matrix.stride(0), rows.data(), weights.data(), rows.shape(0), first, last, out.data());
    });
    module.def(
        "weighted_sums", [](const Kernel& kernel, const Samples<T>& support, Samples<T>& queries, Matrix<const double> weights,
                            std::vector<std::int64_t> group_ends, nb::ndarray<double, nb::ndim<3>, nb::c_contig> sums) {
            nb::gil_scoped_release release;
            if (wants_panels(kernel, queries.n_features())) queries.make_panels();
            weighted_sums(kernel, support, queries, weights.data(), static_cast<int>(weights.shape(0)), group_ends, sums.data());
        });
}

}  // namespace

NB_MODULE(_native, module) {
    watch_for_forks();
    nb::class_<Kernel>(module, "Kernel");
    module.def("make_kernel", &make_kernel);
    module.def("use_blas", &use_blas);
    module.def("instruction_set", &instruction_set);
    module.attr("chunk") = chunk;
    nb::list kernel_names;
    for (const auto& known : kernel_kinds) kernel_names.append(known.first);
    module.attr("kernel_names") = kernel_names;
    module.def("pair_all", [](const Kernel& kernel, Samples<double>& samples, Matrix<double> pairs) {
        nb::gil_scoped_release release;
        pair_all(kernel, samples, pairs.data());
    });
    module.def("apply_kernel_to",
               [](const Kernel& kernel, Matrix<const double> pairs, Matrix<double> matrix, Matrix<float> rounded) {
                   nb::gil_scoped_release release;
                   apply_kernel_to(kernel, pairs.data(), pairs.stride(0), pairs.shape(0), pairs.shape(1), matrix.data(),
                                   rounded.data(), matrix.stride(0));
               });
    module.def("exact_sums", [](const Kernel& kernel, Samples<double>& support, Samples<double>& queries,
                                Rows<const double> weights, Rows<double> sums) {
        nb::gil_scoped_release release;
        exact_sums(kernel, support, queries, weights.data(), static_cast<int>(weights.shape(0)), sums.data());
    });
    // a row of the boxes, of beta, of the gradients and of the terms for each problem
    module.def("solve_chain", [](Matrix<const double> matrix, Matrix<const float> rounded, Vector<const std::int32_t> members,
                                 Vector<const double> linear, bool coupled, double tol, double gap_tol, double largest,
                                 double rounding, Rows<const double> lower, Rows<const double> upper, Rows<double> beta,
                                 Rows<double> gradients, Rows<double> terms, double seconds) {
        const auto size = static_cast<std::int64_t>(linear.shape(0));
        const bool whole =
            static_cast<std::int64_t>(matrix.shape(0)) == size && matrix.stride(0) == in_chunks(static_cast<int>(size));
        const Chain chain{matrix.data(),
                          whole && rounded.stride(0) == matrix.stride(0) ? rounded.data() : nullptr,
                          matrix.stride(0),
                          whole ? nullptr : members.data(),
                          static_cast<int>(size),
                          linear.data(),
                          coupled,
                          tol,
                          gap_tol,
                          largest,
                          rounding};
        std::vector<Link> links;
        for (std::int64_t k = 0; k < static_cast<std::int64_t>(lower.shape(0)); ++k)
            links.push_back({lower.data() + k * size,
                             upper.data() + k * size,
                             beta.data() + k * size,
                             gradients.data() + k * size,
                             terms.data() + k * size,
                             {}});
        int solved = 0;
        {
            nb::gil_scoped_release release;
            solved = solve_chain(chain, links, Deadline(seconds));
        }
        nb::list results;
        for (int k = 0; k < solved; ++k) results.append(nb::make_tuple(links[k].steps, as_tuple(links[k].proof)));
        return results;
    });
    // members, vectors and terms of all points one after the other; point i ends at ends[i]
    module.def("prove_each", [](const Kernel& kernel, const Samples<double>& samples, double unit, double constant,
                                Vector<const double> sizes, Vector<const double> of_products, Vector<const double> of_centre,
                                const std::vector<std::int64_t>& ends, Vector<const std::int32_t> members,
                                Vector<const double> linear, Vector<const double> lower, Vector<const double> upper,
                                Vector<const double> beta, Vector<const double> claim, bool coupled, Vector<double> terms) {
        std::vector<ClaimedPoint> points;
        for (std::int64_t i = 0, start = 0; i < static_cast<std::int64_t>(ends.size()); start = ends[i++])
            points.push_back({members.data() + start, static_cast<int>(ends[i] - start), linear.data() + start,
                              lower.data() + start, upper.data() + start, beta.data() + start,
                              claim.shape(0) ? claim.data() + start : nullptr, coupled, terms.data() + start});
        const auto given = [](const Vector<const double>& numbers) { return numbers.shape(0) ? numbers.data() : nullptr; };
        const SumErrors errors{unit, constant, given(sizes), given(of_products), given(of_centre)};
        std::vector<Proof> proofs;
        {
            nb::gil_scoped_release release;
            proofs = prove_each(kernel, samples, errors, points);
        }
        nb::list results;
        for (const Proof& p : proofs) results.append(as_tuple(p));
        return results;
    });
    module.def("products_from", [](Matrix<const double> matrix, Vector<const std::int32_t> at, Vector<const double> weights,
                                   Vector<double> out) {
        nb::gil_scoped_release release;
        products_from(matrix.data(), matrix.stride(0), at.data(), at.shape(0), weights.data(), weights.shape(0), out.data());
    });
    module.def("n_threads", &n_threads);
    module.def("use_threads", &omp_set_num_threads);  // of the calling thread
    bind<float>(module, "Samples32", "Gram32", "Tile32");
    bind<double>(module, "Samples64", "Gram64", "Tile64");
    bind_count_differences<float>(module);
    bind_count_differences<double>(module);
    bind_take_differences<float, float, std::int32_t>(module);
    bind_take_differences<float, float, std::int64_t>(module);
    bind_take_differences<float, double, std::int32_t>(module);
    bind_take_differences<float, double, std::int64_t>(module);
    bind_take_differences<double, double, std::int32_t>(module);
    bind_take_differences<double, double, std::int64_t>(module);
    bind_linear_sums<float>(module);
    bind_linear_sums<double>(module);
    bind_sparse_linear_sums<float, std::int32_t>(module);
    bind_sparse_linear_sums<double, std::int32_t>(module);
    bind_sparse_linear_sums<float, std::int64_t>(module);
    bind_sparse_linear_sums<double, std::int64_t>(module);
    bind_linear(module);
    nb::class_<Violation>(module, "Violation")
        .def_ro("value", &Violation::value)
        .def_ro("levels", &Violation::levels)
        .def_ro("n_free", &Violation::n_free);
    module.def("measure_violation", [](Vector<const double> beta, Vector<const double> lower, Vector<const double> upper,
                                       Vector<const double> gradient, std::vector<std::int64_t> edges) {
        nb::gil_scoped_release release;
        return measure_violation(state_of(beta, lower, upper, gradient, std::move(edges)));
    });
    module.def("choose_working_set",
               [](Vector<const double> beta, Vector<const double> lower, Vector<const double> upper,
                  Vector<const double> gradient, std::vector<std::int64_t> edges, const Violation& violation, double threshold,
                  std::int64_t size, double extra_share, std::uint64_t seed) {
                   WorkingSet chosen;
                   {
                       nb::gil_scoped_release release;
                       const DualState state = state_of(beta, lower, upper, gradient, std::move(edges));
                       chosen = choose_working_set(state, violation, threshold, size, extra_share, seed);
                   }
                   return nb::make_tuple(owned(std::move(chosen.members)), chosen.complete);
               });
}
