// A kernel k(x, z): a name and at most three numbers.
#pragma once

namespace maxmargin {

// The last two are not kernels, but distances that kernels are functions of (as some are functions of `linear`).
enum class KernelKind { linear, polynomial, rbf, laplacian, exponential, sigmoid, squared_distance, manhattan_distance };

// The number about two samples to which a kernel applies its scalar function.
enum class Pairing { dot, squared_distance, manhattan_distance };

struct Kernel {
    KernelKind kind = KernelKind::linear;
    double gamma = 1.0;
    double coef0 = 0.0;
    double degree = 3.0;

    Pairing pairing() const {
        switch (kind) {
            case KernelKind::squared_distance:
            case KernelKind::rbf:
            case KernelKind::exponential: return Pairing::squared_distance;
            case KernelKind::manhattan_distance:
            case KernelKind::laplacian: return Pairing::manhattan_distance;
            default: return Pairing::dot;
        }
    }
    // The pairing itself as a kernel.
    Kernel bare() const {
        switch (pairing()) {
            case Pairing::squared_distance: return {KernelKind::squared_distance};
            case Pairing::manhattan_distance: return {KernelKind::manhattan_distance};
            default: return {KernelKind::linear};
        }
    }
    // Whether k(x + c, z + c) = k(x, z), so that the samples may be centred, which reduces rounding errors.
    bool shift_invariant() const { return pairing() != Pairing::dot; }
};

}  // namespace maxmargin
