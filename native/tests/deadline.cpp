// When a computation has to end: at a deadline, or because part of it has failed.
#include "maxmargin/deadline.hpp"

#include <limits>
#include <stdexcept>

#include "check.hpp"
#include "data.hpp"

namespace tests {
namespace {

constexpr double long_time = 1e6;  // seconds, longer than any test

void test_clock() {
    for (double seconds : {Deadline::never, std::numeric_limits<double>::infinity()}) {
        CHECK(!Deadline(seconds).passed());
        CHECK(Deadline(seconds).allows(1e20));
    }
    CHECK(!Deadline(long_time).passed());
    CHECK(Deadline(long_time).allows(1.0));
    CHECK(!Deadline(long_time).allows(2.0 * long_time));
    for (double seconds : {0.0, -1.0}) {
        CHECK(Deadline(seconds).passed());
        CHECK(!Deadline(seconds).allows(1e-9));
    }
}

// A tile without time is left as it was; a tile with enough time is solved.
void test_tile() {
    const int m = 100;
    const Data<double> data(m, 5, 3);
    Tile<double> K;
    K.resize(m);
    for (int a = 0; a < m; ++a)
        for (int b = 0; b < m; ++b) K.row(a)[b] = plain_kernel({KernelKind::rbf, 1.0}, data.row(a), data.row(b), 5);
    std::vector<double> lower(m), upper(m), linear(m);
    for (int k = 0; k < m; ++k) linear[k] = k % 2 ? -1.0 : 1.0, lower[k] = k % 2 ? 0.0 : -1.0, upper[k] = k % 2 ? 1.0 : 0.0;
    const std::vector<int> edges{0, m};
    for (bool time : {false, true}) {
        std::vector<double> beta(m, 0.0), gradient = linear;
        TileProblem<double> problem{K,           lower.data(),    upper.data(),
                                    beta.data(), gradient.data(), edges,
                                    1e-6,        1'000'000,       Deadline(time ? long_time : 0.0)};
        const TileResult result = loops<double>().solve_tile(problem);
        CHECK(time ? result.violation <= 1e-6 : result.violation == 2.0);
        CHECK(time ? result.steps > 0 : result.steps == 0);
        if (!time) CHECK(beta == std::vector<double>(m, 0.0) && gradient == linear);
    }
}

// An exception in a parallel region is thrown after it, once, and what has not begun by then is not done.
void test_failure() {
    Failure failure;
    int done = 0;
#pragma omp parallel for num_threads(2) reduction(+ : done)
    for (int k = 0; k < 1000; ++k)
        failure.guard([&] {
            if (k % 500 == 3) throw std::runtime_error("no more");
            ++done;
        });
    CHECK(failure.happened());
    CHECK(done < 999);
    bool work = false;
    failure.guard([&] { work = true; });
    CHECK(!work);
    std::string caught;
    try {
        failure.rethrow();
    } catch (const std::runtime_error& error) {
        caught = error.what();
    }
    CHECK(caught == "no more");
}

void test_no_failure() {
    Failure failure;
    int done = 0;
    for (int k = 0; k < 3; ++k) failure.guard([&] { ++done; });
    failure.rethrow();
    CHECK(done == 3 && !failure.happened());
}

// Sums whose sink throws end in that exception, panels and products alike.
void test_failing_sink(int d) {
    const Kernel kernel{KernelKind::rbf, 1.0};
    const Data<double> data(1200, d, 4);
    Samples<double> samples = data.samples(Storage::dense);
    if (wants_panels(kernel, d)) samples.make_panels();
    bool caught = false;
    try {
        visit_tiles(kernel, samples, samples, 0, data.n, [](std::int64_t row, int, std::int64_t, int, const double*, int) {
            if (row > 0) throw std::bad_alloc();
        });
    } catch (const std::bad_alloc&) {
        caught = true;
    }
    CHECK(caught);
}

}  // namespace

void test_deadline() {
    run("clock", test_clock);
    run("tile and deadline", test_tile);
    run("failure", test_failure);
    run("no failure", test_no_failure);
    for (int d : {3, 300}) run("failure in a sink, d = " + std::to_string(d), [&] { test_failing_sink(d); });
}

}  // namespace tests
