// The filters of an index read back from it, so that they can be added to another one.
#pragma once

#include <string>
#include <vector>

#include "index.hpp"

namespace palio {

class FilterSource {
 public:
  explicit FilterSource(const View& view) : view_(view) {
    uint64_t steps = view.arena_size / sizeof(Bucket) + 1;
    for (uint64_t place = 0; place < view.table.buckets; ++place) {
      for (const Bucket* bucket = &view.buckets[place];; bucket = &view.at<Bucket>(bucket->overflow)) {
        for (uint32_t i = 0; i < bucket->count && i < 7; ++i) note_name(bucket->refs[i]);
        if (bucket->overflow == 0) break;
        if (steps-- == 0) View::damaged();
      }
    }
  }

  // Where filters are, in the order of their ids.
  std::vector<Slot> slots() const {
    std::vector<Slot> slots;
    for (uint64_t slot = 0; slot < view_.slots; ++slot) {
      if (view_.places[slot].record != 0) slots.push_back(static_cast<Slot>(slot));
    }
    auto generation = [&](Slot slot) { return view_.places[slot].generation; };
    std::stable_sort(slots.begin(), slots.end(), [&](Slot a, Slot b) { return generation(a) < generation(b); });
    return slots;
  }

  // The filter in a slot that is taken; names have the numbers that they have there.
  void read(Slot slot, Compiled& filter) const {
    const Ref ref = view_.places[slot].record;
    const Record record = view_.at<Record>(ref);
    const Predicate* predicates = view_.items<Record, Predicate>(ref, record.count);
    const uint8_t* bytes = view_.bytes(ref, sizeof(Record) + record.count * sizeof(Predicate), record.bytes);
    filter.predicates.assign(predicates, predicates + record.count);
    filter.bytes.assign(bytes, bytes + record.bytes);
    for (const Predicate& predicate : filter.predicates) check(predicate, record.bytes);
  }

  // Adds a filter that was read to another index, where names have other numbers and hashes another seed.
  Index::Id add_to(Index& index, Compiled& filter) const {
    size_t named = 0;
    try {
      for (; named < filter.predicates.size(); ++named) {
        Predicate& predicate = filter.predicates[named];
        predicate.name = index.name_id(name(predicate.name));
      }
      filter.hash_literals(index.view().hasher);
      return index.add(filter);
    } catch (...) {
      for (size_t i = 0; i < named; ++i) index.forget_unused_name(filter.predicates[i].name);
      throw;
    }
  }

  std::string_view name(NameId id) const {
    if (id >= names_.size() || names_[id].data() == nullptr) View::damaged();
    return names_[id];
  }

 private:
  void note_name(Ref ref) {
    const NameObject& object = view_.at<NameObject>(ref);
    if (object.object != Object::name) return;
    const NameId id = object.id;
    const uint32_t size = object.size;
    if (id >= most_names) View::damaged();
    if (id >= names_.size()) names_.resize(id + 1);
    names_[id] = {reinterpret_cast<const char*>(view_.bytes(ref, sizeof(NameObject), size)), size};
  }

  // Whether it could be one that we have written.
  static void check(const Predicate& predicate, uint64_t bytes) {
    View::check_literal(predicate, bytes);
    bool is_sound = (predicate.types & ~all_types) == 0;
    if (predicate.test == Test::floats) is_sound &= !std::isnan(predicate.floats.lo) && !std::isnan(predicate.floats.hi);
    if (!is_sound) View::damaged();
  }

  View view_;
  std::vector<std::string_view> names_;
};

}  // namespace palio
