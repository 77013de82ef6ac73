// Predicates: the constraints of a filter in the form in which they are tested.
//
// The order constraints of a filter on one attribute become one interval. Numbers get an interval of floats whose ends
// are the least and the greatest float that the constraints admit. It decides integers too, after rounding them to
// floats, as long as both ends are below 2**53 or infinite; beyond that an interval of integers goes with it ("wide").
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "event.hpp"

namespace palio {

enum class Operator : uint8_t {
  eq, ne, lt, le, gt, ge, prefix, suffix, contains, not_prefix, not_suffix, not_contains, any, absent
};

struct Constraint {  // as the model has it
  NameId name;
  Operator op;
  TypeMask types;
  Value literal;
};

enum class Test : uint8_t {
  floats,        // lo <= value <= hi, as floats
  wide,          // the same with an interval of integers for integers
  integers,      // low <= value <= high, for times and booleans
  number_ne,     // value differs from a number
  integer_ne,    // the same for times and booleans
  text_eq, text_ne, text_lt, text_le, text_gt, text_ge,
  prefix, suffix, contains, not_prefix, not_suffix, not_contains,
  any, absent,
};

struct FloatInterval { double lo, hi; };
struct IntegerInterval { int64_t low, high; };
struct WideInterval { FloatInterval floats; IntegerInterval integers; };
struct Literal { uint32_t offset, size; uint64_t hash; };  // bytes behind the predicates of the same filter

// Plain data of a fixed size, stored as it is in indexes and files.
struct Predicate {
  NameId name;
  Test test;
  TypeMask types;
  uint16_t point;  // whether an interval holds a single value
  union {
    FloatInterval floats;
    IntegerInterval integers;
    Literal literal;  // of text, and of the wide interval
    struct { uint64_t bits; uint32_t code; uint32_t unused; } number;  // of number_ne and integer_ne: a key
  };
};
static_assert(sizeof(Predicate) == 24);

// -- intervals ---------------------------------------------------------------------------------------------------------

namespace detail {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t least_integer = std::numeric_limits<int64_t>::min();
constexpr int64_t greatest_integer = std::numeric_limits<int64_t>::max();
constexpr WideInterval everything{{-infinity, infinity}, {least_integer, greatest_integer}};
constexpr FloatInterval no_float{infinity, -infinity};
constexpr IntegerInterval no_integer{greatest_integer, least_integer};

inline double above(double real) { return std::nextafter(real, infinity); }
inline double below(double real) { return std::nextafter(real, -infinity); }

inline WideInterval select(Operator op, int64_t literal) {
  WideInterval result = everything;
  double nearest = static_cast<double>(literal);
  int side = compare(literal, nearest);  // where the literal lies, seen from the nearest float
  switch (op) {
    case Operator::eq:
      return {side == 0 ? FloatInterval{nearest, nearest} : no_float, {literal, literal}};
    case Operator::ge:
      return {{side > 0 ? above(nearest) : nearest, infinity}, {literal, greatest_integer}};
    case Operator::gt:
      result.floats.lo = side >= 0 ? above(nearest) : nearest;
      result.integers = literal == greatest_integer ? no_integer : IntegerInterval{literal + 1, greatest_integer};
      return result;
    case Operator::le:
      return {{-infinity, side < 0 ? below(nearest) : nearest}, {least_integer, literal}};
    default:  // lt
      result.floats.hi = side <= 0 ? below(nearest) : nearest;
      result.integers = literal == least_integer ? no_integer : IntegerInterval{least_integer, literal - 1};
      return result;
  }
}

inline WideInterval select(Operator op, double literal) {
  WideInterval result = everything;
  bool is_up = op == Operator::ge || op == Operator::gt;
  double whole = is_up ? std::ceil(literal) : std::floor(literal);
  bool strict = (op == Operator::gt || op == Operator::lt) && whole == literal;
  switch (op) {
    case Operator::eq: {
      int64_t integer;
      bool is_integer = as_integer(literal, integer);
      return {{literal, literal}, is_integer ? IntegerInterval{integer, integer} : no_integer};
    }
    case Operator::ge: result.floats.lo = literal; break;
    case Operator::gt: result.floats.lo = above(literal); break;
    case Operator::le: result.floats.hi = literal; break;
    default: result.floats.hi = below(literal); break;
  }
  if (is_up) {
    if (whole >= two_to_63) {
      result.integers = no_integer;
    } else if (whole >= -two_to_63) {
      result.integers.low = static_cast<int64_t>(whole) + (strict ? 1 : 0);  // floats end well before the integers do
    }
  } else {
    if (whole < -two_to_63 || (whole == -two_to_63 && strict)) {
      result.integers = no_integer;
    } else if (whole < two_to_63) {
      result.integers.high = static_cast<int64_t>(whole) - (strict ? 1 : 0);
    }
  }
  return result;
}

inline void intersect(WideInterval& into, const WideInterval& other) {
  into.floats = {std::max(into.floats.lo, other.floats.lo), std::min(into.floats.hi, other.floats.hi)};
  into.integers = {std::max(into.integers.low, other.integers.low), std::min(into.integers.high, other.integers.high)};
}

inline bool is_order(Operator op) { return op == Operator::eq || (op >= Operator::lt && op <= Operator::ge); }

// Whether rounding integers to floats never changes on which side of the end they lie.
inline bool decides_integers(double end) { return std::isinf(end) || (end < two_to_53 && end > -two_to_53); }

inline Test text_test(Operator op) {
  switch (op) {
    case Operator::eq: return Test::text_eq;
    case Operator::ne: return Test::text_ne;
    case Operator::lt: return Test::text_lt;
    case Operator::le: return Test::text_le;
    case Operator::gt: return Test::text_gt;
    case Operator::ge: return Test::text_ge;
    case Operator::prefix: return Test::prefix;
    case Operator::suffix: return Test::suffix;
    case Operator::contains: return Test::contains;
    case Operator::not_prefix: return Test::not_prefix;
    case Operator::not_suffix: return Test::not_suffix;
    case Operator::not_contains: return Test::not_contains;
    case Operator::any: return Test::any;
    default: return Test::absent;
  }
}

}  // namespace detail

inline bool has_literal(Test test) { return test >= Test::text_eq && test <= Test::not_contains; }

// -- compiling ---------------------------------------------------------------------------------------------------------

// The predicates of one filter and the bytes they refer to; kept by its user, so that compiling allocates rarely.
class Compiled {
 public:
  void compile(const std::vector<Constraint>& constraints, const Hasher& hasher) {
    predicates.clear();
    intervals_.clear();
    bytes.clear();
    for (const Constraint& constraint : constraints) add(constraint, hasher);
    for (size_t i = 0; i < intervals_.size(); ++i) settle(predicates[intervals_[i].place], intervals_[i]);
    hash_literals(hasher);  // not before: bytes may move while they grow
  }

  // Hashes depend on the index that a filter is for.
  void hash_literals(const Hasher& hasher) {
    for (Predicate& predicate : predicates) {
      if (has_literal(predicate.test)) {
        std::string_view text(bytes.data() + predicate.literal.offset, predicate.literal.size);
        predicate.literal.hash = text_key(text, predicate.types == mask_of(Type::bytes), hasher.text(text)).hash;
      }
    }
  }

  std::vector<Predicate> predicates;
  std::vector<char> bytes;

 private:
  struct Interval {
    size_t place;
    bool is_number;
    WideInterval interval;
  };

  void add(const Constraint& constraint, const Hasher& hasher) {
    bool is_text = (constraint.types & ~text_types) == 0;
    if (detail::is_order(constraint.op) && !is_text) return add_interval(constraint);
    Predicate predicate{};
    predicate.name = constraint.name;
    predicate.types = constraint.types;
    if (constraint.op == Operator::ne && !is_text) {
      predicate.test = (constraint.types & number_types) != 0 ? Test::number_ne : Test::integer_ne;
      Key key = hasher.key(constraint.literal);
      predicate.number = {key.bits, key.size, 0};
    } else {
      predicate.test = detail::text_test(constraint.op);
      if (has_literal(predicate.test)) predicate.literal = store(constraint.literal.text.data(), constraint.literal.text.size());
    }
    predicates.push_back(predicate);
  }

  void add_interval(const Constraint& constraint) {
    bool is_number = (constraint.types & number_types) != 0;
    WideInterval selected = constraint.literal.type == Type::real
                                ? detail::select(constraint.op, constraint.literal.real)
                                : detail::select(constraint.op, constraint.literal.integer);
    for (Interval& known : intervals_) {
      Predicate& predicate = predicates[known.place];
      bool same_family = known.is_number == is_number && (is_number || predicate.types == constraint.types);
      if (predicate.name == constraint.name && same_family) {
        predicate.types &= constraint.types;
        detail::intersect(known.interval, selected);
        return;
      }
    }
    Predicate predicate{};
    predicate.name = constraint.name;
    predicate.types = constraint.types;
    intervals_.push_back({predicates.size(), is_number, selected});
    predicates.push_back(predicate);
  }

  void settle(Predicate& predicate, const Interval& known) {
    const auto& [floats, integers] = known.interval;
    if (!known.is_number) {
      predicate.test = Test::integers;
      predicate.integers = integers;
      predicate.point = integers.low == integers.high;
    } else if (detail::decides_integers(floats.lo) && detail::decides_integers(floats.hi) &&
               (floats.lo <= floats.hi || integers.low > integers.high)) {  // 2**53 + 1 is no float, but an integer
      predicate.test = Test::floats;
      predicate.floats = floats;
      predicate.point = floats.lo == floats.hi;
    } else {
      predicate.test = Test::wide;
      predicate.literal = store(reinterpret_cast<const char*>(&known.interval), sizeof known.interval);
      bool one_integer = integers.low == integers.high, one_float = floats.lo == floats.hi;
      bool no_integer = integers.low > integers.high, no_float = floats.lo > floats.hi;
      predicate.point = (one_integer && no_float) || (no_integer && one_float) ||
                        (one_integer && one_float && compare(integers.low, floats.lo) == 0);
    }
    if (predicate.types == 0) predicate.point = 0;  // an integer that is a float: no value at all
  }

  Literal store(const char* data, size_t size) {
    Literal literal{static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(size), 0};
    bytes.insert(bytes.end(), data, data + size);
    return literal;
  }

  std::vector<Interval> intervals_;
};

// -- testing -----------------------------------------------------------------------------------------------------------

inline WideInterval wide_interval(const char* bytes) {
  WideInterval interval;
  std::memcpy(&interval, bytes, sizeof interval);
  return interval;
}

inline bool in(const FloatInterval& interval, double value) { return value >= interval.lo && value <= interval.hi; }
inline bool in(const IntegerInterval& interval, int64_t value) {
  return value >= interval.low && value <= interval.high;
}

inline bool starts_with(std::string_view text, std::string_view part) {
  return text.size() >= part.size() && text.substr(0, part.size()) == part;
}

inline bool ends_with(std::string_view text, std::string_view part) {
  return text.size() >= part.size() && text.substr(text.size() - part.size()) == part;
}

inline bool contains(std::string_view text, std::string_view part) {
  return part.empty() || (text.size() >= part.size() &&
                          memmem(text.data(), text.size(), part.data(), part.size()) != nullptr);
}

inline bool test_text(Test test, std::string_view text, std::string_view literal) {
  switch (test) {
    case Test::text_eq: return text == literal;
    case Test::text_ne: return text != literal;
    case Test::text_lt: return text < literal;
    case Test::text_le: return text <= literal;
    case Test::text_gt: return text > literal;
    case Test::text_ge: return text >= literal;
    case Test::prefix: return starts_with(text, literal);
    case Test::suffix: return ends_with(text, literal);
    case Test::contains: return contains(text, literal);
    case Test::not_prefix: return !starts_with(text, literal);
    case Test::not_suffix: return !ends_with(text, literal);
    case Test::not_contains: return !contains(text, literal);
    default: return false;
  }
}

// Whether the attribute (as Event::find has it) meets the predicate; bytes are those that its literal's offset counts from.
inline bool holds(const Predicate& predicate, const Attribute* attribute, const char* bytes) {
  if (predicate.test == Test::absent) return attribute == nullptr;
  if (attribute == nullptr || (mask_of(attribute->value.type) & predicate.types) == 0) return false;
  const Value& value = attribute->value;
  switch (predicate.test) {
    case Test::floats: return in(predicate.floats, attribute->order);
    case Test::wide: {
      WideInterval interval = wide_interval(bytes + predicate.literal.offset);
      return value.type == Type::integer ? in(interval.integers, value.integer) : in(interval.floats, value.real);
    }
    case Test::integers: return in(predicate.integers, value.integer);
    case Test::number_ne:
    case Test::integer_ne:
      return attribute->key.bits != predicate.number.bits || attribute->key.size != predicate.number.code;
    case Test::any: return true;
    default: break;
  }
  return test_text(predicate.test, value.text, {bytes + predicate.literal.offset, predicate.literal.size});
}

}  // namespace palio
