// A linear scan: every filter is tested on every event, up to its first predicate that fails.
#pragma once

#include "common.hpp"

namespace palio::baselines {

class Linear {
 public:
  void add(const Compiled& compiled) {
    sorted_.assign(compiled.predicates.begin(), compiled.predicates.end());
    auto cheaper = [](const Predicate& a, const Predicate& b) { return cost(a) < cost(b); };
    std::stable_sort(sorted_.begin(), sorted_.end(), cheaper);
    if (sorted_.empty()) {
      Predicate always{};  // the absence of a name that nothing has
      always.name = no_name;
      always.test = Test::absent;
      firsts_.push_back(always);
    }
    for (size_t i = 0; i < sorted_.size(); ++i) {
      (i == 0 ? firsts_ : rests_).push_back(literals_.adopt(sorted_[i], compiled.bytes));
    }
    ends_.push_back(static_cast<uint32_t>(rests_.size()));
  }

  void build() { found_.resize(firsts_.size()); }

  void prepare(const Events&) {}

  void match(const Events& events, size_t first, size_t last, Output& output) {
    for (size_t row = first; row < last; ++row) {
      output.write(static_cast<int32_t>(row - first), found_, scan(events[row]));
    }
  }

  size_t size() const { return firsts_.size(); }
  size_t memory_usage() const {
    return bytes_of(firsts_) + bytes_of(rests_) + bytes_of(ends_) + literals_.memory_usage();
  }

 private:
  static int cost(const Predicate& predicate) {
    if (predicate.test == Test::text_eq || predicate.point != 0) return 0;  // fails most often
    if (predicate.test < Test::text_eq) return 1;
    return predicate.test == Test::contains || predicate.test == Test::not_contains ? 3 : 2;
  }

  bool meets(const Predicate& predicate) const {
    const Attribute* attribute = predicate.name < by_name_.size() ? by_name_[predicate.name] : nullptr;
    if (predicate.test == Test::text_eq && attribute != nullptr && attribute->key.hash != predicate.literal.hash) {
      return false;  // settled without a look at the texts
    }
    return holds(predicate, attribute, literals_.data());
  }

  size_t scan(const Event& event) {
    by_name_.assign(by_name_.size(), nullptr);
    for (const Attribute& attribute : event.attributes()) {
      if (attribute.name >= by_name_.size()) by_name_.resize(attribute.name + 1, nullptr);
      by_name_[attribute.name] = &attribute;
    }
    size_t count = 0;
    for (size_t id = 0; id < firsts_.size(); ++id) {
      if (!meets(firsts_[id])) continue;
      const Predicate* at = rests_.data() + (id == 0 ? 0 : ends_[id - 1]);
      const Predicate* end = rests_.data() + ends_[id];
      while (at != end && meets(*at)) ++at;
      found_[count] = static_cast<FilterId>(id);
      count += at == end;
    }
    return count;
  }

  std::vector<Predicate> firsts_;  // of each filter; apart from the others, because most filters fail it
  std::vector<Predicate> rests_;
  std::vector<uint32_t> ends_;  // of each filter in rests_
  Literals literals_;
  std::vector<Predicate> sorted_;
  std::vector<const Attribute*> by_name_;
  std::vector<FilterId> found_;
};

}  // namespace palio::baselines
