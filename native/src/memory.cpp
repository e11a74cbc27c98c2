#include "maxmargin/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace maxmargin {

namespace {

constexpr std::size_t cache_line = 64;

// Blocks of at least a huge page that nobody uses, the oldest first. Whoever finds the list in use does without it: so a process
// that was forked while another thread had it does not wait for ever.
class Spare {
public:
    Spare() { blocks_.reserve(most_spare / huge_page); }  // as many as there can be: to keep a block needs no memory

    // The smallest block that is large enough; one of more than twice the size is left for others.
    Block take(std::size_t bytes) {
        std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock) return {};
        auto best = blocks_.end();
        for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
            if (block->bytes >= bytes && block->bytes <= 2 * bytes && (best == blocks_.end() || block->bytes < best->bytes))
                best = block;
        if (best == blocks_.end()) return {};
        const Block found = *best;
        blocks_.erase(best);
        total_ -= found.bytes;
        return found;
    }
    // False if the block is not kept.
    bool keep(Block block) {
        std::unique_lock lock(mutex_, std::try_to_lock);
        if (!lock || block.bytes > most_spare) return false;
        while (total_ + block.bytes > most_spare) {
            total_ -= blocks_.front().bytes;
            std::free(blocks_.front().address);
            blocks_.erase(blocks_.begin());
        }
        blocks_.push_back(block);
        total_ += block.bytes;
        return true;
    }
    std::size_t total() {
        const std::lock_guard lock(mutex_);
        return total_;
    }

private:
    std::mutex mutex_;
    std::vector<Block> blocks_;
    std::size_t total_ = 0;
};

// Never destroyed: buffers of threads may outlive it otherwise.
Spare& spare() {
    static Spare& all = *new Spare;
    return all;
}

}  // namespace

Block allocate(std::size_t bytes) {
    const bool large = bytes >= huge_page;
    const std::size_t alignment = large ? huge_page : cache_line;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    if (large)
        if (const Block again = spare().take(bytes); again.address) return again;
    const Block block{std::aligned_alloc(alignment, bytes), bytes};
    if (!block.address) throw std::bad_alloc();
#ifdef __linux__
    if (large) madvise(block.address, bytes, MADV_HUGEPAGE);
#endif
    return block;
}

void release(Block block) noexcept {
    if (block.bytes < huge_page || !spare().keep(block)) std::free(block.address);
}

std::size_t spare_bytes() { return spare().total(); }

}  // namespace maxmargin
