// Memory of large arrays that are no longer needed serves the next ones.
#include "maxmargin/memory.hpp"

#include <cstdint>

#include "check.hpp"

namespace tests {
namespace {

using maxmargin::allocate;
using maxmargin::Block;
using maxmargin::huge_page;
using maxmargin::most_spare;
using maxmargin::release;
using maxmargin::spare_bytes;

void test_reuse() {
    const Block first = allocate(3 * huge_page + 1);
    CHECK(first.bytes == 4 * huge_page);
    CHECK(reinterpret_cast<std::uintptr_t>(first.address) % huge_page == 0);
    release(first);
    const Block second = allocate(3 * huge_page);
    CHECK(second.address == first.address);  // large enough, and not twice too large
    release(second);
    const Block small = allocate(huge_page);
    CHECK(small.address != first.address);
    release(small);
}

void test_limit() {
    for (std::size_t size = huge_page; size <= 2 * most_spare; size += 5 * huge_page) {
        release(allocate(size));
        CHECK(spare_bytes() <= most_spare);
    }
    const std::size_t before = spare_bytes();
    release(allocate(huge_page - 64));
    release(allocate(2 * most_spare));
    CHECK(spare_bytes() == before);  // neither small blocks nor very large ones are kept
}

}  // namespace

void test_memory() {
    run("memory, reuse", test_reuse);
    run("memory, limit", test_limit);
}

}  // namespace tests
