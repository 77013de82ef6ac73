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
  const Hasher* hasher;

  Term term(size_t i) const { return {predicates + i, bytes, hasher}; }
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
  Term term{};        // of a group: the predicate that its filters share
  NameId second = 0;  // of a pair
};

// What the judgement asks the index about.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual Term group_term(Ref details) const = 0;
  virtual uint32_t uses(NameId name) const = 0;
};

// The open equality on the name, or -1.
inline int equality_term(const FilterTerms& filter, NameId name) {
  for (uint32_t i = 0; i < filter.count; ++i) {
    Key key;
    if (filter.predicates[i].name == name && filter.is_open(i) && equality_key(filter.term(i), key)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

// The predicate by which a partition would file the filter, or -1; the first one, if it takes two.
inline int applicable_term(const Partition& partition, const FilterTerms& filter, const Surroundings& around) {
  if (partition.way == Way::pair) {
    return equality_term(filter, partition.details) < 0 ? -1 : equality_term(filter, partition.name);
  }
  int best = -1;
  uint32_t rarest = ~0u;
  for (uint32_t i = 0; i < filter.count; ++i) {
    Term term = filter.term(i);
    const Predicate& predicate = *term.predicate;
    if (!filter.is_open(i)) continue;
    Key key;
    if (partition.way == Way::name) {
      if (predicate.test == Test::absent) continue;
      uint32_t uses = is_settled_by(Way::name, predicate) ? 0 : around.uses(predicate.name);
      if (uses < rarest) {
        rarest = uses;
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

// A partition that nearly all events visit is of no use, unless it spares its filters a test.
constexpr float worth_dividing = 0.92f;

inline bool settles(Way way) {
  return way == Way::equal || way == Way::prefix || way == Way::suffix || way == Way::group || way == Way::pair;
}

inline Choice choose_partition(const Partition* partitions, uint32_t count, const FilterTerms& filter,
                               const Surroundings& around, bool is_full = false) {
  Choice choice;
  float best = 0;
  for (uint32_t i = 0; i < count; ++i) {
    float score = partitions[i].score, most = !is_full ? good_score : settles(partitions[i].way) ? 2 : worth_dividing;
    // Among partitions that are much alike all filters take the first: an event then has fewer places to look at.
    if (choice.partition < 0 ? score >= most : 2 * score >= best) continue;
    int term = applicable_term(partitions[i], filter, around);
    if (term < 0) continue;
    best = score;
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

inline bool same_hash(const std::vector<detail::Candidate>& all, size_t begin, size_t end) {
  return all[begin].hash == all[end - 1].hash;  // they are sorted by it
}

// The least share of the sampled events by which the filter could be visited, by one of its predicates.
inline float best_share(const FilterTerms& filter, const Sample& sample) {
  size_t least = sample.size();
  for (uint32_t i = 0; i < filter.count && i < marked_terms; ++i) {
    for (size_t w = 0; w < ways; ++w) {
      Way way = static_cast<Way>(w);
      Key key;
      if (way != Way::group && way_key(way, filter.term(i), key)) least = std::min(least, sample.visits(way, filter.term(i)));
    }
  }
  return std::max(0.02f, static_cast<float>(least) / static_cast<float>(sample.size()));
}

// The best division of the filters given, if one is worth it.
inline Division choose_division(const std::vector<FilterTerms>& filters, const std::vector<Used>& used,
                                const Sample& sample, bool is_crowded = false) {
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
    bool is_group = all[begin].way == Way::group, is_name = all[begin].way == Way::name;
    for (end = begin; end < all.size(); ++end) {
      if (all[end].division() != all[begin].division() || (is_group && all[end].hash != all[begin].hash)) break;
    }
    double count = static_cast<double>(end - begin);
    if (is_crowded && !is_group && !is_name) continue;
    if (count < std::max<double>(4, static_cast<double>(filters.size()) / (is_group ? 4 : 8))) continue;
    double score = detail::share(&all[begin], &all[begin] + (end - begin), count, sample);
    // A predicate that most filters share is worth testing once for all of them, even if it nearly always holds.
    bool is_shared = same_hash(all, begin, end) && 2 * count >= static_cast<double>(filters.size()) &&
                     is_settled_by(all[begin].way, *all[begin].term.predicate);
    if (score > worth_dividing && !is_shared) continue;
    // What few events visit comes first, even if it takes only some of the filters: the others get their turn later.
    double merit = std::sqrt(count) / std::max(score, 0.01);
    if (merit <= most) continue;
    most = merit;
    const detail::Candidate& first = all[begin];
    best = {true, first.way, first.name, first.family, static_cast<float>(score), first.term, 0};
  }
  return best;
}

// The pairs of names by whose values most of the filters can be filed; none if there are too many such pairs, because an
// event has to look for all of them.
inline std::vector<std::pair<NameId, NameId>> choose_pairs(const std::vector<FilterTerms>& filters, size_t most) {
  std::vector<std::pair<NameId, NameId>> pairs;
  size_t filed = 0;
  for (const FilterTerms& filter : filters) {
    std::vector<NameId> names;
    for (uint32_t i = 0; i < filter.count && i < marked_terms; ++i) {
      NameId name = filter.predicates[i].name;
      bool is_new = std::find(names.begin(), names.end(), name) == names.end();
      if (is_new && equality_term(filter, name) == static_cast<int>(i)) names.push_back(name);
    }
    if (names.size() < 2) continue;
    ++filed;
    auto has = [&](NameId name) { return std::find(names.begin(), names.end(), name) != names.end(); };
    auto suits = [&](const auto& pair) { return has(pair.first) && has(pair.second); };
    if (std::any_of(pairs.begin(), pairs.end(), suits)) continue;
    pairs.push_back(std::minmax(names[0], names[1]));
    if (pairs.size() > most) return {};
  }
  if (4 * filed < 3 * filters.size()) pairs.clear();
  return pairs;
}

// -- entries -------------------------------------------------------------------------------------------------------------

namespace detail {

// How much a unit for the predicate would tell; what the way to the bucket has used would seldom fail.
inline int worth(const FilterTerms& filter, uint32_t i) {
  int worth;
  switch (filter.predicates[i].test) {
    case Test::text_eq: worth = 4; break;
    case Test::floats:
    case Test::prefix:
    case Test::suffix:
    case Test::contains: worth = 3; break;
    case Test::number_ne:
    case Test::integer_ne:
    case Test::text_ne:
    case Test::not_prefix:
    case Test::not_suffix:
    case Test::not_contains: worth = 2; break;
    case Test::any:
    case Test::absent: worth = 1; break;
    default: worth = 0;
  }
  return filter.is_used(i) ? worth : worth + 8;
}

inline Unit::Mode unequal_mode(const Predicate& predicate) {
  return predicate.test != Test::text_ne && predicate.number.code != real_code ? Unit::differs_whole : Unit::differs;
}

inline Unit unit_lacking(const Term& term) {
  const Predicate& predicate = *term.predicate;
  const bool is_empty = predicate.literal.size == 0;  // which every text has
  Unit unit = Unit::of(predicate.name, is_empty ? 0 : predicate.types, false, is_empty ? Unit::types_only : Unit::lacks);
  unit.head |= Unit::exact;
  if (is_empty) return unit;
  PartForm form = predicate.test == Test::not_prefix   ? PartForm::beginning
                  : predicate.test == Test::not_suffix ? PartForm::end
                                                       : PartForm::window;
  unit.set_part(Part::of(form, term.text(), *term.hasher));
  return unit;
}

inline Unit unit_of(const Term& term) {
  const Predicate& predicate = *term.predicate;
  Unit unit = Unit::of(predicate.name, predicate.types, false, Unit::types_only);
  switch (predicate.test) {
    case Test::text_eq:
      unit = Unit::of(predicate.name, predicate.types, false, Unit::equal);
      unit.set_hash(predicate.literal.hash);
      break;
    case Test::floats: {
      unit = Unit::of(predicate.name, predicate.types, false, Unit::range);
      float lo = static_cast<float>(predicate.floats.lo), hi = static_cast<float>(predicate.floats.hi);
      unit.set_range(lo, hi);
      if (lo == predicate.floats.lo && hi == predicate.floats.hi) unit.head |= Unit::exact;
      break;
    }
    case Test::number_ne:
    case Test::integer_ne:
    case Test::text_ne:
      unit = Unit::of(predicate.name, predicate.types, false, unequal_mode(predicate));
      unit.set_hash(predicate.test == Test::text_ne ? predicate.literal.hash
                                                    : term.hasher->number(predicate.number.bits, predicate.number.code));
      unit.head |= Unit::exact;
      break;
    case Test::prefix:
    case Test::suffix:
    case Test::contains:
      unit = Unit::of(predicate.name, predicate.types, false, Unit::grams);
      unit.set_hash(grams_of(term.text()));
      break;
    case Test::not_prefix:
    case Test::not_suffix:
    case Test::not_contains:
      unit = unit_lacking(term);
      break;
    case Test::any: unit.head |= Unit::exact; break;
    case Test::absent:
      unit = Unit::of(predicate.name, 0, true, Unit::types_only);
      unit.head |= Unit::exact;
      break;
    default: break;
  }
  return unit;
}

}  // namespace detail

// What a bucket says about a filter: its best open predicates in short, which spares most looks at the record.
template <size_t most>
void make_units(const FilterTerms& filter, Unit (&units)[most]) {
  size_t count = 0;
  uint32_t open = 0;
  int worths[most + 1];
  uint32_t chosen[most + 1];
  for (uint32_t i = 0; i < filter.count; ++i) {
    if (!filter.is_open(i)) continue;
    ++open;
    int worth = detail::worth(filter, i);
    size_t place = count;
    for (; place > 0 && worths[place - 1] < worth; --place) {
      worths[place] = worths[place - 1];
      chosen[place] = chosen[place - 1];
    }
    worths[place] = worth;
    chosen[place] = i;
    if (count < most) ++count;
  }
  for (size_t k = 0; k < most; ++k) {
    units[k] = k < count ? detail::unit_of(filter.term(chosen[k])) : Unit::always();
  }
  if (open <= most) units[open == 0 ? 0 : open - 1].head |= Unit::complete;
}

inline Entry make_entry(Slot slot, const FilterTerms& filter) {
  Unit units[1];
  make_units(filter, units);
  return {slot, units[0]};
}

inline WideUnits make_wide_units(const FilterTerms& filter) {
  WideUnits wide;
  make_units(filter, wide.units);
  return wide;
}

}  // namespace palio
