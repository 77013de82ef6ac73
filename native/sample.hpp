// A few recent events, by which the index judges how often a predicate holds.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "ways.hpp"

namespace palio {

class Sample {
 public:
  void observe(const Event& event) {
    Kept kept;
    kept.attributes = event.attributes();
    kept.texts.reserve(kept.attributes.size());  // no text may move once it is referred to
    size_t room = most_text;
    for (Attribute& attribute : kept.attributes) {
      if (!attribute.value.is_text()) continue;
      kept.texts.emplace_back(attribute.value.text.substr(0, room));  // a text cut short misleads a little, at worst
      attribute.value.text = kept.texts.back();
      attribute.key = {};  // it refers to the event's text, and only numbers are compared by it here
      room -= attribute.value.text.size();
    }
    auto before = [](const Attribute& left, const Attribute& right) { return left.name < right.name; };
    std::sort(kept.attributes.begin(), kept.attributes.end(), before);
    kept_[seen_++ % kept_.size()] = std::move(kept);
  }

  size_t size() const { return seen_ < kept_.size() ? seen_ : kept_.size(); }

  // How many of the events a filter is visited by, if it is filed by this predicate in this way.
  size_t visits(Way way, const Term& term) const {
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) {
      const Attribute* attribute = kept_[i].find(term.predicate->name);
      spent_ += attribute == nullptr || way == Way::name ? 8 : 8 + attribute->value.text.size();
      count += way == Way::name ? attribute != nullptr : holds_bound(way, term, attribute);
    }
    return count;
  }

  // Bytes that were looked at, all questions together.
  uint64_t spent() const { return spent_; }

 private:
  static constexpr size_t most_text = 8192;  // bytes of one event

  struct Kept {
    std::vector<Attribute> attributes;  // by name
    std::vector<std::string> texts;

    const Attribute* find(NameId name) const {
      auto before = [](const Attribute& left, NameId right) { return left.name < right; };
      auto found = std::lower_bound(attributes.begin(), attributes.end(), name, before);
      return found == attributes.end() || found->name != name ? nullptr : &*found;
    }
  };

  // A partition by one bound is blind to the other.
  static bool holds_bound(Way way, const Term& term, const Attribute* attribute) {
    FloatInterval interval;
    if ((way == Way::lower || way == Way::upper) && order_interval(term, interval)) {
      if (attribute == nullptr || attribute->value.is_text()) return false;
      return way == Way::lower ? attribute->order >= interval.lo : attribute->order <= interval.hi;
    }
    return holds(*term.predicate, attribute, term.bytes);
  }

  std::array<Kept, 32> kept_;
  size_t seen_ = 0;
  mutable uint64_t spent_ = 0;
};

}  // namespace palio
