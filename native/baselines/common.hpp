// What the engines that the index is measured against share: names, prebuilt events, and the arrays they write.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../predicate.hpp"

namespace palio::baselines {

using FilterId = uint32_t;  // position in order of adding
constexpr NameId no_name = 0;  // the empty name, which no attribute has

template <class T>
size_t bytes_of(const std::vector<T>& items) { return items.capacity() * sizeof(T); }

// Texts and their numbers, in order of appearance.
class Interner {
 public:
  uint32_t intern(std::string_view text) {
    auto found = numbers_.find(text);
    if (found != numbers_.end()) return found->second;
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), static_cast<uint32_t>(texts_.size() - 1));
    return static_cast<uint32_t>(texts_.size() - 1);
  }

  // Whether the text is known, and its number.
  bool find(std::string_view text, uint32_t& number) const {
    auto found = numbers_.find(text);
    if (found == numbers_.end()) return false;
    number = found->second;
    return true;
  }

  std::string_view text(uint32_t number) const { return texts_[number]; }
  size_t size() const { return texts_.size(); }

 private:
  std::deque<std::string> texts_;  // a deque, because its elements stay where they are
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

// Events as the engines take them; their texts are kept here, each once.
class Events {
 public:
  void clear() {
    events_.clear();
    texts_ = Interner();
  }

  void begin() { events_.emplace_back(); }

  void add(NameId name, Value value) {
    if (value.is_text()) value.text = texts_.text(texts_.intern(value.text));
    events_.back().add(name, value);
  }

  size_t size() const { return events_.size(); }
  const Event& operator[](size_t i) const { return events_[i]; }

 private:
  std::vector<Event> events_;
  Interner texts_;
};

// The result: pairs of a row and a filter's id, as two arrays. They are used again by the next run, so that an engine
// is not charged for fresh memory.
class Output {
 public:
  void clear() {
    size_ = 0;
    ends_.clear();
  }

  // Room for so many further ids of the event; write them, then say how many there are.
  int64_t* begin(size_t most) {
    if (size_ + most > ids_.size()) {
      ids_.resize((size_ + most) * 2);
      rows_.resize(ids_.size());
    }
    return ids_.data() + size_;
  }

  void end(int32_t row, size_t count) {
    std::fill_n(rows_.data() + size_, count, row);
    size_ += count;
    ends_.push_back(size_);
  }

  void write(int32_t row, const std::vector<FilterId>& found, size_t count) {
    int64_t* ids = begin(count);
    for (size_t i = 0; i < count; ++i) ids[i] = found[i];
    end(row, count);
  }

  size_t size() const { return size_; }
  size_t events() const { return ends_.size(); }
  size_t start_of(size_t event) const { return event == 0 ? 0 : ends_[event - 1]; }
  size_t end_of(size_t event) const { return ends_[event]; }
  const int64_t* ids() const { return ids_.data(); }
  const int32_t* rows() const { return rows_.data(); }

 private:
  std::vector<int32_t> rows_;
  std::vector<int64_t> ids_;
  std::vector<size_t> ends_;  // of the pairs of each event
  size_t size_ = 0;
};

// Predicates of many filters with one store of literals, from which their offsets count.
class Literals {
 public:
  Predicate adopt(Predicate predicate, const std::vector<char>& bytes) {
    if (!has_literal(predicate.test) && predicate.test != Test::wide) return predicate;
    const char* from = bytes.data() + predicate.literal.offset;
    predicate.literal.offset = static_cast<uint32_t>(bytes_.size());
    bytes_.insert(bytes_.end(), from, from + predicate.literal.size);
    if (bytes_.size() > UINT32_MAX) throw std::length_error("more than 4 GiB of literals");
    return predicate;
  }

  const char* data() const { return bytes_.data(); }
  size_t memory_usage() const { return bytes_of(bytes_); }

 private:
  std::vector<char> bytes_;
};

// Sorts distinct ids into place. A few dozen are ranked by comparing each with each: more comparisons than sorting
// takes, but none that the processor guesses wrong. The ids may be padded up to a multiple of four.
inline void write_sorted(std::vector<FilterId>& found, size_t count, int64_t* into) {
  constexpr size_t few = 48;
  if (count > few) {
    std::sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t i = 0; i < count; ++i) into[i] = found[i];
    return;
  }
  int32_t ids[few + 4];
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(found[i]);
  size_t padded = (count + 3) / 4 * 4;
  for (size_t i = count; i < padded; ++i) ids[i] = INT32_MAX;
  for (size_t i = 0; i < count; ++i) {
    int32_t id = ids[i], rank = 0;
    for (size_t j = 0; j < padded; j += 4) {
      rank += (ids[j] < id) + (ids[j + 1] < id) + (ids[j + 2] < id) + (ids[j + 3] < id);
    }
    into[rank] = id;
  }
}

}  // namespace palio::baselines
