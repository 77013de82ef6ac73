// A block of memory that grows without copying: where the system can, by moving pages instead of bytes.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace palio {

class Region {
 public:
  Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region() {
    if (data_ != nullptr) munmap(data_, capacity_);
  }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // After this, growing to the size cannot fail.
  void reserve(size_t size) {
    if (size > capacity_) grow(size);
  }

  // New bytes are zero.
  void resize(size_t size) {
    reserve(size);
    size_ = size;
  }

 private:
  static constexpr size_t least = size_t{1} << 16;
  static constexpr size_t huge_page = size_t{1} << 21;

  void grow(size_t size) {
    size_t capacity = capacity_ == 0 ? least : capacity_;
    while (capacity < size) capacity *= 2;
    void* moved;
    if (data_ == nullptr) {
      moved = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
#ifdef MREMAP_MAYMOVE
      moved = mremap(data_, capacity_, capacity, MREMAP_MAYMOVE);
#else
      moved = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (moved != MAP_FAILED) {
        std::memcpy(moved, data_, size_);
        munmap(data_, capacity_);
      }
#endif
    }
    if (moved == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<uint8_t*>(moved);
    capacity_ = capacity;
#ifdef MADV_HUGEPAGE
    // Large indexes are read at random: with pages of 4 KiB every second access would miss the address cache too.
    if (capacity >= 2 * huge_page) madvise(data_, capacity, MADV_HUGEPAGE);
#endif
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace palio
