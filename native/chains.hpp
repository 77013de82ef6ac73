// Chains of chunks: the entries of buckets that nothing divides, and the digests by which many are decided together.
//
// Filters that nothing divides exclude few events: `any`, `absent`, `!=`. So a digest says which values are excluded, and
// by whom; all the others match and need not be looked at.
#pragma once

#include "divider.hpp"
#include "storage.hpp"

namespace palio {

// What a digest will say, before there is a place for it.
class DigestDraft {
 public:
  explicit DigestDraft(const Chunk& chunk) {
    for (uint32_t i = 0; i < chunk.count; ++i) {
      if (is_decidable(chunk.units[i])) {
        vote(chunk.units[i]);
      } else {
        unsure_ |= uint64_t{1} << i;
      }
    }
    for (uint32_t i = 0; i < count_; ++i) outlines_[i].fits = majority(votes_[i]);
    for (uint32_t i = 0; i < chunk.count; ++i) {
      if ((unsure_ >> i & 1) == 0) admit(chunk.units[i], i);
    }
    list_excluded(chunk);
  }

  // Whether it would decide at least half of the filters.
  bool is_worth_it(uint32_t filters) const {
    return 2 * static_cast<uint32_t>(__builtin_popcountll(unsure_)) <= filters;
  }

  size_t size() const { return Digest::size(count_, total_); }

  void write(Digest* into) const {
    *into = {count_, total_, unsure_, {}};
    char* begin = reinterpret_cast<char*>(into);
    std::memcpy(begin + sizeof(Digest), outlines_, count_ * sizeof(Outline));
    std::memcpy(begin + Digest::hashes_offset(count_), hashes_, total_ * sizeof(uint16_t));
    std::memcpy(begin + Digest::owners_offset(count_, total_), owners_, total_);
  }

 private:
  static constexpr uint32_t states = absent_state + 1;

  struct Votes {
    uint8_t filters = 0;
    uint8_t admitting[states] = {};
  };

  // Whether the units say all, and exactly, of types and excluded values alone, on names that there is room for. Ranges
  // are for partitions; where they are too few for one, they are tested. So are parts that texts must not have.
  bool is_decidable(const WideUnits& wide) const {
    uint32_t names = count_;
    for (const Unit& unit : wide.units) {
      if (!unit.is(Unit::exact) || unit.mode() == Unit::range || unit.mode() == Unit::lacks_grams) break;
      if (!says_nothing(unit) && find(unit.name(), names) == names && ++names > most_outlines) break;
      if (unit.is(Unit::complete)) return true;
    }
    return false;
  }

  static bool says_nothing(const Unit& unit) { return unit.all_fits() == Unit::everything; }

  template <class Visit>
  static void each_unit(const WideUnits& wide, Visit visit) {
    for (const Unit& unit : wide.units) {
      if (!says_nothing(unit)) visit(unit);
      if (unit.is(Unit::complete)) return;
    }
  }

  uint32_t find(NameId name, uint32_t otherwise) const {
    for (uint32_t i = 0; i < count_; ++i) {
      if (outlines_[i].name == name) return i;
    }
    return otherwise;
  }

  void vote(const WideUnits& wide) {
    each_unit(wide, [&](const Unit& unit) {
      uint32_t place = find(unit.name(), count_);
      if (place == count_) outlines_[count_++] = {unit.name(), 0, Unit::everything, 0, 0, 0};
      ++votes_[place].filters;
      for (uint32_t state = 0; state < states; ++state) votes_[place].admitting[state] += unit.fits(state);
    });
  }

  // The types, or absence, that most admit. The few that do not are tested: they must not make all others suspect.
  static uint8_t majority(const Votes& votes) {
    uint32_t fits = 0;
    for (uint32_t state = 0; state < states; ++state) fits |= (2u * votes.admitting[state] > votes.filters) << state;
    return static_cast<uint8_t>(fits);
  }

  void admit(const WideUnits& wide, uint32_t owner) {
    bool is_usual = true;
    each_unit(wide, [&](const Unit& unit) {
      is_usual &= (outlines_[find(unit.name(), 0)].fits & ~unit.all_fits()) == 0;
    });
    if (!is_usual) {
      unsure_ |= uint64_t{1} << owner;
      return;
    }
    each_unit(wide, [&](const Unit& unit) {
      uint32_t place = find(unit.name(), 0);
      outlines_[place].members |= uint64_t{1} << owner;
      outlines_[place].refuses &= static_cast<uint8_t>(~unit.all_fits());
      if (unit.excludes_value()) ++excluded_[place], ++total_;
    });
  }

  void list_excluded(const Chunk& chunk) {
    for (uint32_t i = 0, place = 0; i < count_; ++i) {
      outlines_[i].end = static_cast<uint8_t>(place);
      place += excluded_[i];
    }
    for (uint32_t owner = 0; owner < chunk.count; ++owner) {
      if ((unsure_ >> owner & 1) != 0) continue;
      each_unit(chunk.units[owner], [&](const Unit& unit) {
        if (!unit.excludes_value()) return;
        Outline& outline = outlines_[find(unit.name(), 0)];
        hashes_[outline.end] = Digest::short_hash(unit.hash());
        owners_[outline.end++] = static_cast<uint8_t>(owner);
      });
    }
  }

  uint32_t count_ = 0, total_ = 0;
  uint64_t unsure_ = 0;
  Outline outlines_[most_outlines];
  Votes votes_[most_outlines];
  uint32_t excluded_[most_outlines] = {};
  uint16_t hashes_[most_excluded];
  uint8_t owners_[most_excluded];
};

class Chains {
 public:
  explicit Chains(Storage& storage) : storage_(storage) {}

  // Puts a filter at the end of the node's chain and returns its chunk.
  Ref append(Ref node, Slot slot, const FilterTerms& filter) {
    WideUnits units = make_wide_units(filter);
    Ref last = storage_.at<Node>(node).chain;
    if (last == 0 || storage_.at<Chunk>(last).count == chunk_capacity) last = append_chunk(node);
    Chunk& chunk = storage_.at<Chunk>(last);
    uint32_t place = chunk.count++;
    chunk.slots[place] = slot;
    chunk.units[place] = units;
    note_change(last, place);
    return last;
  }

  // Takes the last filter of the node's chain out of it.
  Slot take_last(Ref node) {
    Ref last = storage_.at<Node>(node).chain;
    Chunk& chunk = storage_.at<Chunk>(last);
    Slot slot = chunk.slots[--chunk.count];
    if (chunk.count == 0) remove_last_chunk(node);
    return slot;
  }

  // Takes a filter out of its chunk; the last one of the chain fills the gap and is returned.
  Slot take(Ref ref, Slot slot) {
    Ref node = storage_.at<Chunk>(ref).owner;
    const Chunk& last = storage_.at<Chunk>(storage_.at<Node>(node).chain);
    Chunk& chunk = storage_.at<Chunk>(ref);
    uint32_t place = 0;
    while (chunk.slots[place] != slot) ++place;
    chunk.slots[place] = last.slots[last.count - 1];
    chunk.units[place] = last.units[last.count - 1];
    Slot filler = chunk.slots[place];
    note_change(ref, place);
    take_last(node);
    return filler;
  }

  // The youngest of them, in whole chunks, at most as many as asked for.
  void collect(Ref node, size_t most, std::vector<Slot>& into) {
    Ref last = storage_.at<Node>(node).chain;
    for (Ref ref = last; ref != 0 && into.size() + chunk_capacity <= most;) {
      const Chunk& chunk = storage_.at<Chunk>(ref);
      into.insert(into.end(), chunk.slots, chunk.slots + chunk.count);
      ref = chunk.previous;
      if (ref == last) break;
    }
  }

 private:
  Ref append_chunk(Ref node) {
    Ref last = storage_.at<Node>(node).chain;
    Ref ref = storage_.allocate(sizeof(Chunk));
    Chunk& chunk = storage_.at<Chunk>(ref);
    chunk.object = Object::chunk;
    chunk.owner = node;
    if (last == 0) {
      chunk.next = chunk.previous = ref;
    } else {
      Ref first = storage_.at<Chunk>(last).next;
      chunk.next = first;
      chunk.previous = last;
      storage_.at<Chunk>(last).next = ref;
      storage_.at<Chunk>(first).previous = ref;
    }
    storage_.at<Node>(node).chain = ref;
    return ref;
  }

  void remove_last_chunk(Ref node) {
    Ref last = storage_.at<Node>(node).chain;
    drop_digest(last);
    const Chunk& chunk = storage_.at<Chunk>(last);
    storage_.at<Chunk>(chunk.previous).next = chunk.next;
    storage_.at<Chunk>(chunk.next).previous = chunk.previous;
    storage_.at<Node>(node).chain = chunk.previous == last ? 0 : chunk.previous;
    storage_.release(last, sizeof(Chunk));
  }

  // -- digests -----------------------------------------------------------------------------------------------------------

  // Another filter came to the place, of which the digest, if there is one, knows nothing. What it says of the one that
  // was there does no harm: it can make others suspect, never clear them. After some changes it is made anew.
  void note_change(Ref ref, uint32_t place) {
    Chunk& chunk = storage_.at<Chunk>(ref);
    if (chunk.digest != 0) storage_.at<Digest>(chunk.digest).unsure |= uint64_t{1} << place;
    if (++chunk.changes < (chunk.digest != 0 ? changes_between_digests : changes_without_digest)) return;
    chunk.changes = 0;
    make_digest(ref);
  }

  // Without memory for it there is none, and the filters are tested one by one.
  void make_digest(Ref ref) {
    drop_digest(ref);
    const Chunk& chunk = storage_.at<Chunk>(ref);
    DigestDraft draft(chunk);
    if (!draft.is_worth_it(chunk.count)) return;
    try {
      storage_.prepare_more(draft.size());
    } catch (const std::bad_alloc&) {
      return;
    }
    Ref digest = storage_.allocate(draft.size());
    draft.write(&storage_.at<Digest>(digest));
    storage_.at<Chunk>(ref).digest = digest;
  }

  void drop_digest(Ref chunk) {
    Ref& ref = storage_.at<Chunk>(chunk).digest;
    if (ref == 0) return;
    const Digest& digest = storage_.at<Digest>(ref);
    storage_.release(ref, Digest::size(digest.outlines, digest.excluded));
    ref = 0;
  }

  static constexpr uint32_t changes_between_digests = 8;
  static constexpr uint32_t changes_without_digest = 16;  // before one is tried, or tried again

  Storage& storage_;
};

}  // namespace palio
