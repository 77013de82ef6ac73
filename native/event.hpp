// A notification as the index sees it: attributes by the numbers of their names, with what matching needs prepared.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "parts.hpp"

namespace palio {

using NameId = uint32_t;

struct Attribute {
  NameId name;
  Value value;
  Key key;
  double order;  // numbers, times and booleans rounded to a float: keeps the order, may merge neighbours
};

// A bit for the type of an attribute, or for its absence; no bit if there is a value that cannot be read, so that no test
// of types admits it.
using State = uint8_t;
constexpr uint32_t states = 7;  // that have a bit
constexpr State absent_state = 1u << 6, unreadable_state = 0;
constexpr State string_state = mask_of(Type::string);
static_assert((absent_state & all_types) == 0);

// What short tests need to know of a name.
struct Glance {
  uint64_t hash = 0;
  float narrow = std::numeric_limits<float>::quiet_NaN();  // a number rounded to 32 bits, which keeps the order
  uint32_t place = 0;                                      // of the attribute, plus one
  State state = absent_state;
  bool is_narrow = false;  // whether rounding has not changed the number
  bool is_whole = false;   // whether it is a whole number, of which the hash says all
  mutable bool has_grams = false;
  mutable uint32_t parts = 0;  // the place of a text's parts, plus one, once they were asked for
  mutable uint64_t grams = 0;  // likewise
};

// What is found in place of an attribute that cannot be read: a type that is in no mask of types, so no predicate holds.
inline constexpr Attribute unreadable_attribute{0, {static_cast<Type>(8), 0, 0, {}}, {}, 0};
static_assert(mask_of(unreadable_attribute.value.type) == 0);

// The attributes of one event whose names some filter mentions; found by name in constant time.
class Event {
 public:
  explicit Event(const Hasher& hasher = Hasher()) : hasher_(hasher) {}

  const Hasher& hasher() const { return hasher_; }

  void clear() {
    for (const Attribute& attribute : attributes_) glances_[attribute.name] = {};
    for (NameId name : unreadable_) glances_[name] = {};
    attributes_.clear();
    unreadable_.clear();
    used_parts_ = 0;
  }

  void add(NameId name, const Value& value, const Key& key) {
    make_room(name);
    attributes_.push_back({name, value, key, 0});
    Attribute& attribute = attributes_.back();
    Glance& glance = glances_[name];
    glance.hash = key.hash;
    glance.place = static_cast<uint32_t>(attributes_.size());
    glance.state = mask_of(value.type);
    if (value.is_text()) return;
    glance.is_whole = key.size != real_code;
    attribute.order = value.type == Type::real ? value.real : static_cast<double>(value.integer);
    if ((mask_of(value.type) & number_types) == 0) return;
    glance.narrow = static_cast<float>(attribute.order);
    bool small = attribute.order < two_to_53 && attribute.order > -two_to_53;
    glance.is_narrow = small && static_cast<double>(glance.narrow) == attribute.order;
  }

  void add(NameId name, const Value& value) { add(name, value, hasher_.key(value)); }

  // An attribute whose value cannot be read: it fails every predicate on it, that it is absent included.
  void add_unreadable(NameId name) {
    make_room(name);
    unreadable_.push_back(name);
    glances_[name].state = unreadable_state;
  }

  // The attribute as predicates see it: null if it is absent.
  const Attribute* find(NameId name) const {
    const Glance& glance = this->glance(name);
    if (glance.place != 0) return &attributes_[glance.place - 1];
    return glance.state == unreadable_state ? &unreadable_attribute : nullptr;
  }

  // The attribute if it has a value.
  const Attribute* find_value(NameId name) const {
    const Glance& glance = this->glance(name);
    return glance.place == 0 ? nullptr : &attributes_[glance.place - 1];
  }

  const Glance& glance(NameId name) const {
    size_t last = glances_.size() - 1;  // never taken by a name: stands for all that are absent
    return glances_[name < last ? name : last];
  }

  uint64_t grams(const Glance& glance) const {
    if (!glance.has_grams && glance.place != 0) {
      glance.grams = grams_of(attributes_[glance.place - 1].value.text);
      glance.has_grams = true;
    }
    return glance.grams;
  }

  // The marks by which so many parts can be looked for in a string, or null if it is too early to make them.
  const Marks* marks(const Glance& glance, PartForm form, const PartSizes& sizes, uint32_t asked) const {
    return parts_of(glance).marks(attributes_[glance.place - 1].value.text, form, sizes, asked, hasher_);
  }

  // Whether a string lacks the part, as far as can be told without looking at it.
  bool lacks(const Glance& glance, const Part& part) const {
    const Marks* found = marks(glance, part.form, PartSizes::of(part.size), 1);
    return found != nullptr && !(found->has(part.first) && found->has(part.last));
  }

  // Those that have a value.
  const std::vector<Attribute>& attributes() const { return attributes_; }

  size_t used_bytes() const {
    size_t bytes = attributes_.capacity() * sizeof(Attribute) + glances_.capacity() * sizeof(Glance) +
                   unreadable_.capacity() * sizeof(NameId);
    for (const TextParts& parts : parts_) bytes += parts.used_bytes();
    return bytes;
  }

 private:
  void make_room(NameId name) {
    if (name + 1 >= glances_.size()) glances_.resize(name + 2 + name / 2);
  }

  TextParts& parts_of(const Glance& glance) const {
    if (glance.parts == 0) {
      if (used_parts_ == parts_.size()) parts_.emplace_back();
      parts_[used_parts_].clear();
      glance.parts = static_cast<uint32_t>(++used_parts_);
    }
    return parts_[glance.parts - 1];
  }

  Hasher hasher_;
  std::vector<Attribute> attributes_;
  std::vector<NameId> unreadable_;
  std::vector<Glance> glances_ = std::vector<Glance>(1);  // by name
  mutable std::vector<TextParts> parts_;  // of which the first ones are in use
  mutable size_t used_parts_ = 0;
};

}  // namespace palio
