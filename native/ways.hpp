// The ways of dividing filters: which predicates each applies to, and under which key a predicate is filed.
//
//   equal              by value
//   cell               a bounded interval by the grid of cells about as wide as itself: it starts in one, and a value
//                      inside it lies in that cell or in one of the next two
//   lower, upper       one bound of an interval, in blocks sorted by the bound
//   prefix, suffix     by the text, one hash for each length in use
//   contains           by a window of the text, of one of a few lengths
//   name               by the name of an attribute that must be there
//   group              by one predicate that many filters share, tested once for all of them
//   pair               by the values of two attributes together
#pragma once

#include "layout.hpp"

namespace palio {

// Keys, or pairs of keys, are filed under their hash and the partition they belong to.
inline uint32_t filed_hash(uint32_t partition, uint64_t hash, uint64_t second = hash_a) {
  return static_cast<uint32_t>(mix(hash ^ partition, second) >> 32);
}

// A key, or a pair of them, under which a child is filed.
struct ChildKey {
  Key first, second;
  bool is_pair = false;

  const Key* other() const { return is_pair ? &second : nullptr; }
  uint32_t filed(uint32_t partition) const {
    return is_pair ? filed_hash(partition, first.hash, second.hash) : filed_hash(partition, first.hash);
  }
};

// -- cells ---------------------------------------------------------------------------------------------------------------

struct CellPlace {
  int32_t level;
  double cell;
};

constexpr int32_t least_level = -1000, greatest_level = 1000;

// Two to the power of minus level, exactly.
inline double cell_scale(int32_t level) {
  uint64_t bits = static_cast<uint64_t>(1023 - level) << 52;
  double scale;
  std::memcpy(&scale, &bits, 8);
  return scale;
}

// The cell in which the interval starts; false for intervals too wide to be worth a cell. A cell is at most as wide as
// the interval and more than half as wide, and its number stays far below 2**53, so that neighbours are exact.
inline bool cell_of(const FloatInterval& interval, CellPlace& place) {
  double width = interval.hi - interval.lo;
  double size = std::max(std::fabs(interval.lo), std::fabs(interval.hi));
  if (!(width >= 0) || std::isinf(width) || std::isinf(size)) return false;
  int32_t level = width > 0 ? std::ilogb(width) : least_level;
  if (size > 0) level = std::max(level, std::ilogb(size) - 50);
  level = std::max(level, least_level);
  if (level > greatest_level) return false;
  place = {level, std::floor(interval.lo * cell_scale(level))};
  return true;
}

constexpr int cells_reached = 3;

inline Key cell_key(int32_t level, double cell, const Hasher& hasher) {
  cell += 0.0;  // no negative zero
  uint32_t size = static_cast<uint32_t>(level);
  return {bits_of(cell), size, nullptr, hasher.word(bits_of(cell), size)};
}

// -- what predicates say -------------------------------------------------------------------------------------------------

// A predicate with the bytes that its literal's offset counts from, and how its index hashes.
struct Term {
  const Predicate* predicate;
  const char* bytes;
  const Hasher* hasher;

  std::string_view text() const { return {bytes + predicate->literal.offset, predicate->literal.size}; }
};

// The interval of an order predicate as floats; integers are rounded, which keeps their order.
inline bool order_interval(const Term& term, FloatInterval& interval) {
  const Predicate& predicate = *term.predicate;
  auto rounded = [](const IntegerInterval& integers) {
    double lo = integers.low == detail::least_integer ? -detail::infinity : static_cast<double>(integers.low);
    double hi = integers.high == detail::greatest_integer ? detail::infinity : static_cast<double>(integers.high);
    return FloatInterval{lo, hi};
  };
  switch (predicate.test) {
    case Test::floats: interval = predicate.floats; return true;
    case Test::integers: interval = rounded(predicate.integers); return true;
    case Test::wide: {
      WideInterval wide = wide_interval(term.bytes + predicate.literal.offset);
      interval = wide.floats;
      if (wide.integers.low <= wide.integers.high) {
        FloatInterval whole = rounded(wide.integers);
        interval = {std::min(interval.lo, whole.lo), std::max(interval.hi, whole.hi)};
      }
      return true;
    }
    default: return false;
  }
}

// Numbers, times, strings and bytes are ordered apart from one another; booleans have too few values to divide.
inline TypeMask family_of(const Predicate& predicate) {
  return (predicate.types & number_types) != 0 ? number_types : predicate.types;
}

// Whether a predicate that a partition has used needs no further test below it.
inline bool is_settled_by(Way way, const Predicate& predicate) {
  switch (way) {
    case Way::equal:
    case Way::pair: return predicate.types == family_of(predicate);
    case Way::prefix:
    case Way::suffix:
    case Way::group: return true;
    case Way::name: return predicate.test == Test::any && predicate.types == all_types;
    default: return false;
  }
}

// The key of the one value that the predicate admits.
inline bool equality_key(const Term& term, Key& key) {
  const Predicate& predicate = *term.predicate;
  switch (predicate.test) {
    case Test::text_eq:
      key = text_key(term.text(), predicate.types == mask_of(Type::bytes), 0);
      key.hash = predicate.literal.hash;
      return true;
    case Test::floats:
      if (!predicate.point) return false;
      key = term.hasher->key(Value::of_real(predicate.floats.lo));
      return true;
    case Test::integers:
      if (!predicate.point) return false;
      key = term.hasher->number_key(static_cast<uint64_t>(predicate.integers.low),
                                    predicate.types == mask_of(Type::boolean) ? boolean_code : time_code);
      return true;
    case Test::wide: {
      if (!predicate.point) return false;
      WideInterval wide = wide_interval(term.bytes + predicate.literal.offset);
      bool whole = wide.integers.low == wide.integers.high;
      key = term.hasher->key(whole ? Value::of_integer(wide.integers.low) : Value::of_real(wide.floats.lo));
      return true;
    }
    default: return false;
  }
}

// A bound on one side: a number, or a text.
struct Bound {
  double number = 0;
  std::string_view text;
};

inline bool bound_of(Way way, const Term& term, Bound& bound) {
  const Predicate& predicate = *term.predicate;
  FloatInterval interval;
  if (order_interval(term, interval)) {
    bound.number = way == Way::lower ? interval.lo : interval.hi;
    return !std::isinf(bound.number) && predicate.types != mask_of(Type::boolean);
  }
  bool is_lower = predicate.test == Test::text_gt || predicate.test == Test::text_ge;
  bool is_upper = predicate.test == Test::text_lt || predicate.test == Test::text_le;
  if (way == Way::lower ? !is_lower : !is_upper) return false;
  bound.text = term.text();
  return true;
}

// Whether the way applies to the predicate, and under which key (contains, lower, upper, group and pair choose their own).
inline bool way_key(Way way, const Term& term, Key& key) {
  const Predicate& predicate = *term.predicate;
  bool has_text = has_literal(predicate.test) && predicate.literal.size > 0;
  switch (way) {
    case Way::equal: return equality_key(term, key);
    case Way::cell: {
      FloatInterval interval;
      CellPlace place;
      if (predicate.types == mask_of(Type::boolean) || !order_interval(term, interval)) return false;
      if (!cell_of(interval, place)) return false;
      key = cell_key(place.level, place.cell, *term.hasher);
      return true;
    }
    case Way::lower:
    case Way::upper: {
      Bound bound;
      return bound_of(way, term, bound);
    }
    case Way::prefix:
      if (predicate.test != Test::prefix || !has_text) return false;
      key = term.hasher->part_key(term.text());
      return true;
    case Way::suffix:
      if (predicate.test != Test::suffix || !has_text) return false;
      key = term.hasher->part_key_backwards(term.text());
      return true;
    case Way::contains: {
      if (predicate.test != Test::contains || !has_text) return false;
      std::string_view window = term.text().substr(0, window_length(predicate.literal.size));
      key = term.hasher->part_key(window);
      return true;
    }
    case Way::name:
      key = term.hasher->number_key(predicate.name, whole_code);
      return predicate.test != Test::absent;
    case Way::group: return true;
    case Way::pair: return false;  // it takes two predicates
  }
  return false;
}

// Tells predicates apart that say different things; for equal ones it is equal.
inline uint64_t identity_of(const Term& term) {
  const Predicate& predicate = *term.predicate;
  uint64_t head = predicate.name | static_cast<uint64_t>(predicate.test) << 32 |
                  static_cast<uint64_t>(predicate.types) << 40;
  uint64_t body;
  if (has_literal(predicate.test)) {
    body = predicate.literal.hash ^ predicate.literal.size;
  } else if (predicate.test == Test::wide) {
    body = term.hasher->text(term.text());
  } else if (predicate.test == Test::any || predicate.test == Test::absent) {
    body = 0;
  } else {
    body = term.hasher->word(predicate.integers.low, static_cast<uint64_t>(predicate.integers.high));
  }
  return term.hasher->word(head, body);
}

inline bool same_predicate(const Term& left, const Term& right) {
  const Predicate &a = *left.predicate, &b = *right.predicate;
  if (a.name != b.name || a.test != b.test || a.types != b.types) return false;
  if (has_literal(a.test) || a.test == Test::wide) return left.text() == right.text();
  if (a.test == Test::any || a.test == Test::absent) return true;
  return std::memcmp(&a.floats, &b.floats, sizeof a.floats) == 0;
}

}  // namespace palio
