// Chains of chunks: the entries of buckets that nothing divides, with digests by which many are decided together.
#pragma once

#include "digest.hpp"
#include "divider.hpp"
#include "storage.hpp"

namespace palio {

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
    storage_.release(ref, digest.size());
    ref = 0;
  }

  static constexpr uint32_t changes_between_digests = 8;
  static constexpr uint32_t changes_without_digest = 16;  // before one is tried, or tried again

  Storage& storage_;
};

}  // namespace palio
