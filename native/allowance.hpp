// How much a match may do. What a file leads to must end, in time that its size, the event's size and their product bound.
// A sound file stays within these bounds; an index that this process has made is known to be sound.
#pragma once

#include "layout.hpp"

namespace palio {

struct Allowance {
  static constexpr uint64_t without_end = ~uint64_t{0} >> 4;
  static constexpr uint64_t usual_steps = 64;

  Allowance() = default;

  Allowance(const View& view, const Event& event) {
    if (view.is_own) return;
    uint64_t text = 0;
    for (const Attribute& attribute : event.attributes()) text += attribute.value.text.size();
    nodes = partitions = levels = view.nodes;
    filters = view.filters;
    chunks = view.arena_size / sizeof(Chunk);
    predicates = view.arena_size / sizeof(Predicate);
    probes = (16 + event.attributes().size()) * view.nodes + (1 << 20);
    candidates = 16 * view.nodes + (1 << 16);
    steps = 4 * (view.arena_size / sizeof(Bucket)) + (1 << 16);
    bytes = 64 * view.arena_size + (1 << 28) + 4096 * text;
  }

  // Each node is visited once, and with it each of its partitions and levels, of which none is without children.
  uint64_t nodes = without_end, partitions = without_end, levels = without_end;
  // Each filter is in one bucket, each chunk in one chain, each predicate in one record.
  uint64_t filters = without_end, chunks = without_end, predicates = without_end;
  // A partition looks for three cells a level, for all lengths of texts, or for every name of the event.
  uint64_t probes = without_end;
  // Each probe finds one node at most, and now and then another with the same hash of 32 bits.
  uint64_t candidates = without_end;
  // Few places of the table overflow, and then by a bucket or two; windows of texts, which are many, earn more.
  uint64_t steps = without_end;
  // Of texts, hashed or compared: once for each partition by prefix or suffix, and once for each length of windows.
  uint64_t bytes = without_end;

  static void spend(uint64_t& left, uint64_t amount) {
    if (amount > left) View::damaged();
    left -= amount;
  }
};

}  // namespace palio
