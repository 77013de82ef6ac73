// A notification as the index sees it: attributes by the numbers of their names, with what matching needs prepared.
#pragma once

#include <cstdint>
#include <vector>

#include "value.hpp"

namespace palio {

using NameId = uint32_t;

struct Attribute {
  NameId name;
  bool is_narrow;  // whether a number came through both roundings below unchanged
  Value value;
  Key key;
  double order;  // numbers, times and booleans rounded to a float: keeps the order, may merge neighbours
};

// The attributes of one event whose names some filter mentions; found by name in constant time.
class Event {
 public:
  void clear() {
    for (const Attribute& attribute : attributes_) by_name_[attribute.name] = {};
    attributes_.clear();
  }

  void add(NameId name, const Value& value, const Key& key) {
    if (name >= by_name_.size()) by_name_.resize(name + 1 + name / 2);
    attributes_.push_back({name, false, value, key, 0});
    Attribute& attribute = attributes_.back();
    ByName& entry = by_name_[name];
    entry.place = static_cast<uint32_t>(attributes_.size());
    if (value.is_text()) return;
    attribute.order = value.type == Type::real ? value.real : static_cast<double>(value.integer);
    if ((mask_of(value.type) & number_types) == 0) return;
    entry.narrow = static_cast<float>(attribute.order);
    bool small = attribute.order < two_to_53 && attribute.order > -two_to_53;
    attribute.is_narrow = small && static_cast<double>(entry.narrow) == attribute.order;
  }

  void add(NameId name, const Value& value) { add(name, value, key_of(value)); }

  const Attribute* find(NameId name) const {
    if (name >= by_name_.size() || by_name_[name].place == 0) return nullptr;
    return &attributes_[by_name_[name].place - 1];
  }

  // A number rounded to 32 bits, which keeps the order; not a number if there is none.
  float narrow(NameId name) const { return name < by_name_.size() ? by_name_[name].narrow : nothing; }

  const std::vector<Attribute>& attributes() const { return attributes_; }

 private:
  static constexpr float nothing = std::numeric_limits<float>::quiet_NaN();

  struct ByName {
    float narrow = nothing;
    uint32_t place = 0;  // in attributes_, plus one
  };

  std::vector<Attribute> attributes_;
  std::vector<ByName> by_name_;
};

}  // namespace palio
