#include "levels.hpp"

#include <vector>

#include "maxmargin/loops.hpp"

#define MAXMARGIN_DECLARE(level)    \
    namespace maxmargin::level {    \
    const Loops<float>& loops32();  \
    const Loops<double>& loops64(); \
    }
MAXMARGIN_DECLARE(baseline)
#ifdef MAXMARGIN_X86
MAXMARGIN_DECLARE(v3)
MAXMARGIN_DECLARE(v4)
#endif

namespace tests {
namespace {

struct Level {
    const char* name;
    const maxmargin::Loops<float>& loops32;
    const maxmargin::Loops<double>& loops64;
};

const std::vector<Level>& levels() {
    static const std::vector<Level> all = [] {
        std::vector<Level> found{{"baseline", maxmargin::baseline::loops32(), maxmargin::baseline::loops64()}};
#ifdef MAXMARGIN_X86
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
            found.push_back({"v3", maxmargin::v3::loops32(), maxmargin::v3::loops64()});
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
            found.push_back({"v4", maxmargin::v4::loops32(), maxmargin::v4::loops64()});
#endif
        return found;
    }();
    return all;
}

int chosen = 0;

}  // namespace

int n_levels() { return static_cast<int>(levels().size()); }
void use_level(int level) { chosen = level; }
const char* level_name() { return levels()[chosen].name; }
const maxmargin::Loops<float>& loops32() { return levels()[chosen].loops32; }
const maxmargin::Loops<double>& loops64() { return levels()[chosen].loops64; }

}  // namespace tests

// The functions that native/src/dispatch.cpp defines for the library.
namespace maxmargin {

template <>
const Loops<float>& loops<float>() {
    return tests::loops32();
}
template <>
const Loops<double>& loops<double>() {
    return tests::loops64();
}
const char* instruction_set() { return tests::level_name(); }

}  // namespace maxmargin
