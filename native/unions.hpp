// Filters that are one union: a row that several of them match is found once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace palio {

// For each filter of an index the first one of its union, which for a filter on its own is itself. The numbers belong to
// the caller; filters beyond them are on their own. Several threads may use it at once.
class Unions {
 public:
  Unions(const uint32_t* owners, uint64_t size) : owners_(owners), size_(size), flags_(words(size)) {
    for (uint64_t filter = 0; filter < size; ++filter) {
      if (owners[filter] == filter) continue;
      mark(filter);
      mark(owner(filter));
    }
    for (uint64_t word = 0; word < flags_.size(); ++word) {
      for (uint64_t left = flags_[word]; left != 0; left &= left - 1) add(word * 64 + static_cast<uint64_t>(__builtin_ctzll(left)));
    }
    if (is_many_) members_ = {};
  }

  // Whether each filter names one that comes no later and is the first one of its union.
  static bool are_owners(const uint32_t* owners, uint64_t size) {
    for (uint64_t filter = 0; filter < size; ++filter) {
      if (owners[filter] > filter || owners[owners[filter]] != owners[filter]) return false;
    }
    return true;
  }

  uint64_t size() const { return size_; }
  uint64_t least() const { return least_; }
  uint64_t greatest() const { return greatest_; }

  // Whether a filter, one of the first size(), belongs to a union of several.
  bool is_part(uint64_t filter) const { return (flags_[filter / 64] >> filter % 64 & 1) != 0; }

  // The first of the union of one of the first size() filters; none that is greater, even if the numbers were changed.
  uint64_t owner(uint64_t filter) const { return std::min<uint64_t>(owners_[filter], filter); }

  // All filters that belong to unions, ascending, if there are so few that each is looked for in what a row has found.
  const std::vector<uint32_t>* few(uint64_t found) const {
    return is_many_ || members_.size() * steps > found ? nullptr : &members_;
  }

 private:
  static constexpr size_t most_members = 4096;
  static constexpr uint64_t steps = 16;  // of looking for one member, as compared to looking at what was found one by one

  static size_t words(uint64_t size) { return static_cast<size_t>((size + 63) / 64); }

  void mark(uint64_t filter) { flags_[filter / 64] |= uint64_t{1} << filter % 64; }

  void add(uint64_t filter) {
    least_ = std::min(least_, filter);
    greatest_ = filter;
    is_many_ = is_many_ || members_.size() == most_members;
    if (!is_many_) members_.push_back(static_cast<uint32_t>(filter));
  }

  const uint32_t* owners_;
  uint64_t size_;
  std::vector<uint64_t> flags_;  // a bit for each filter: whether it belongs to a union of several
  std::vector<uint32_t> members_;
  uint64_t least_ = ~uint64_t{0}, greatest_ = 0;  // of those that do
  bool is_many_ = false;
};

// Leaves of each union only one filter in what a row has found: the first one found. One call's own.
class UnionReducer {
 public:
  explicit UnionReducer(const Unions& unions) : unions_(unions), seen_((unions.size() + 63) / 64) {}

  // Those that the last row has kept though they are not the first ones of their unions, each with that one.
  const std::vector<std::pair<uint64_t, uint64_t>>& displaced() const { return displaced_; }

  // Ids are ascending before and after; returns their new end.
  template <class Id>
  Id* reduce(Id* begin, Id* end) {
    displaced_.clear();
    if (unions_.least() > unions_.greatest()) return end;
    Id* first = std::lower_bound(begin, end, unions_.least());
    Id* last = std::upper_bound(first, end, unions_.greatest());
    if (first == last) return end;
    const std::vector<uint32_t>* few = unions_.few(static_cast<uint64_t>(last - first));
    Id* kept = few != nullptr ? reduce_few(*few, first, last) : reduce_many(first, last);
    for (uint64_t owner : met_) seen_[owner / 64] = 0;
    met_.clear();
    return kept == last ? end : std::copy(last, end, kept);
  }

 private:
  template <class Id>
  Id* reduce_few(const std::vector<uint32_t>& members, Id* from, Id* last) {
    Id *kept = from, *at = from;
    for (uint32_t member : members) {
      at = std::lower_bound(at, last, member);
      if (at == last) break;
      if (*at != member || is_first(member)) continue;
      kept = from == kept ? at : std::copy(from, at, kept);
      from = ++at;
    }
    return from == kept ? last : std::copy(from, last, kept);
  }

  template <class Id>
  Id* reduce_many(Id* at, Id* last) {
    Id* kept = at;
    for (; at != last; ++at) {
      *kept = *at;
      kept += !unions_.is_part(*at) || is_first(*at);
    }
    return kept;
  }

  bool is_first(uint64_t filter) {
    uint64_t owner = unions_.owner(filter), bit = uint64_t{1} << owner % 64;
    uint64_t& word = seen_[owner / 64];
    if ((word & bit) != 0) return false;
    word |= bit;
    met_.push_back(owner);
    if (owner != filter) displaced_.emplace_back(filter, owner);
    return true;
  }

  const Unions& unions_;
  std::vector<uint64_t> seen_;  // a bit for each filter: whether its union was found in this row
  std::vector<uint64_t> met_;   // those whose bits are set
  std::vector<std::pair<uint64_t, uint64_t>> displaced_;
};

}  // namespace palio
