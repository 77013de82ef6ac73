// Digests of chunks: how many filters that nothing divides are decided together.
//
// Such filters exclude few events: `any`, `absent`, `!=`, `!>*`, `!*<`, `!*`. So a digest says which types, values and parts
// of texts are excluded, and by whom. Those whose excluded value an event may have are suspect and have to be tested; all
// others match and need not be looked at.
#pragma once

#include "layout.hpp"

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

  size_t size() const { return head().size(); }

  void write(Digest* into) const {
    *into = head();
    char* begin = reinterpret_cast<char*>(into);
    std::memcpy(begin + sizeof(Digest), outlines_, count_ * sizeof(Outline));
    std::memcpy(begin + into->parts_offset(), parts_, part_count_ * sizeof(PartOutline));
    std::memcpy(begin + into->hashes_offset(), hashes_, total_ * sizeof(uint16_t));
    std::memcpy(begin + into->owners_offset(), owners_, total_);
  }

 private:
  struct Votes {
    uint8_t filters = 0;
    uint8_t admitting[states] = {};
  };

  // Of the windows in one outline, some ranges of hashes that occur: windows that are all alike tell little.
  struct Spread {
    uint64_t first = 0, last = 0;
  };

  Digest head() const { return {count_, part_count_, total_, 0, unsure_, 0}; }

  // Whether the units say all, and exactly, of types and of what is excluded alone, and there is room for it. Ranges are
  // for partitions; where they are too few for one, they are tested.
  bool is_decidable(const WideUnits& wide) const {
    uint32_t names = count_, parts = part_count_;
    for (const Unit& unit : wide.units) {
      if (!unit.is(Unit::exact) || unit.mode() == Unit::range) break;
      if (!says_nothing(unit) && find(unit.name()) == count_ && ++names > most_outlines) break;
      if (unit.mode() == Unit::lacks && find_part(unit) == part_count_ && ++parts > most_outlines) break;
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

  // The outline of the name, or the number of outlines.
  uint32_t find(NameId name) const {
    uint32_t i = 0;
    while (i < count_ && outlines_[i].name != name) ++i;
    return i;
  }

  uint32_t find_part(const Unit& unit) const {
    const Part part = unit.part();
    for (uint32_t i = 0; i < part_count_; ++i) {
      const PartOutline& known = parts_[i];
      if (known.name != unit.name() || known.form != part.form) continue;
      if (part.form != PartForm::window || known.sizes.longest == part.size) return i;
    }
    return part_count_;
  }

  void vote(const WideUnits& wide) {
    each_unit(wide, [&](const Unit& unit) {
      uint32_t place = find(unit.name());
      if (place == count_) outlines_[count_++] = {unit.name(), 0, Unit::everything, 0, 0, 0};
      ++votes_[place].filters;
      for (uint32_t i = 0; i < states; ++i) votes_[place].admitting[i] += unit.fits(static_cast<State>(1u << i));
      if (unit.mode() != Unit::lacks) return;
      place = find_part(unit);
      if (place == part_count_) parts_[part_count_++] = {unit.name(), unit.part().form, {}, 0, 0};
      parts_[place].sizes.add(PartSizes::of(unit.part().size));
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
      is_usual &= (outlines_[find(unit.name())].fits & ~unit.all_fits()) == 0;
    });
    if (!is_usual) {
      unsure_ |= uint64_t{1} << owner;
      return;
    }
    each_unit(wide, [&](const Unit& unit) {
      Outline& outline = outlines_[find(unit.name())];
      outline.members |= uint64_t{1} << owner;
      outline.refuses &= static_cast<uint8_t>(~unit.all_fits());
      if (unit.excludes_value()) ++outline.end, ++total_;
      if (unit.mode() == Unit::lacks) {
        const uint32_t place = find_part(unit);
        const Part part = unit.part();
        ++parts_[place].end, ++total_;
        spreads_[place].first |= uint64_t{1} << part.first / 1024;
        spreads_[place].last |= uint64_t{1} << part.last / 1024;
      }
    });
  }

  // Until now an outline's end has said how many there are; from now on it says where the next one goes.
  void list_excluded(const Chunk& chunk) {
    uint32_t place = 0;
    auto start = [&](auto& end) {
      const uint32_t count = end;
      end = static_cast<std::decay_t<decltype(end)>>(place);
      place += count;
    };
    for (uint32_t i = 0; i < count_; ++i) start(outlines_[i].end);
    for (uint32_t i = 0; i < part_count_; ++i) start(parts_[i].end);
    for (uint32_t owner = 0; owner < chunk.count; ++owner) {
      if ((unsure_ >> owner & 1) != 0) continue;
      each_unit(chunk.units[owner], [&](const Unit& unit) {
        if (unit.excludes_value()) list(outlines_[find(unit.name())].end, short_hash(unit.hash()), owner);
        if (unit.mode() != Unit::lacks) return;
        const uint32_t outline = find_part(unit);
        list(parts_[outline].end, telling_mark(unit.part(), spreads_[outline]), owner);
      });
    }
  }

  template <class Place>
  void list(Place& place, uint16_t mark, uint32_t owner) {
    hashes_[place] = mark;
    owners_[place++] = static_cast<uint8_t>(owner);
  }

  // Of the two windows of a part those are listed by which filters differ more.
  static uint16_t telling_mark(const Part& part, const Spread& spread) {
    return __builtin_popcountll(spread.last) > __builtin_popcountll(spread.first) ? part.last : part.first;
  }

  uint32_t count_ = 0, part_count_ = 0, total_ = 0;
  uint64_t unsure_ = 0;
  Outline outlines_[most_outlines];
  Votes votes_[most_outlines];
  PartOutline parts_[most_outlines];
  Spread spreads_[most_outlines];
  uint16_t hashes_[most_excluded];
  uint8_t owners_[most_excluded];
};

// What a digest says of an event.
struct Decision {
  uint64_t suspect, out;  // filters that have to be tested, and that do not match; all others do
};

namespace detail {

// The excluded values or parts of a digest.
struct Excluded {
  const uint16_t* hashes;
  const uint8_t* owners;

  uint64_t owner(uint32_t place) const { return uint64_t{1} << owners[place] % chunk_capacity; }

  // Those of the places whose hash is the one given, as bits of their owners.
  uint64_t with_hash(uint32_t at, uint32_t end, uint16_t hash) const {
    uint64_t found = 0;
    for (uint32_t left; at < end; at += std::min(left, Digest::lanes)) {
      left = end - at;
      uint32_t equal = equal_among_eight(hashes + at, hash);
      if (left < Digest::lanes) equal &= (1u << left) - 1;
      for (; equal != 0; equal &= equal - 1) found |= owner(at + static_cast<uint32_t>(__builtin_ctz(equal)));
    }
    return found;
  }

  // Those that are marked; all of them, if there are no marks. Without branches, because nobody could guess them.
  uint64_t with_mark(uint32_t at, uint32_t end, const Marks* marks) const {
    uint64_t found = 0;
    if (marks == nullptr) {
      for (; at < end; ++at) found |= owner(at);
    } else {
      for (; at < end; ++at) found |= static_cast<uint64_t>(marks->has(hashes[at])) << owners[at] % chunk_capacity;
    }
    return found;
  }
};

}  // namespace detail

inline Decision decide(const View& view, Ref ref, const Event& event) {
  const Digest digest = view.at<Digest>(ref);
  if (digest.outlines > most_outlines || digest.parts > most_outlines || digest.excluded > most_excluded) View::damaged();
  const uint8_t* bytes = view.bytes(ref, 0, digest.size());
  const Outline* outlines = reinterpret_cast<const Outline*>(bytes + sizeof(Digest));
  const PartOutline* parts = reinterpret_cast<const PartOutline*>(bytes + digest.parts_offset());
  const detail::Excluded excluded{reinterpret_cast<const uint16_t*>(bytes + digest.hashes_offset()),
                                  bytes + digest.owners_offset()};
  uint64_t suspect = digest.unsure, out = 0;
  uint32_t at = 0;
  for (uint32_t i = 0; i < digest.outlines; ++i) {
    const Outline& outline = outlines[i];
    const Glance& glance = event.glance(outline.name);
    const uint32_t end = outline.end;
    if (end > digest.excluded) View::damaged();
    if ((outline.refuses & glance.state) != 0 || glance.state == unreadable_state) {
      out |= outline.members;
    } else if ((outline.fits & glance.state) == 0) {
      suspect |= outline.members;
    }
    suspect |= excluded.with_hash(at, end, short_hash(glance.hash));
    at = std::max(at, end);
  }
  for (uint32_t i = 0; i < digest.parts; ++i) {
    const PartOutline outline = parts[i];
    const Glance& glance = event.glance(outline.name);
    if (outline.end > digest.excluded || !is_sound_part(outline.form, outline.sizes.longest)) View::damaged();
    if (glance.state == string_state && at < outline.end) {
      const Marks* marks = event.marks(glance, outline.form, outline.sizes, outline.end - at);
      suspect |= excluded.with_mark(at, outline.end, marks);
    }
    at = std::max(at, outline.end);
  }
  out &= ~digest.unsure;  // of those it knows nothing, whatever it says of others that were there
  return {suspect & ~out, out};
}

}  // namespace palio
