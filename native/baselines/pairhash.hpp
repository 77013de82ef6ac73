// A hash on pairs of equalities, made for the filters of workload W1 and for nothing else: the ceiling.
//
// Filters are `s = x and t = y and n >= lo and n <= hi`. Strings are interned, so that a pair of attributes with a pair
// of values is a key of 32 bits. All filters of a hash bucket lie side by side, twelve bytes each. Events go in blocks
// through three passes (which buckets have filters, where they lie, which filters match); each pass fetches what the
// next one reads, and hardly anything depends on a branch that the processor could guess wrong.
#pragma once

#include <array>

#include "common.hpp"

namespace palio::baselines {

class PairHash {
 public:
  void add(const Compiled& compiled) {
    const Predicate* strings[2];
    const Predicate* range = nullptr;
    size_t count = 0;
    for (const Predicate& predicate : compiled.predicates) {
      if (predicate.test == Test::text_eq && predicate.types == mask_of(Type::string) && count < 2) {
        strings[count++] = &predicate;
      } else if (predicate.test == Test::floats && range == nullptr) {
        range = &predicate;
      } else {
        refuse();
      }
    }
    if (count != 2 || range == nullptr || strings[0]->name == strings[1]->name) refuse();
    double lo = range->floats.lo, hi = range->floats.hi;
    bool fits = lo >= 0 && hi <= most_number && lo <= hi && lo == std::floor(lo) && hi == std::floor(hi);
    if (!fits || range->types != number_types) refuse();
    std::array<uint32_t, 2> slots, values;
    for (size_t i = 0; i < 2; ++i) {
      slots[i] = slot_of(string_names_, strings[i]->name, most_strings);
      std::string_view text(compiled.bytes.data() + strings[i]->literal.offset, strings[i]->literal.size);
      values[i] = values_[slots[i]].intern(text);
      if (values[i] >= most_values) refuse();
    }
    size_t one = slots[0] < slots[1] ? 0 : 1, other = 1 - one;
    uint32_t key = key_of(pair_of(slots[one], slots[other]), values[one], values[other]);
    uint32_t number = slot_of(number_names_, range->name, most_numbers);
    uint32_t packed = pack(number, static_cast<uint32_t>(lo), static_cast<uint32_t>(hi - lo));
    given_.push_back({key, static_cast<FilterId>(given_.size()), packed});
  }

  // Counts the filters of each bucket, then lays them side by side.
  void build() {
    std::vector<uint32_t> keys;
    for (const Entry& entry : given_) keys.push_back(entry.key);
    std::sort(keys.begin(), keys.end());
    size_t distinct = static_cast<size_t>(std::unique(keys.begin(), keys.end()) - keys.begin());
    bits_ = 6;
    while ((size_t{1} << bits_) < distinct * 4) ++bits_;
    size_t buckets = size_t{1} << bits_;
    starts_.assign(buckets + 1, 0);
    used_.assign(buckets / 64, 0);
    for (const Entry& entry : given_) ++starts_[bucket_of(entry.key) + 1];
    size_t longest = 0;
    for (size_t i = 0; i < buckets; ++i) {
      longest = std::max<size_t>(longest, starts_[i + 1]);
      if (starts_[i + 1] != 0) used_[i / 64] |= uint64_t{1} << (i % 64);
      starts_[i + 1] += starts_[i];
    }
    entries_.assign(given_.size(), {});
    std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
    for (const Entry& entry : given_) entries_[next[bucket_of(entry.key)]++] = entry;
    found_.resize(longest * pairs_.size() + 1);
  }

  void prepare(const Events& events) {
    small_.assign(events.size(), {});
    for (size_t row = 0; row < events.size(); ++row) {
      Small& small = small_[row];
      small.numbers.fill(unknown);
      small.strings.fill(most_values);
      for (const Attribute& attribute : events[row].attributes()) intern(attribute, small);
    }
  }

  void match(const Events&, size_t first, size_t last, Output& output) {
    for (size_t start = first; start < last; start += block) {
      size_t count = std::min(block, last - start);
      for (size_t i = 0; i < count; ++i) find_keys(small_[start + i], plans_[i]);
      for (size_t i = 0; i < count; ++i) find_entries(plans_[i]);
      for (size_t i = 0; i < count; ++i) {
        size_t matches = scan(small_[start + i], plans_[i]);
        write_sorted(found_, matches, output.begin(matches));
        output.end(static_cast<int32_t>(start + i - first), matches);
      }
    }
  }

  size_t size() const { return given_.size(); }
  size_t memory_usage() const { return bytes_of(starts_) + bytes_of(used_) + bytes_of(entries_); }  // what matching reads

 private:
  static constexpr size_t block = 16;
  static constexpr uint32_t most_strings = 8, most_numbers = 4, most_number = 0x7FFF, most_values = 0x1FFF;
  static constexpr uint32_t unknown = UINT32_MAX;
  static constexpr size_t most_pairs = most_strings * (most_strings - 1) / 2;

  struct Entry {
    uint32_t key;
    FilterId id;
    uint32_t range;  // which number (2 bits), where its range begins (15), how wide it is (15)
  };

  struct Pair { uint32_t i, j; };
  struct Small {
    std::array<uint32_t, most_strings> strings;
    std::array<uint32_t, most_numbers> numbers;
  };

  struct Plan {  // of one event: the keys whose buckets have filters, then where those lie
    size_t count;
    std::array<uint32_t, most_pairs + 1> keys, starts, ends;
  };

  static uint32_t pack(uint32_t slot, uint32_t lo, uint32_t width) { return slot | lo << 2 | width << 17; }

  // Pairs get their numbers as filters need them.
  uint32_t pair_of(uint32_t i, uint32_t j) {
    auto same = [&](const Pair& pair) { return pair.i == i && pair.j == j; };
    auto found = std::find_if(pairs_.begin(), pairs_.end(), same);
    if (found == pairs_.end()) found = pairs_.insert(found, {i, j});
    return static_cast<uint32_t>(found - pairs_.begin());
  }

  static uint32_t key_of(uint32_t pair, uint32_t x, uint32_t y) { return pair << 26 | x << 13 | y; }

  size_t bucket_of(uint32_t key) const { return (key ^ key >> 13) * 0x9E3779B9u >> (32 - bits_); }

  [[noreturn]] static void refuse() {
    throw std::invalid_argument("the pair hash is for workload W1: two strings, and one integer between 0 and 32767");
  }

  static uint32_t slot_of(std::vector<NameId>& names, NameId name, uint32_t most) {
    auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      if (names.size() == most) refuse();
      names.push_back(name);
      return static_cast<uint32_t>(names.size() - 1);
    }
    return static_cast<uint32_t>(found - names.begin());
  }

  void intern(const Attribute& attribute, Small& small) const {
    for (size_t i = 0; i < string_names_.size(); ++i) {
      if (string_names_[i] != attribute.name || attribute.value.type != Type::string) continue;
      uint32_t number;
      if (values_[i].find(attribute.value.text, number)) small.strings[i] = number;
    }
    for (size_t i = 0; i < number_names_.size(); ++i) {
      if (number_names_[i] != attribute.name) continue;
      if (attribute.value.type == Type::real) refuse();
      bool fits = attribute.value.type == Type::integer && attribute.order >= 0 && attribute.order <= most_number;
      if (fits) small.numbers[i] = static_cast<uint32_t>(attribute.value.integer);
    }
  }

  void find_keys(const Small& event, Plan& plan) const {
    size_t count = 0;
    for (uint32_t i = 0; i < pairs_.size(); ++i) {
      uint32_t key = key_of(i, event.strings[pairs_[i].i], event.strings[pairs_[i].j]);
      size_t bucket = bucket_of(key);
      plan.keys[count] = key;
      count += used_[bucket / 64] >> (bucket % 64) & 1;
    }
    for (size_t i = 0; i < count; ++i) __builtin_prefetch(&starts_[bucket_of(plan.keys[i])]);
    plan.count = count;
  }

  void find_entries(Plan& plan) const {
    for (size_t i = 0; i < plan.count; ++i) {
      size_t bucket = bucket_of(plan.keys[i]);
      plan.starts[i] = starts_[bucket];
      plan.ends[i] = starts_[bucket + 1];
      for (uint32_t at = plan.starts[i]; at < plan.ends[i]; at += 5) __builtin_prefetch(&entries_[at]);
      __builtin_prefetch(&entries_[plan.ends[i] - 1]);
    }
  }

  size_t scan(const Small& event, const Plan& plan) {
    FilterId* found = found_.data();
    size_t count = 0;
    for (size_t i = 0; i < plan.count; ++i) {
      for (uint32_t at = plan.starts[i]; at < plan.ends[i]; ++at) {
        const Entry& entry = entries_[at];
        uint32_t above = event.numbers[entry.range & 3] - (entry.range >> 2 & most_number);
        found[count] = entry.id;
        count += (above <= entry.range >> 17) & (entry.key == plan.keys[i]);
      }
    }
    return count;
  }

  std::vector<NameId> string_names_, number_names_;
  std::array<Interner, most_strings> values_;
  std::vector<Entry> given_;  // in order of adding
  std::vector<Pair> pairs_;
  unsigned bits_ = 6;             // of the number of buckets
  std::vector<uint32_t> starts_;  // of the entries of each bucket
  std::vector<uint64_t> used_;    // a bit for each bucket that has entries: few enough to stay in the nearest cache
  std::vector<Entry> entries_;
  std::vector<Small> small_;
  std::array<Plan, block> plans_;
  std::vector<FilterId> found_;
};

}  // namespace palio::baselines
