// A notification as the index sees it: attributes by the numbers of their names, with what matching needs prepared.
#pragma once

#include <cstdint>
#include <vector>

#include "value.hpp"

namespace palio {

using NameId = uint32_t;

struct Attribute {
  NameId name;
  Value value;
  Key key;
  double order;   // numbers, times and booleans rounded to a float: keeps the order, may merge neighbours
  float narrow;   // the same, rounded again
  bool is_narrow; // whether a number came through both roundings unchanged
};

inline Attribute make_attribute(NameId name, const Value& value, const Key& key) {
  Attribute attribute{name, value, key, 0, 0, false};
  if (!value.is_text()) {
    bool is_real = value.type == Type::real;
    attribute.order = is_real ? value.real : static_cast<double>(value.integer);
    attribute.narrow = static_cast<float>(attribute.order);
    bool small = attribute.order < two_to_53 && attribute.order > -two_to_53;
    attribute.is_narrow = small && static_cast<double>(attribute.narrow) == attribute.order;
  }
  return attribute;
}

// The attributes of one event whose names some filter mentions; found by name in constant time.
class Event {
 public:
  void clear() {
    for (const Attribute& attribute : attributes_) places_[attribute.name] = 0;
    attributes_.clear();
  }

  void add(NameId name, const Value& value, const Key& key) {
    if (name >= places_.size()) places_.resize(name + 1 + name / 2, 0);
    attributes_.push_back(make_attribute(name, value, key));
    places_[name] = static_cast<uint32_t>(attributes_.size());
  }

  void add(NameId name, const Value& value) { add(name, value, key_of(value)); }

  const Attribute* find(NameId name) const {
    if (name >= places_.size() || places_[name] == 0) return nullptr;
    return &attributes_[places_[name] - 1];
  }

  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  std::vector<Attribute> attributes_;
  std::vector<uint32_t> places_;  // by name: position in attributes_ plus one, or zero
};

}  // namespace palio
