#include <cstdio>

#include "check.hpp"
#include "levels.hpp"
#include "plain_blas.hpp"

namespace tests {
namespace {

std::string running;
int passed = 0, failed = 0, broken = 0;

}  // namespace

void note_check(bool holds, const char* condition, const char* file, int line) {
    if (holds) return;
    if (broken++ == 0) std::printf("%s\n  %s:%d: %s\n", running.c_str(), file, line, condition);
}

void run(const std::string& name, const std::function<void()>& test) {
    running = std::string(level_name()) + ", " + name;
    broken = 0;
    test();
    ++(broken == 0 ? passed : failed);
}

}  // namespace tests

int main() {
    tests::use_plain_blas();
    for (int level = 0; level < tests::n_levels(); ++level) {
        tests::use_level(level);
        tests::test_kernels();
        tests::test_gram();
        tests::test_weighted_sums();
        tests::test_newton();
        tests::test_tile_solver();
        tests::test_crammer_singer();
        tests::test_exact_sums();
        tests::test_proofs();
        tests::test_deadline();
        tests::test_linear();
    }
    tests::test_working_set();
    tests::test_linear_sums();
    tests::test_team();
    tests::test_crew();
    tests::test_memory();
    tests::test_differences();
    tests::test_recent_directions();
    std::printf("%d passed, %d failed\n", tests::passed, tests::failed);
    return tests::failed == 0 ? 0 : 1;
}
