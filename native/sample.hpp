// A few recent events, by which the index judges how often a predicate holds.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "ways.hpp"

namespace palio {

class Sample {
 public:
  void observe(const Event& event) {
    Kept& kept = kept_[seen_++ % kept_.size()];
    kept.event.clear();
    kept.texts.clear();
    kept.texts.reserve(event.attributes().size());  // no text may move once it is referred to
    size_t room = most_text;
    for (const Attribute& attribute : event.attributes()) {
      Value value = attribute.value;
      Key key = attribute.key;
      if (value.is_text()) {
        kept.texts.emplace_back(value.text.substr(0, room));  // a text cut short misleads a little, at worst
        value.text = kept.texts.back();
        room -= value.text.size();
        key = key_of(value);
      }
      kept.event.add(attribute.name, value, key);
    }
  }

  size_t size() const { return seen_ < kept_.size() ? seen_ : kept_.size(); }

  // How many of the events a filter is visited by, if it is filed by this predicate in this way.
  size_t visits(Way way, const Term& term) const {
    size_t count = 0;
    for (size_t i = 0; i < size(); ++i) {
      const Attribute* attribute = kept_[i].event.find(term.predicate->name);
      count += way == Way::name ? attribute != nullptr : holds_bound(way, term, attribute);
    }
    return count;
  }

 private:
  static constexpr size_t most_text = 65536;  // bytes of one event

  struct Kept {
    Event event;
    std::vector<std::string> texts;
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
};

}  // namespace palio
