// Large plain arrays: aligned, uninitialised, on huge pages where the system has them (page faults otherwise cost as much as
// the arithmetic that fills the pages).
//
// The system clears a page before it hands it out, which takes longer than a small fit has to do with it. So the memory of large
// arrays that are no longer needed is kept, up to `most_spare` bytes, for the next ones.
#pragma once
#include <cstddef>
#include <utility>

namespace maxmargin {

inline constexpr std::size_t huge_page = std::size_t(1) << 21;
inline constexpr std::size_t most_spare = std::size_t(64) << 20;

// A piece of memory of at least the size that was asked for.
struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
};

Block allocate(std::size_t bytes);  // throws std::bad_alloc
void release(Block block) noexcept;
std::size_t spare_bytes();  // that are kept at present

template <class T>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t size) : size_(size) {
        if (size) block_ = allocate(size * sizeof(T));
    }
    Buffer(Buffer&& other) noexcept : block_(std::exchange(other.block_, {})), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() { release(block_); }

    T* data() { return static_cast<T*>(block_.address); }
    const T* data() const { return static_cast<const T*>(block_.address); }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }

private:
    Block block_;
    std::size_t size_ = 0;
};

}  // namespace maxmargin
