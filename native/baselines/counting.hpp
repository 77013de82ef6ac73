// The counting algorithm of the literature (Yan and García-Molina; Fabret and others; Carzaniga and Wolf).
//
// Every distinct predicate is kept once, with the list of the filters that have it. An event first finds the
// predicates it satisfies: equalities, prefixes and suffixes by hashing, ranges in an interval tree, all others of an
// attribute one by one. Each satisfied predicate then counts for its filters; a filter whose count reaches the number
// of its predicates matches.
#pragma once

#include <limits>

#include "common.hpp"

namespace palio::baselines {

using PredicateId = uint32_t;

// Which intervals hold a value: sorted by their lower ends, each with the highest upper end of its part of the tree.
template <class Number>
class IntervalTree {
 public:
  struct Node {
    Number lo, hi, highest;
    PredicateId predicate;
    TypeMask types;
  };

  void add(Number lo, Number hi, TypeMask types, PredicateId predicate) {
    nodes_.push_back({lo, hi, hi, predicate, types});
  }

  void build() {
    std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) { return a.lo < b.lo; });
    if (!nodes_.empty()) settle(0, nodes_.size());
  }

  template <class Visit>
  void find(Number value, TypeMask type, Visit visit) const { find(0, nodes_.size(), value, type, visit); }

  size_t memory_usage() const { return bytes_of(nodes_); }

 private:
  Number settle(size_t first, size_t last) {
    size_t middle = first + (last - first) / 2;
    Node& node = nodes_[middle];
    if (first < middle) node.highest = std::max(node.highest, settle(first, middle));
    if (middle + 1 < last) node.highest = std::max(node.highest, settle(middle + 1, last));
    return node.highest;
  }

  template <class Visit>
  void find(size_t first, size_t last, Number value, TypeMask type, Visit visit) const {
    while (first < last) {
      size_t middle = first + (last - first) / 2;
      const Node& node = nodes_[middle];
      if (node.highest < value) return;
      find(first, middle, value, type, visit);
      if (node.lo > value) return;
      if (node.hi >= value && (node.types & type) != 0) visit(node.predicate);
      first = middle + 1;
    }
  }

  std::vector<Node> nodes_;
};

// Predicates by a hash of what they ask for; who looks one up still tests it, so that collisions do no harm.
class PredicateTable {
 public:
  void add(uint64_t hash, PredicateId predicate) { given_.push_back({hash, predicate}); }

  void build() {
    size_t size = 16;
    while (size < given_.size() * 2) size *= 2;
    slots_.assign(size, {0, none});
    for (const Slot& slot : given_) {
      size_t at = slot.hash & (size - 1);
      while (slots_[at].predicate != none) at = (at + 1) & (size - 1);
      slots_[at] = slot;
    }
    given_ = {};
  }

  template <class Visit>
  void find(uint64_t hash, Visit visit) const {
    size_t last = slots_.size() - 1;
    for (size_t at = hash & last; slots_[at].predicate != none; at = (at + 1) & last) {
      if (slots_[at].hash == hash) visit(slots_[at].predicate);
    }
  }

  size_t memory_usage() const { return bytes_of(slots_); }

 private:
  static constexpr PredicateId none = UINT32_MAX;
  struct Slot { uint64_t hash; PredicateId predicate; };
  std::vector<Slot> given_, slots_;
};

class Counting {
 public:
  void add(const Compiled& compiled) {
    size_t first = uses_.size();
    for (const Predicate& predicate : compiled.predicates) {
      PredicateId id = distinct(predicate, compiled.bytes);
      bool known = std::find(uses_.begin() + static_cast<std::ptrdiff_t>(first), uses_.end(), id) != uses_.end();
      if (!known) uses_.push_back(id);
    }
    ends_.push_back(static_cast<uint32_t>(uses_.size()));
  }

  void build() {
    names_ = {};
    table_ = {};
    list_filters();
    for (PredicateId id = 0; id < predicates_.size(); ++id) place(id);
    table_.build();
    for (Name& name : names_) {
      name.floats.build();
      name.integers.build();
      std::sort(name.prefixes.begin(), name.prefixes.end());
      std::sort(name.suffixes.begin(), name.suffixes.end());
    }
    found_.resize(ends_.size() + 1);
  }

  void prepare(const Events&) {}

  void match(const Events& events, size_t first, size_t last, Output& output) {
    for (size_t row = first; row < last; ++row) {
      size_t count = count_matches(events[row]);
      write_sorted(found_, count, output.begin(count));
      output.end(static_cast<int32_t>(row - first), count);
    }
  }

  size_t size() const { return ends_.size(); }
  size_t memory_usage() const {
    size_t total = bytes_of(predicates_) + literals_.memory_usage() + bytes_of(uses_) + bytes_of(ends_) +
                   bytes_of(filters_) + bytes_of(filter_ends_) + bytes_of(counters_) + table_.memory_usage();
    for (const Name& name : names_) {
      total += name.floats.memory_usage() + name.integers.memory_usage() + bytes_of(name.others);
    }
    return total + by_hash_.size() * (sizeof(std::pair<uint64_t, PredicateId>) + 2 * sizeof(void*));
  }

 private:
  struct Counter {  // one word, so that counting touches one place a filter
    uint16_t event;  // to which the count belongs
    uint8_t count, needed;
  };
  static constexpr size_t most_needed = 255;

  struct Name {  // predicates on one attribute
    IntervalTree<double> floats;
    IntervalTree<int64_t> integers;  // times and booleans
    std::vector<uint32_t> prefixes, suffixes;  // their lengths
    std::vector<PredicateId> others, absent;
  };

  enum Way : uint64_t { equality, prefix, suffix };

  uint64_t hash_of(NameId name, Way way, uint64_t hash) const { return hasher_.word(hash, name * 4 + way); }

  // The number of a predicate, the same for equal ones.
  PredicateId distinct(const Predicate& predicate, const std::vector<char>& bytes) {
    bool has_bytes = has_literal(predicate.test) || predicate.test == Test::wide;
    const char* literal = has_bytes ? bytes.data() + predicate.literal.offset : nullptr;
    uint64_t hash = hasher_.word(predicate.name, static_cast<uint64_t>(predicate.test) << 8 | predicate.types);
    if (has_bytes) {
      hash ^= hasher_.text({literal, predicate.literal.size});
    } else {
      hash = hasher_.word(static_cast<uint64_t>(predicate.integers.low), hash);
      hash = hasher_.word(static_cast<uint64_t>(predicate.integers.high), hash);
    }
    auto [at, end] = by_hash_.equal_range(hash);
    for (; at != end; ++at) {
      const Predicate& known = predicates_[at->second];
      bool same = known.name == predicate.name && known.test == predicate.test && known.types == predicate.types;
      if (same && same_literal(known, predicate, literal)) return at->second;
    }
    predicates_.push_back(literals_.adopt(predicate, bytes));
    by_hash_.emplace(hash, static_cast<PredicateId>(predicates_.size() - 1));
    return static_cast<PredicateId>(predicates_.size() - 1);
  }

  bool same_literal(const Predicate& known, const Predicate& given, const char* literal) const {
    if (literal == nullptr) return std::memcmp(&known.integers, &given.integers, sizeof known.integers) == 0;
    return known.literal.size == given.literal.size &&
           std::memcmp(literals_.data() + known.literal.offset, literal, given.literal.size) == 0;
  }

  // Turns the predicates of each filter into the filters of each predicate. Filters with more predicates than a counter
  // counts, and those with none, are set apart.
  void list_filters() {
    counters_.assign(ends_.size(), {0, 0, 0});
    event_ = 0;
    always_.clear();
    large_.clear();
    filter_ends_.assign(predicates_.size(), 0);
    auto each = [&](auto visit) {
      for (FilterId id = 0; id < ends_.size(); ++id) {
        uint32_t first = id == 0 ? 0 : ends_[id - 1];
        for (uint32_t i = first; i < ends_[id] && ends_[id] - first <= most_needed; ++i) visit(id, uses_[i]);
      }
    };
    each([&](FilterId id, PredicateId predicate) {
      ++counters_[id].needed;
      ++filter_ends_[predicate];
    });
    for (size_t i = 1; i < filter_ends_.size(); ++i) filter_ends_[i] += filter_ends_[i - 1];
    filters_.resize(uses_.size());
    std::vector<uint32_t> next(filter_ends_.size(), 0);
    for (size_t i = 1; i < filter_ends_.size(); ++i) next[i] = filter_ends_[i - 1];
    each([&](FilterId id, PredicateId predicate) { filters_[next[predicate]++] = id; });
    for (FilterId id = 0; id < ends_.size(); ++id) {
      uint32_t needed = ends_[id] - (id == 0 ? 0 : ends_[id - 1]);
      if (needed == 0) always_.push_back(id);
      if (needed > most_needed) large_.push_back(id);
    }
  }

  void place(PredicateId id) {
    const Predicate& predicate = predicates_[id];
    if (predicate.name >= names_.size()) names_.resize(predicate.name + 1);
    Name& name = names_[predicate.name];
    auto length = [&](std::vector<uint32_t>& lengths) {
      uint32_t size = predicate.literal.size;
      if (std::find(lengths.begin(), lengths.end(), size) == lengths.end()) lengths.push_back(size);
    };
    switch (predicate.test) {
      case Test::floats:
        if (predicate.point) {
          return table_.add(hash_of(predicate.name, equality, hasher_.key(Value::of_real(predicate.floats.lo)).hash), id);
        }
        return name.floats.add(predicate.floats.lo, predicate.floats.hi, predicate.types, id);
      case Test::integers:
        return name.integers.add(predicate.integers.low, predicate.integers.high, predicate.types, id);
      case Test::text_eq: return table_.add(hash_of(predicate.name, equality, predicate.literal.hash), id);
      case Test::prefix:
        length(name.prefixes);
        return table_.add(hash_of(predicate.name, prefix, predicate.literal.hash), id);
      case Test::suffix:
        length(name.suffixes);
        return table_.add(hash_of(predicate.name, suffix, predicate.literal.hash), id);
      case Test::absent: return name.absent.push_back(id);
      default: return name.others.push_back(id);
    }
  }

  size_t count_matches(const Event& event) {
    next_event();
    matches_ = always_.size();
    std::copy(always_.begin(), always_.end(), found_.begin());
    for (const Attribute& attribute : event.attributes()) {
      if (attribute.name < names_.size()) find_satisfied(attribute, names_[attribute.name]);
    }
    for (NameId name = 0; name < names_.size(); ++name) {
      if (names_[name].absent.empty() || event.find(name) != nullptr) continue;
      for (PredicateId id : names_[name].absent) count(id);
    }
    for (FilterId id : large_) {
      bool all = true;
      for (uint32_t i = id == 0 ? 0 : ends_[id - 1]; i < ends_[id] && all; ++i) {
        const Predicate& predicate = predicates_[uses_[i]];
        all = holds(predicate, event.find(predicate.name), literals_.data());
      }
      if (all) found_[matches_++] = id;
    }
    return matches_;
  }

  void next_event() {
    if (event_ == std::numeric_limits<uint16_t>::max()) {
      for (Counter& counter : counters_) counter.event = 0;
      event_ = 0;
    }
    ++event_;
  }

  void find_satisfied(const Attribute& attribute, const Name& name) {
    auto test = [&](PredicateId id) {
      if (holds(predicates_[id], &attribute, literals_.data())) count(id);
    };
    auto look_up = [&](Way way, uint64_t hash) { table_.find(hash_of(attribute.name, way, hash), test); };
    look_up(equality, attribute.key.hash);
    const Value& value = attribute.value;
    if (value.type == Type::string) {
      for (uint32_t size : name.prefixes) {
        if (size <= value.text.size()) look_up(prefix, hasher_.text(value.text.substr(0, size)));
      }
      for (uint32_t size : name.suffixes) {
        if (size <= value.text.size()) look_up(suffix, hasher_.text(value.text.substr(value.text.size() - size)));
      }
    } else if (value.type != Type::bytes) {
      auto satisfied = [&](PredicateId id) { count(id); };
      bool is_number = (mask_of(value.type) & number_types) != 0;
      if (is_number) name.floats.find(attribute.order, mask_of(value.type), satisfied);
      else name.integers.find(value.integer, mask_of(value.type), satisfied);
    }
    for (PredicateId id : name.others) test(id);
  }

  void count(PredicateId id) {
    const FilterId* end = filters_.data() + filter_ends_[id];
    for (const FilterId* at = filters_.data() + (id == 0 ? 0 : filter_ends_[id - 1]); at != end; ++at) {
      Counter counter = counters_[*at];
      counter.count = static_cast<uint8_t>(counter.event == event_ ? counter.count + 1 : 1);
      counter.event = event_;
      counters_[*at] = counter;
      found_[matches_] = *at;
      matches_ += counter.count == counter.needed;
    }
  }

  Hasher hasher_;
  std::vector<Predicate> predicates_;  // distinct
  Literals literals_;
  std::unordered_multimap<uint64_t, PredicateId> by_hash_;
  std::vector<PredicateId> uses_;  // predicates of each filter
  std::vector<uint32_t> ends_;
  std::vector<FilterId> filters_;  // filters of each predicate
  std::vector<uint32_t> filter_ends_;
  std::vector<FilterId> always_, large_;
  std::vector<Name> names_;
  PredicateTable table_;
  std::vector<Counter> counters_;
  uint16_t event_ = 0;
  std::vector<FilterId> found_;
  size_t matches_ = 0;
};

}  // namespace palio::baselines
