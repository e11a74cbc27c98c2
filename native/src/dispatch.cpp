// Choose the loops for the present processor.
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

namespace maxmargin {
namespace {

enum class Level { baseline, v3, v4 };

Level detect() {
#ifdef MAXMARGIN_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd"))
        return Level::v4;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return Level::v3;
#endif
    return Level::baseline;
}

const Level level = detect();

}  // namespace

template <>
const Loops<float>& loops<float>() {
#ifdef MAXMARGIN_X86
    if (level == Level::v4) return v4::loops32();
    if (level == Level::v3) return v3::loops32();
#endif
    return baseline::loops32();
}

template <>
const Loops<double>& loops<double>() {
#ifdef MAXMARGIN_X86
    if (level == Level::v4) return v4::loops64();
    if (level == Level::v3) return v3::loops64();
#endif
    return baseline::loops64();
}

const char* instruction_set() {
    switch (level) {
        case Level::v4: return "x86-64-v4";
        case Level::v3: return "x86-64-v3";
        default: return "baseline";
    }
}

}  // namespace maxmargin
