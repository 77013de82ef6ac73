// The judgement of the index: which partition a filter goes to, and how an overfull bucket is best divided.
#pragma once

#include <algorithm>
#include <tuple>
#include <vector>

#include "sample.hpp"

namespace palio {

struct Used {  // a division that has been made on the way to a node
  Way way;
  NameId name;
  TypeMask family;
};

// The predicates of one filter, as they lie in its record; good until the index changes.
struct FilterTerms {
  const Predicate* predicates;
  uint32_t count;
  uint32_t satisfied;
  uint32_t used;
  const char* bytes;

  Term term(size_t i) const { return {predicates + i, bytes}; }
  bool is_open(size_t i) const { return i >= marked_terms || (satisfied >> i & 1) == 0; }
  bool is_used(size_t i) const { return i < marked_terms && (used >> i & 1) != 0; }
};

struct Choice {
  int partition = -1;
  int term = -1;
};

struct Division {
  bool found = false;
  Way way = Way::equal;
  NameId name = 0;
  TypeMask family = 0;
  float score = 1;
  Term term{};  // of a group: the predicate that its filters share
};

// What the judgement asks the index about.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual Term group_term(Ref details) const = 0;
  virtual uint32_t uses(NameId name) const = 0;
};

// The predicate by which a partition would file the filter, or -1.
inline int applicable_term(const Partition& partition, const FilterTerms& filter, const Surroundings& around) {
  int best = -1;
  uint32_t rarest = ~0u;
  for (uint32_t i = 0; i < filter.count; ++i) {
    Term term = filter.term(i);
    const Predicate& predicate = *term.predicate;
    if (!filter.is_open(i)) continue;
    Key key;
    if (partition.way == Way::name) {
      if (predicate.test != Test::absent && around.uses(predicate.name) < rarest) {
        rarest = around.uses(predicate.name);
        best = static_cast<int>(i);
      }
    } else if (predicate.name == partition.name) {
      if (partition.way == Way::group) {
        if (same_predicate(term, around.group_term(partition.details))) return static_cast<int>(i);
      } else if (partition.way == Way::lower || partition.way == Way::upper) {
        if (family_of(predicate) == partition.family && way_key(partition.way, term, key)) return static_cast<int>(i);
      } else if (way_key(partition.way, term, key)) {
        return static_cast<int>(i);
      }
    }
  }
  return best;
}

// Filters wait in a bucket rather than enter a partition that most events visit, until the bucket is full.
constexpr float good_score = 0.3f;

inline Choice choose_partition(const Partition* partitions, uint32_t count, const FilterTerms& filter,
                               const Surroundings& around, bool any_score = false) {
  Choice choice;
  float best = any_score ? 2.0f : good_score;
  for (uint32_t i = 0; i < count; ++i) {
    if (partitions[i].score >= best) continue;
    int term = applicable_term(partitions[i], filter, around);
    if (term < 0) continue;
    best = partitions[i].score;
    choice = {static_cast<int>(i), term};
  }
  return choice;
}

namespace detail {

struct Candidate {
  Way way;
  NameId name;
  TypeMask family;
  uint64_t hash;  // filters with the same share a child
  uint32_t filter;
  Term term;

  auto division() const { return std::tie(way, name, family); }
};

// The least share of events that a way is expected to let through, before any event was seen.
inline double least_share(Way way) {
  switch (way) {
    case Way::equal: return 0.02;
    case Way::prefix:
    case Way::suffix:
    case Way::contains: return 0.05;
    case Way::cell: return 0.1;
    case Way::lower:
    case Way::upper: return 0.5;
    case Way::name: return 0.7;
    default: return 0.9;
  }
}

inline bool is_used(const std::vector<Used>& used, const Candidate& candidate) {
  for (const Used& each : used) {
    if (each.way != candidate.way) continue;
    if (each.way == Way::name) return true;
    if (each.way == Way::group) continue;  // a group's predicate is settled below it
    if (each.name == candidate.name && each.family == candidate.family) return true;
  }
  return false;
}

inline void collect(const FilterTerms& filter, uint32_t number, const std::vector<Used>& used,
                    std::vector<Candidate>& into) {
  for (uint32_t i = 0; i < filter.count && i < marked_terms; ++i) {
    if (!filter.is_open(i)) continue;
    Term term = filter.term(i);
    for (size_t w = 0; w < ways; ++w) {
      Way way = static_cast<Way>(w);
      Key key;
      if (!way_key(way, term, key)) continue;
      Candidate candidate{way, term.predicate->name, 0, key.hash, number, term};
      if (way == Way::lower || way == Way::upper) candidate.family = family_of(*term.predicate);
      if (way == Way::name) candidate.name = 0;
      if (way == Way::group) candidate.hash = identity_of(term);
      if (!is_used(used, candidate)) into.push_back(candidate);
    }
  }
}

// The share of events that a filter of the candidates [begin, end) is visited by, if they are filed this way. Before
// events were seen it is assumed that their values are spread as the filters' are.
inline double share(const Candidate* begin, const Candidate* end, double filters, const Sample& sample) {
  double same = 0;
  for (const Candidate* at = begin; at != end;) {
    const Candidate* next = at;
    while (next != end && next->hash == at->hash) ++next;
    same += static_cast<double>((next - at) * (next - at));
    at = next;
  }
  double prior = std::max(least_share(begin->way), begin->way == Way::lower || begin->way == Way::upper
                                                       ? 0.0 : same / (filters * filters));
  size_t visits = 0, asked = 0;
  for (const Candidate* at = begin; at < end; at += std::max<std::ptrdiff_t>(1, (end - begin) / 8)) {
    visits += sample.visits(at->way, at->term);
    asked += sample.size();
  }
  double seen = asked == 0 ? prior : static_cast<double>(visits) / static_cast<double>(asked);
  double weight = static_cast<double>(sample.size()) / (static_cast<double>(sample.size()) + 8);
  return seen * weight + std::min(prior, 1.0) * (1 - weight);
}

}  // namespace detail

constexpr double worth_dividing = 0.92;

// The best division of the filters given, if one is worth it.
inline Division choose_division(const std::vector<FilterTerms>& filters, const std::vector<Used>& used,
                                const Sample& sample) {
  std::vector<detail::Candidate> all;
  for (uint32_t i = 0; i < filters.size(); ++i) detail::collect(filters[i], i, used, all);
  auto before = [](const detail::Candidate& left, const detail::Candidate& right) {
    return std::tuple(left.way, left.name, left.family, left.hash, left.filter) <
           std::tuple(right.way, right.name, right.family, right.hash, right.filter);
  };
  std::sort(all.begin(), all.end(), before);
  Division best;
  double most = 0;
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    // Groups are one predicate each; other divisions hold all the predicates they apply to.
    bool is_group = all[begin].way == Way::group;
    for (end = begin; end < all.size(); ++end) {
      if (all[end].division() != all[begin].division() || (is_group && all[end].hash != all[begin].hash)) break;
    }
    double count = static_cast<double>(end - begin);
    if (count < std::max<double>(4, static_cast<double>(filters.size()) / (is_group ? 4 : 8))) continue;
    double score = detail::share(&all[begin], &all[begin] + (end - begin), count, sample);
    if (score > worth_dividing) continue;
    // What few events visit comes first, even if it takes only some of the filters: the others get their turn later.
    double merit = std::sqrt(count) / std::max(score, 0.01);
    if (merit <= most) continue;
    most = merit;
    const detail::Candidate& first = all[begin];
    best = {true, first.way, first.name, first.family, static_cast<float>(score), first.term};
  }
  return best;
}

// -- entries -------------------------------------------------------------------------------------------------------------

// What a bucket says about a filter: its best open predicate in short, which spares most looks at the record.
inline Entry make_entry(Slot slot, const FilterTerms& filter) {
  Entry entry{slot, 0, {}};
  entry.hash = 0;
  Check check = Check::always;
  uint32_t open = 0, chosen = 0;
  int rank = -1;
  for (uint32_t i = 0; i < filter.count; ++i) {
    if (!filter.is_open(i)) continue;
    ++open;
    Test test = filter.predicates[i].test;
    int value = test == Test::text_eq ? 3 : test == Test::floats ? 2 : test == Test::number_ne || test == Test::text_ne ? 1 : 0;
    if (!filter.is_used(i)) value += 4;  // what the way to the bucket has used would seldom fail
    if (value > rank) {
      rank = value;
      chosen = i;
    }
  }
  bool is_only = open == 1;
  if (open != 0) {
    const Predicate& predicate = filter.predicates[chosen];
    check = Check::record;
    switch (predicate.test) {
      case Test::text_eq:
        check = Check::equal;
        entry.hash = predicate.literal.hash;
        break;
      case Test::floats: {
        entry.lo = static_cast<float>(predicate.floats.lo);
        entry.hi = static_cast<float>(predicate.floats.hi);
        bool exact = entry.lo == predicate.floats.lo && entry.hi == predicate.floats.hi;
        check = is_only && exact && predicate.types == number_types ? Check::number_exactly : Check::number;
        break;
      }
      case Test::number_ne:
        if (!is_only || predicate.types != number_types) break;
        check = Check::number_differs;
        entry.hash = number_key(predicate.number.bits, predicate.number.code).hash;
        break;
      case Test::text_ne:
        if (!is_only || predicate.types != mask_of(Type::string)) break;
        check = Check::string_differs;
        entry.hash = predicate.literal.hash;
        break;
      case Test::any:
        if (is_only && predicate.types == all_types) check = Check::present;
        break;
      case Test::absent:
        if (is_only) check = Check::missing;
        break;
      default: break;
    }
    entry.name_and_check = predicate.name;
  }
  entry.name_and_check |= static_cast<uint32_t>(check) << 24;
  return entry;
}

}  // namespace palio
