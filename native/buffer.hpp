// A growing array of plain numbers. Unlike a vector it neither fills new memory with zeros nor, where the system can move
// pages, copies what it has when it grows.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

namespace palio {

template <class Number>
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  const Number* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Number back() const { return data_[size_ - 1]; }
  Number operator[](size_t place) const { return data_[place]; }

  // Adds so many numbers, which the caller must set; if they do not fit, room is made for as many as are expected.
  Number* extend(size_t count, size_t expected = 0) {
    if (size_ + count > capacity_) reserve(std::max(size_ + count, expected));
    Number* added = data_ + size_;
    size_ += count;
    return added;
  }

  void push_back(Number number) { *extend(1) = number; }

  // Gives back what was asked for in vain.
  void shrink() {
    if (capacity_ - size_ <= size_ / 4 || size_ == 0) return;
    void* data = std::realloc(data_, size_ * sizeof(Number));
    if (data == nullptr) return;
    data_ = static_cast<Number*>(data);
    capacity_ = size_;
  }

 private:
  void reserve(size_t count) {
    size_t capacity = std::max(count, capacity_ + capacity_ / 2);
    void* data = std::realloc(data_, capacity * sizeof(Number));
    if (data == nullptr) throw std::bad_alloc();
    data_ = static_cast<Number*>(data);
    capacity_ = capacity;
  }

  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  Number* data_ = nullptr;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace palio
