// The smallest test framework: a test is a function with a name, a check is a condition with a place.
#pragma once
#include <cmath>
#include <functional>
#include <string>

namespace tests {

void note_check(bool holds, const char* condition, const char* file, int line);
#define CHECK(condition) ::tests::note_check((condition), #condition, __FILE__, __LINE__)

// Run one test; it passes if all its checks hold.
void run(const std::string& name, const std::function<void()>& test);

// |a - b| <= tolerance, and false where either is NaN.
inline bool close(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

// The groups of tests, each in a file of its own.
void test_kernels();
void test_gram();
void test_weighted_sums();
void test_working_set();
void test_tile_solver();
void test_newton();
void test_crammer_singer();
void test_exact_sums();
void test_proofs();
void test_linear_sums();
void test_deadline();
void test_linear();
void test_team();
void test_crew();
void test_memory();
void test_differences();
void test_recent_directions();

}  // namespace tests
