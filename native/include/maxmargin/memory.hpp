// Large plain arrays: aligned, uninitialised, on huge pages where the system has them (page faults otherwise cost as much as
// the arithmetic that fills the pages).
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace maxmargin {

template <class T>
class Buffer {
public:
    Buffer() = default;
    explicit Buffer(std::size_t size) : size_(size) {
        if (size == 0) return;
        constexpr std::size_t huge_page = std::size_t(1) << 21, cache_line = 64;
        const std::size_t bytes = size * sizeof(T);
        const std::size_t alignment = bytes >= huge_page ? huge_page : cache_line;
        data_ = static_cast<T*>(std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
        if (!data_) throw std::bad_alloc();
#ifdef __linux__
        if (alignment == huge_page) madvise(data_, bytes, MADV_HUGEPAGE);
#endif
    }
    Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        return *this;
    }
    ~Buffer() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T& operator[](std::size_t i) { return data_[i]; }
    const T& operator[](std::size_t i) const { return data_[i]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace maxmargin
