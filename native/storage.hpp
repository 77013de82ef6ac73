// The memory of an index that can be changed: the arena, the table of hashes, the directory of filters, the names.
#pragma once

#include <array>
#include <vector>

#include "layout.hpp"
#include "region.hpp"

namespace palio {

class Storage {
 public:
  explicit Storage(const Hasher& hasher) : hasher_(hasher) {
    arena_.resize(granule);  // the first granule stays unused, so that zero can mean none
    table_.resize(sizeof(Bucket));
    shape_.buckets = 1;
  }

  View view() const {
    View view(hasher_);
    view.arena = arena_.data();
    view.arena_size = arena_.size();
    view.buckets = reinterpret_cast<const Bucket*>(table_.data());
    view.table = shape_;
    view.places = reinterpret_cast<const Place*>(directory_.data());
    view.slots = directory_.size() / sizeof(Place);
    return view;
  }

  size_t used_bytes() const {
    size_t heap = (free_slots_.capacity() + free_names_.capacity() + names_.capacity()) * sizeof(uint32_t);
    return arena_.size() + table_.size() + directory_.size() + heap;
  }

  // Makes room for an update, so that it fails before it begins rather than half-way: for what is named, and for putting
  // filters into buckets, be it the thousand that an update moves (a few hundred bytes each). Memory that is not used yet
  // costs addresses only.
  void prepare(size_t size) {
    size_t needed = arena_.size() + size + most_of_an_update;
    if (needed > most_bytes) throw CapacityFailure("index_bytes", most_bytes, needed, "bytes in one index");
    arena_.reserve(needed);
    table_.reserve(table_.size() + most_of_an_update);
    directory_.reserve(directory_.size() + sizeof(Place));
  }

  // The same in the middle of an update, for something that it can do without.
  void prepare_more(size_t size) {
    size_t needed = arena_.size() + size + most_of_an_update;
    if (needed > most_bytes) throw std::bad_alloc();
    arena_.reserve(needed);
  }

  // -- the arena ---------------------------------------------------------------------------------------------------------

  template <class T>
  T& at(Ref ref) {
    return *reinterpret_cast<T*>(arena_.data() + ref * granule);
  }

  template <class Head, class Item>
  Item* items(Ref ref) {
    return reinterpret_cast<Item*>(arena_.data() + ref * granule + sizeof(Head));
  }

  // Zeroed memory. References made before stay good, addresses do not.
  Ref allocate(size_t size) {
    auto [granules, kind] = size_class(size);
    Ref ref = free_[kind];
    if (ref != 0) {
      free_[kind] = at<Ref>(ref);
      at<Ref>(ref) = 0;
      return ref;
    }
    size_t end = arena_.size() / granule;
    if (end + granules > 0xFFFFFFFF) throw CapacityFailure("index_bytes", most_bytes, most_bytes, "bytes in one index");
    arena_.resize((end + granules) * granule);
    return static_cast<Ref>(end);
  }

  // Cleared at once, so that nothing of a filter that went is left in files.
  void release(Ref ref, size_t size) {
    auto [granules, kind] = size_class(size);
    std::memset(arena_.data() + ref * granule, 0, granules * granule);
    at<Ref>(ref) = free_[kind];
    free_[kind] = ref;
  }

  // -- lists that grow: a head with count and capacity, then items -----------------------------------------------------------

  template <class Head, class Item>
  Ref insert_item(Ref list, size_t place, const Item& item) {
    if (list == 0 || at<Head>(list).count == at<Head>(list).capacity) list = grow_list<Head, Item>(list);
    Head& head = at<Head>(list);
    Item* all = items<Head, Item>(list);
    std::memmove(all + place + 1, all + place, (head.count - place) * sizeof(Item));
    all[place] = item;
    ++head.count;
    return list;
  }

  template <class Head, class Item>
  void erase_item(Ref list, size_t place) {
    Head& head = at<Head>(list);
    Item* all = items<Head, Item>(list);
    std::memmove(all + place, all + place + 1, (head.count - place - 1) * sizeof(Item));
    --head.count;
  }

  template <class Head, class Item>
  void release_list(Ref list) {
    release(list, sizeof(Head) + at<Head>(list).capacity * sizeof(Item));
  }

  // -- the table: linear hashing, which grows by one bucket at a time ----------------------------------------------------------

  void file(uint32_t hash, Ref ref) {
    put(bucket(shape_.place(hash)), hash, ref);
    if (++shape_.items > shape_.buckets * 5) split_bucket();
  }

  void unfile(uint32_t hash, Ref ref) {
    Bucket* first = bucket(shape_.place(hash));
    Bucket* last = first;
    while (last->overflow != 0) last = &at<Bucket>(last->overflow);
    for (Bucket* bucket = first;; bucket = &at<Bucket>(bucket->overflow)) {
      for (uint32_t i = 0; i < bucket->count; ++i) {
        if (bucket->hashes[i] != hash || bucket->refs[i] != ref) continue;
        --last->count;
        bucket->hashes[i] = last->hashes[last->count];
        bucket->refs[i] = last->refs[last->count];
        last->hashes[last->count] = last->refs[last->count] = 0;
        if (last->count == 0 && last != first) drop_last(first);
        --shape_.items;
        return;
      }
    }
  }

  void refile(uint32_t hash, Ref old, Ref ref) {
    for (Bucket* bucket = this->bucket(shape_.place(hash));; bucket = &at<Bucket>(bucket->overflow)) {
      for (uint32_t i = 0; i < bucket->count; ++i) {
        if (bucket->hashes[i] == hash && bucket->refs[i] == old) {
          bucket->refs[i] = ref;
          return;
        }
      }
    }
  }

  // -- filters -----------------------------------------------------------------------------------------------------------

  Place& place(Slot slot) { return reinterpret_cast<Place*>(directory_.data())[slot]; }
  uint64_t slots() const { return directory_.size() / sizeof(Place); }

  Slot take_slot() {
    if (!free_slots_.empty()) {
      Slot slot = free_slots_.back();
      free_slots_.pop_back();
      return slot;
    }
    if (slots() >= most_slots) throw CapacityFailure("filters", most_slots, slots() + 1, "filters in one index");
    directory_.resize(directory_.size() + sizeof(Place));
    return static_cast<Slot>(slots() - 1);
  }

  // The slot may be used again, for another filter and with another generation.
  void give_slot(Slot slot) {
    place(slot).record = 0;
    if (++place(slot).generation < most_generation) remember(free_slots_, slot);
  }

  // -- names -------------------------------------------------------------------------------------------------------------

  // The number of a name, which stays its number as long as it is retained.
  NameId name_id(std::string_view name) {
    Ref ref = 0;
    if (view().find_name(name, &ref) == nullptr) ref = make_name(name);
    return at<NameObject>(ref).id;
  }

  uint32_t name_uses(NameId id) const { return view().at<NameObject>(names_[id]).uses; }
  void retain_name(NameId id) { ++at<NameObject>(names_[id]).uses; }

  void give_name(NameId id) {
    --at<NameObject>(names_[id]).uses;
    forget_unused_name(id);
  }

  void forget_unused_name(NameId id) {
    Ref ref = names_[id];
    if (ref == 0 || at<NameObject>(ref).uses != 0) return;
    NameObject& object = at<NameObject>(ref);
    std::string_view name(items<NameObject, char>(ref), object.size);
    unfile(View::name_hash(name, hasher_), ref);
    names_[id] = 0;
    --name_count_;
    remember(free_names_, id);
    release(ref, sizeof(NameObject) + object.size);
  }

  size_t names() const { return name_count_; }
  const Hasher& hasher() const { return hasher_; }
  const Region& arena() const { return arena_; }
  const Region& table() const { return table_; }
  const Region& directory() const { return directory_; }

 private:
  static constexpr uint64_t most_slots = 0xFFFFFFF0;
  static constexpr size_t most_bytes = 0xFFFFFFFF * granule;  // what references reach
  static constexpr size_t most_of_an_update = size_t{1} << 21;

  // Granules for a size, and the number of its list of free pieces: exact up to a kibibyte, then four steps an octave.
  static std::pair<size_t, size_t> size_class(size_t size) {
    size_t granules = (size + granule - 1) / granule;
    if (granules <= 64) return {granules, granules};
    unsigned octave = 63 - static_cast<unsigned>(__builtin_clzll(granules - 1));
    size_t step = size_t{1} << (octave - 2);
    size_t rounded = (granules + step - 1) / step * step;
    size_t quarter = (rounded - (size_t{1} << octave)) / step;
    return {rounded, 64 + (octave - 6) * 4 + quarter};
  }

  // What there is no memory to remember is not used again, which does no harm.
  static void remember(std::vector<uint32_t>& numbers, uint32_t number) {
    try {
      numbers.push_back(number);
    } catch (const std::bad_alloc&) {
    }
  }

  template <class Head, class Item>
  Ref grow_list(Ref list) {
    uint32_t count = list == 0 ? 0 : at<Head>(list).count;
    uint32_t capacity = count == 0 ? 2 : count + count / 2 + 1;
    Ref grown = allocate(sizeof(Head) + capacity * sizeof(Item));
    if (list != 0) {
      std::memcpy(items<Head, Item>(grown), items<Head, Item>(list), count * sizeof(Item));
      release_list<Head, Item>(list);
    }
    at<Head>(grown).count = count;
    at<Head>(grown).capacity = capacity;
    return grown;
  }

  Bucket* bucket(uint64_t place) { return reinterpret_cast<Bucket*>(table_.data()) + place; }

  void put(Bucket* first, uint32_t hash, Ref ref) {
    Bucket* bucket = first;
    while (bucket->count == 7 && bucket->overflow != 0) bucket = &at<Bucket>(bucket->overflow);
    if (bucket->count == 7) {
      bool in_table = bucket == first;
      uint64_t place = static_cast<uint64_t>(first - this->bucket(0));
      Ref previous = in_table ? 0 : ref_of(bucket);
      Ref more = allocate(sizeof(Bucket));
      bucket = in_table ? this->bucket(place) : &at<Bucket>(previous);
      bucket->overflow = more;
      bucket = &at<Bucket>(more);
    }
    bucket->hashes[bucket->count] = hash;
    bucket->refs[bucket->count] = ref;
    ++bucket->count;
  }

  Ref ref_of(const void* object) const {
    return static_cast<Ref>((static_cast<const uint8_t*>(object) - arena_.data()) / granule);
  }

  void drop_last(Bucket* first) {
    Bucket* bucket = first;
    while (at<Bucket>(bucket->overflow).overflow != 0) bucket = &at<Bucket>(bucket->overflow);
    release(bucket->overflow, sizeof(Bucket));
    bucket->overflow = 0;
  }

  void split_bucket() {
    uint64_t mask = shape_.buckets > shape_.mask ? 2 * shape_.mask + 1 : shape_.mask;
    uint64_t splitting = shape_.buckets & mask >> 1;
    if (!collect(splitting)) return;  // no memory to do it now: the table is a little fuller than it should be
    shape_.mask = mask;
    table_.resize(table_.size() + sizeof(Bucket));
    ++shape_.buckets;
    while (bucket(splitting)->overflow != 0) drop_last(bucket(splitting));
    *bucket(splitting) = Bucket{};
    for (const auto& [hash, ref] : moving_) put(bucket(shape_.place(hash)), hash, ref);
  }

  bool collect(uint64_t place) {
    moving_.clear();
    try {
      for (const Bucket* at_bucket = bucket(place);; at_bucket = &at<Bucket>(at_bucket->overflow)) {
        for (uint32_t i = 0; i < at_bucket->count; ++i) moving_.push_back({at_bucket->hashes[i], at_bucket->refs[i]});
        if (at_bucket->overflow == 0) return true;
      }
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  Ref make_name(std::string_view name) {
    if (free_names_.empty() && names_.size() >= most_names) {
      throw CapacityFailure("names", most_names, names_.size() + 1, "attribute names in one index");
    }
    bool is_new = free_names_.empty();
    if (is_new) names_.push_back(0);
    Ref ref = allocate(sizeof(NameObject) + name.size());
    NameObject& object = at<NameObject>(ref);
    object.object = Object::name;
    object.id = is_new ? static_cast<NameId>(names_.size() - 1) : free_names_.back();
    object.size = static_cast<uint32_t>(name.size());
    std::memcpy(items<NameObject, char>(ref), name.data(), name.size());
    names_[object.id] = ref;
    if (!is_new) free_names_.pop_back();
    ++name_count_;
    file(View::name_hash(name, hasher_), ref);
    return ref;
  }

  Hasher hasher_;
  Region arena_, table_, directory_;
  TableShape shape_;
  std::array<Ref, 64 + 4 * 28> free_{};
  std::vector<Slot> free_slots_;
  std::vector<Ref> names_;  // by number
  std::vector<NameId> free_names_;
  size_t name_count_ = 0;
  std::vector<std::pair<uint32_t, Ref>> moving_;
};

}  // namespace palio
