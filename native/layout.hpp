// How an index lies in memory, and in a file: plain structures that refer to one another by number, never by address.
//
//   name       an attribute's name and its number
//   record     one filter: its predicates, and the node or chunk that holds its entry
//   node       a bucket of entries, and partitions of what did not fit; its key says which values lead to it
//   chunk      more entries of a bucket that nothing divides
//   digest     what the filters of a chunk have in common, by which most of them are decided together
//   partition  one way of dividing filters among child nodes: by the value of an attribute, by a prefix, ...
//
// A filter has exactly one entry, in one bucket, so a match visits every node at most once.
#pragma once

#include <cstdint>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "failure.hpp"
#include "predicate.hpp"

namespace palio {

using Ref = uint32_t;   // a place in the arena, in granules; zero means none
using Slot = uint32_t;  // a filter's place in the directory

constexpr size_t granule = 16;

enum class Object : uint8_t { name = 1, node, chunk };

struct NameObject {
  Object object;
  uint8_t unused[3];
  NameId id;
  uint32_t uses;  // predicates that mention it
  uint32_t size;  // its bytes follow
};

// One open predicate of a filter in short, tested before the filter's record is looked at: the value's type, or its
// absence, must be one of those that fit, and then there may be a range of numbers or a hash.
struct Unit {
  uint32_t head;
  uint32_t low, high;  // bounds rounded to 32 bits, the two halves of a hash or of the bits of a text, or a part

  // differs_whole: from a whole number, a time or a boolean, of which a hash says all
  // grams: a text must have the pairs of bytes that a part of it has
  // lacks: it must not have a part
  enum Mode : uint32_t { types_only, range, equal, differs, differs_whole, grams, lacks };

  static constexpr uint8_t everything = all_types | absent_state;
  static constexpr uint32_t name_bits = 20, fits_shift = 20, mode_shift = 27;
  static constexpr NameId no_name = (1u << name_bits) - 1;
  static constexpr uint32_t exact = 1u << 30;     // if it holds, so does the predicate, unless rounding or a hash misled
  static constexpr uint32_t complete = 1u << 31;  // this unit and those before it say all that the filter leaves open

  static Unit of(NameId name, TypeMask types, bool fits_absence, Mode mode) {
    uint32_t fits = types | (fits_absence ? uint32_t{absent_state} : 0);
    return {name | fits << fits_shift | mode << mode_shift, 0, 0};
  }

  // Says nothing, of a name that no attribute has.
  static Unit always() { return {no_name | uint32_t{everything} << fits_shift | exact, 0, 0}; }

  NameId name() const { return head & ((1u << name_bits) - 1); }
  uint32_t all_fits() const { return head >> fits_shift & everything; }
  bool fits(State state) const { return (head >> fits_shift & state) != 0; }
  Mode mode() const { return static_cast<Mode>(head >> mode_shift & 7); }
  bool excludes_value() const { return mode() == differs || mode() == differs_whole; }
  bool is(uint32_t flag) const { return (head & flag) != 0; }
  uint64_t hash() const { return static_cast<uint64_t>(high) << 32 | low; }

  Part part() const {
    return {static_cast<PartForm>(high >> part_form_shift), high & ((1u << part_form_shift) - 1),
            static_cast<uint16_t>(low), static_cast<uint16_t>(low >> 16)};
  }

  float lo() const { return as_float(low); }
  float hi() const { return as_float(high); }

  void set_hash(uint64_t hash) { low = static_cast<uint32_t>(hash), high = static_cast<uint32_t>(hash >> 32); }
  void set_part(const Part& part) {
    low = part.first | static_cast<uint32_t>(part.last) << 16;
    high = static_cast<uint32_t>(part.form) << part_form_shift | part.size;
  }
  void set_range(float lo, float hi) { std::memcpy(&low, &lo, 4), std::memcpy(&high, &hi, 4); }

 private:
  static constexpr uint32_t part_form_shift = 30;

  static float as_float(uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
};

struct Entry {
  Slot slot;
  Unit unit;
};
static_assert(sizeof(Entry) == 16);

// Buckets that nothing divides are read from end to end, so their entries say more.
constexpr size_t wide_units = 3;
struct WideUnits {
  Unit units[wide_units];
};
constexpr NameId most_names = Unit::no_name;  // numbers are below it

constexpr size_t marked_terms = 32;  // predicates beyond these are tested in the bucket only

struct Record {
  Slot slot;
  Ref home;            // the node or chunk with its entry
  uint32_t count;      // predicates follow, then the bytes of their literals
  uint32_t bytes;
  uint32_t satisfied;  // bit i: predicate i holds for every event that comes to its bucket
  uint32_t used;       // bit i: predicate i was used on the way, so most events that come meet it

  bool is_satisfied(size_t i) const { return i < marked_terms && (satisfied >> i & 1) != 0; }
};
static_assert(sizeof(Record) == 24);

struct StoredKey {
  uint64_t bits;
  uint32_t size;
  Ref text;  // of more than eight bytes
};

struct Node {
  Object object;
  uint8_t depth;
  uint16_t unused;
  uint32_t partition;  // the number of the partition it is a child of
  uint32_t hash;       // under which the table has it, if it has
  uint16_t count;      // entries that follow
  uint16_t capacity;
  Ref parent;
  Ref partitions;  // a PartitionList
  Ref chain;       // the last of a ring of chunks
  uint32_t total;  // entries here and in the ring
  StoredKey key;
  StoredKey second;  // of the child of a partition by pairs
};
static_assert(sizeof(Node) == 64);
constexpr uint16_t bucket_capacity = 32;

constexpr uint32_t chunk_capacity = 64;  // as many as there are bits in a word

struct Chunk {
  Object object;
  uint8_t unused[3];
  Ref owner;
  Ref next, previous;
  uint32_t count;
  Ref digest;        // or none
  uint32_t changes;  // since a digest was made, or tried
  uint32_t padding;
  Slot slots[chunk_capacity];
  WideUnits units[chunk_capacity];
};
static_assert(sizeof(Chunk) == 32 + chunk_capacity * 40);

// What the filters of a chunk, those that are not unsure, say about one name.
struct Outline {
  NameId name;
  uint8_t fits;            // the types, or absence, that all of them admit
  uint8_t refuses;         // and those that none admits, beside values that cannot be read
  uint8_t end;             // of the values that some exclude; they begin where those of the outline before it end
  uint8_t unused;
  uint64_t members;        // bit i: filter i says something about the name
};
static_assert(sizeof(Outline) == 16);
constexpr uint32_t most_outlines = 64;  // of either kind, in a digest
constexpr uint32_t most_excluded = chunk_capacity * wide_units;

// The parts, of one form and, if they are windows, of one size, that some filters of a chunk exclude for a name.
struct PartOutline {
  NameId name;
  PartForm form;
  PartSizes sizes;
  uint32_t end;  // of the excluded parts; they begin where those of the part outline before it end
  uint32_t padding;
};
static_assert(sizeof(PartOutline) == 32);

struct Digest {
  uint32_t outlines;  // which follow, then part outlines, then for each excluded value or part 16 bits of its hash (the
  uint32_t parts;     // values first), then the places of their filters
  uint32_t excluded;
  uint32_t padding;
  uint64_t unsure;    // bit i: filter i has to be tested on its own
  uint64_t more_padding;

  static constexpr uint32_t lanes = 8;  // hashes are compared in eights, so as many more can be read

  size_t parts_offset() const { return sizeof(Digest) + outlines * sizeof(Outline); }
  size_t hashes_offset() const { return parts_offset() + parts * sizeof(PartOutline); }
  size_t owners_offset() const { return hashes_offset() + (excluded + lanes) * sizeof(uint16_t); }
  size_t size() const { return owners_offset() + excluded; }
};
static_assert(sizeof(Digest) == 32);

// Bit i: number i of eight is the one wanted.
inline uint32_t equal_among_eight(const uint16_t* numbers, uint16_t wanted) {
#ifdef __SSE2__
  __m128i equal = _mm_cmpeq_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)),
                                  _mm_set1_epi16(static_cast<int16_t>(wanted)));
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())));
#else
  uint32_t equal = 0;
  for (uint32_t i = 0; i < 8; ++i) equal |= static_cast<uint32_t>(numbers[i] == wanted) << i;
  return equal;
#endif
}

// Bit i: byte i of 64, each zero or one, is one.
inline uint64_t bits_of_bytes(const uint8_t* bytes) {
  uint64_t bits = 0;
#ifdef __SSE2__
  for (uint32_t i = 0; i < 64; i += 16) {
    __m128i ones = _mm_slli_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i)), 7);
    bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(ones))) << i;
  }
#else
  for (uint32_t i = 0; i < 64; ++i) bits |= static_cast<uint64_t>(bytes[i]) << i;
#endif
  return bits;
}

enum class Way : uint8_t { equal, cell, lower, upper, prefix, suffix, contains, name, group, pair };
constexpr size_t ways = 10;

struct Partition {
  uint32_t id;
  NameId name;
  Way way;
  TypeMask family;  // of the bounds, for lower and upper
  uint16_t unused;
  uint32_t details; // Levels (cell, prefix, suffix, contains), Blocks (lower, upper), a Group, or the second name
  uint32_t children;
  float score;      // the estimated share of events that come to a child
};
static_assert(sizeof(Partition) == 24);

struct PartitionList {
  uint32_t count, capacity, padding[2];  // partitions follow
};

struct Level {
  int32_t level;   // of cells: the exponent of their width; of texts: the length
  uint32_t nodes;  // children at this level
};

struct Levels {
  uint32_t count, capacity, padding[2];  // ascending levels follow
};

struct Blocks {
  uint32_t count, capacity, padding[2];  // the children follow, ascending by key
};

struct Group {
  Ref node;
  uint32_t bytes;  // the predicate follows, then its literal
};

struct Place {  // of a filter, by slot
  Ref record;   // or zero
  uint32_t generation;
};
constexpr uint32_t most_generation = 0x7FFFFFFF;  // ids are positive 64-bit integers

struct alignas(granule) Bucket {  // of the table that finds names and nodes by hash
  uint32_t hashes[7];
  uint32_t count;
  Ref refs[7];
  Ref overflow;

  // Bit i: place i is taken and holds the hash. Without branches, because nobody could guess them.
  uint32_t places(uint32_t hash) const {
    uint32_t taken = (1u << (count & 7)) - 1;
#ifdef __SSE2__
    __m128i wanted = _mm_set1_epi32(static_cast<int>(hash));
    const __m128i* all = reinterpret_cast<const __m128i*>(hashes);
    __m128i low = _mm_cmpeq_epi32(_mm_load_si128(all), wanted), high = _mm_cmpeq_epi32(_mm_load_si128(all + 1), wanted);
    uint32_t equal = static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(low))) |
                     static_cast<uint32_t>(_mm_movemask_ps(_mm_castsi128_ps(high))) << 4;
#else
    uint32_t equal = 0;
    for (uint32_t i = 0; i < 7; ++i) equal |= static_cast<uint32_t>(hashes[i] == hash) << i;
#endif
    return equal & taken;
  }
};
static_assert(sizeof(Bucket) == 64);

struct TableShape {
  uint64_t buckets = 0;
  uint64_t items = 0;
  uint64_t mask = 1;  // a power of two minus one, less than twice as many as there are buckets

  uint64_t place(uint32_t hash) const {
    uint64_t place = hash & mask;
    return place < buckets ? place : place & mask >> 1;
  }
};

// Lengths of the windows by which needles are found: each at most half as long again as the one before.
inline uint32_t window_length(uint32_t size) {
  if (size <= 4) return size;
  uint32_t power = 4;
  while (power * 2 <= size) power *= 2;
  return power + power / 2 <= size ? power + power / 2 : power;
}

// What all readers of an index share; every reference is checked, because a file may say anything.
struct View {
  explicit View(const Hasher& own) : hasher(own) {}

  Hasher hasher;
  const uint8_t* arena = nullptr;
  size_t arena_size = 0;
  const Bucket* buckets = nullptr;
  TableShape table;
  const Place* places = nullptr;
  uint64_t slots = 0;
  uint64_t filters = 0;
  uint64_t nodes = 0;
  Ref root = 0;
  bool is_own = false;  // made by this process and not read from a file, so what it says is true
  bool has_generations = false;  // whether some slot was used again

  const uint8_t* bytes(Ref ref, size_t offset, size_t size) const {
    size_t begin = ref * granule + offset;
    if (ref == 0 || begin > arena_size || size > arena_size - begin) damaged();
    return arena + begin;
  }

  template <class T>
  const T& at(Ref ref) const {
    return *reinterpret_cast<const T*>(bytes(ref, 0, sizeof(T)));
  }

  // The items that follow a head of type Head.
  template <class Head, class Item>
  const Item* items(Ref ref, size_t count) const {
    return reinterpret_cast<const Item*>(bytes(ref, sizeof(Head), count * sizeof(Item)));
  }

  std::string_view text(Ref ref, size_t size) const { return {reinterpret_cast<const char*>(bytes(ref, 0, size)), size}; }

  // Calls visit(ref) for everything filed under the hash until it returns true.
  template <class Visit>
  void find(uint32_t hash, Visit visit) const {
    uint64_t steps = arena_size / sizeof(Bucket) + 1;
    find(&buckets[table.place(hash)], hash, steps, visit);
  }

  template <class Visit>
  void find(const Bucket* bucket, uint32_t hash, uint64_t& left_steps, Visit visit) const {
    for (;;) {
      for (uint32_t found = bucket->places(hash); found != 0; found &= found - 1) {
        if (visit(bucket->refs[__builtin_ctz(found)])) return;
      }
      if (bucket->overflow == 0) return;
      if (left_steps-- == 0) damaged();
      bucket = &at<Bucket>(bucket->overflow);
    }
  }

  // Whether the node is the partition's child for the key, or for the two.
  bool is_child(const Node& node, uint32_t partition, const Key& key, const Key* second) const {
    if (node.object != Object::node || node.partition != partition || !is_key(node.key, key)) return false;
    return second == nullptr || is_key(node.second, *second);
  }

  bool is_key(const StoredKey& stored, const Key& key) const {
    if (stored.bits != key.bits || stored.size != key.size) return false;
    uint32_t size = key.size & text_size_mask;
    if ((key.size & text_flag) == 0 || key.text == nullptr || size <= 8) return true;
    return std::memcmp(bytes(stored.text, 0, size), key.text, size) == 0;
  }

  const NameObject* find_name(std::string_view name, Ref* where = nullptr) const {
    const NameObject* found = nullptr;
    find(name_hash(name, hasher), [&](Ref ref) {
      const NameObject& object = at<NameObject>(ref);
      if (object.object != Object::name || object.size != name.size()) return false;
      if (std::memcmp(bytes(ref, sizeof(NameObject), name.size()), name.data(), name.size()) != 0) return false;
      found = &object;
      if (where != nullptr) *where = ref;
      return true;
    });
    if (found != nullptr && found->id >= most_names) damaged();
    return found;
  }

  static uint32_t name_hash(std::string_view name, const Hasher& hasher) {
    return static_cast<uint32_t>(hasher.text(name) ^ 0x5bd1e995u);
  }

  // The literal must lie among so many bytes.
  static void check_literal(const Predicate& predicate, uint64_t bytes) {
    if (predicate.test > Test::absent) damaged();
    if (!has_literal(predicate.test) && predicate.test != Test::wide) return;
    if (uint64_t{predicate.literal.offset} + predicate.literal.size > bytes) damaged();
    if (predicate.test == Test::wide && predicate.literal.size != sizeof(WideInterval)) damaged();
  }

  [[noreturn]] static void damaged() { throw FileFailure("the file is damaged: it refers to places that it does not have"); }
};

}  // namespace palio
