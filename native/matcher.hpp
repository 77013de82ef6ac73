// Matching one event against an index. Several matchers may read one index at once; each has its own workspace.
#pragma once

#include <algorithm>
#include <deque>
#include <vector>

#include "allowance.hpp"
#include "digest.hpp"
#include "ways.hpp"

namespace palio {

class Matcher {
 public:
  explicit Matcher(const Hasher& hasher) : event(hasher) {}

  Event event;

  // Finds the filters that the event meets, or only the first one found.
  void match(const View& view, bool only_one = false) {
    view_ = &view;
    found_count_ = 0;
    only_one_ = only_one;
    tested_ = 0;
    left_ = Allowance(view, event);
    probes_.clear();
    children_.clear();
    made_.clear();
    visit(view.root);
    // Breadth first: while one child is fetched from memory, the others are looked for.
    while (!is_done() && !(probes_.empty() && children_.empty())) {
      following_.swap(probes_);
      probes_.clear();
      find_candidates();
      visiting_.swap(children_);
      children_.clear();
      for (Ref ref : visiting_) visit(ref);
      for (const Candidate& candidate : candidates_) {
        const Probe& probe = *candidate.probe;
        if (view.is_child(view.at<Node>(candidate.node), probe.partition, *probe.key, probe.second)) visit(candidate.node);
      }
    }
  }

  // The slots of the filters found, in no order.
  Slot* found() { return found_.data(); }
  size_t found_count() const { return found_count_; }

  // What it keeps for the next match, except for small things.
  size_t used_bytes() const { return event.used_bytes() + found_.capacity() * sizeof(Slot); }

  // How many filters were looked at one by one.
  uint64_t tested() const { return tested_; }

 private:
  struct Probe {  // of the table, for a child of a partition
    const Bucket* bucket;
    uint32_t hash;
    uint32_t partition;
    const Key* key;
    const Key* second;  // of a pair, or null
  };

  struct Candidate {
    Ref node;
    const Probe* probe;
  };

  bool is_done() const { return only_one_ && found_count_ != 0; }

  void visit(Ref ref) {
    if (is_done()) return;
    Allowance::spend(left_.nodes, 1);
    const Node& node = view_->at<Node>(ref);
    const uint16_t entries = node.count;
    if (entries > bucket_capacity) View::damaged();
    scan(view_->items<Node, Entry>(ref, entries), entries);
    if (node.chain != 0) scan_chain(node.chain);
    if (node.partitions == 0) return;
    const Ref list = node.partitions;
    const uint32_t count = view_->at<PartitionList>(list).count;
    Allowance::spend(left_.partitions, count);
    const Partition* partitions = view_->items<PartitionList, Partition>(list, count);
    for (uint32_t i = 0; i < count; ++i) expand(partitions[i]);
  }

  // -- buckets -----------------------------------------------------------------------------------------------------------

  void scan_chain(Ref last) {
    Ref ref = view_->at<Chunk>(last).next;
    for (;;) {
      const Chunk& chunk = view_->at<Chunk>(ref);
      const Ref next = chunk.next, digest = chunk.digest;  // read once: what was checked must be what is used
      const uint32_t count = chunk.count;
      if (count == 0 || count > chunk_capacity) View::damaged();
      prefetch_chunk(next);
      Allowance::spend(left_.filters, count);
      Allowance::spend(left_.chunks, 1);
      if (digest == 0) {
        scan_chunk(chunk, count);
      } else {
        scan_digest(chunk, count, digest);
      }
      if (ref == last || is_done()) return;
      ref = next;
    }
  }

  // Chunks lie far apart, so the one after next is announced, and what belongs to the next one is fetched.
  void prefetch_chunk(Ref next) const {
    const Chunk& chunk = view_->at<Chunk>(next);
    __builtin_prefetch(view_->bytes(chunk.next, 0, sizeof(Chunk)));
    const bool has_digest = chunk.digest != 0;
    const uint8_t* first = reinterpret_cast<const uint8_t*>(chunk.slots);
    for (size_t at = 0; at < (has_digest ? sizeof chunk.slots : sizeof chunk.slots + sizeof chunk.units); at += 64) {
      __builtin_prefetch(first + at);
    }
    if (!has_digest) return;
    const uint8_t* digest = view_->bytes(chunk.digest, 0, sizeof(Digest));
    for (size_t at = 0; at < usual_digest; at += 64) __builtin_prefetch(digest + at);
  }

  static constexpr size_t usual_digest = 640;  // bytes

  // Room for so many more, of which each is written, and stays if it passes: no branch to guess.
  Slot* room_for(uint32_t count) {
    if (found_.size() < found_count_ + count) found_.resize(2 * (found_count_ + count));
    return found_.data() + found_count_;
  }

  void scan(const Entry* entries, uint32_t count) {
    Allowance::spend(left_.filters, count);
    tested_ += count;
    Slot* found = room_for(count);
    for (uint32_t i = 0; i < count; ++i) {
      const auto& [slot, unit] = entries[i];
      Verdict verdict = judge(unit);
      *found = slot;
      found += verdict.may_hold && ((verdict.is_sure & unit.is(Unit::complete)) || record_holds(slot));
    }
    found_count_ = static_cast<size_t>(found - found_.data());
  }

  void scan_chunk(const Chunk& chunk, uint32_t count) {
    tested_ += count;
    Slot* found = room_for(count);
    for (uint32_t i = 0; i < count; ++i) {
      *found = chunk.slots[i];
      found += passes(chunk, i);
    }
    found_count_ = static_cast<size_t>(found - found_.data());
  }

  // All filters of the chunk match, except those that do not by their types, and suspects that turn out not to.
  void scan_digest(const Chunk& chunk, uint32_t count, Ref ref) {
    auto [suspect, out] = decide(*view_, ref, event);
    suspect &= ~uint64_t{0} >> (chunk_capacity - count);
    tested_ += static_cast<uint32_t>(__builtin_popcountll(suspect));
    for (uint64_t left = suspect; left != 0; left &= left - 1) {
      uint32_t place = static_cast<uint32_t>(__builtin_ctzll(left));
      if (!passes(chunk, place)) out |= uint64_t{1} << place;
    }
    Slot* found = room_for(chunk_capacity);
    if (out == 0) {
      std::copy_n(chunk.slots, chunk_capacity, found);  // a known number is quicker, and there is room
      found_count_ += count;
      return;
    }
    for (uint32_t i = 0; i < count; ++i) {
      *found = chunk.slots[i];
      found += (out >> i & 1) == 0;
    }
    found_count_ = static_cast<size_t>(found - found_.data());
  }

  bool passes(const Chunk& chunk, uint32_t place) {
    bool is_sure = true;
    for (const Unit& unit : chunk.units[place].units) {
      Verdict verdict = judge(unit);
      if (!verdict.may_hold) return false;
      is_sure &= verdict.is_sure;
      if (unit.is(Unit::complete)) return is_sure || record_holds(chunk.slots[place]);
    }
    return record_holds(chunk.slots[place]);
  }

  struct Verdict {
    bool may_hold;
    bool is_sure;  // if it may hold, it does
  };

  // The kinds come in much the same order in all entries of a bucket, so the branches here are easily guessed.
  Verdict judge(const Unit& unit) const {
    const Glance& glance = event.glance(unit.name());
    bool fits = unit.fits(glance.state), is_exact = unit.is(Unit::exact);
    switch (unit.mode()) {
      case Unit::range: {
        bool inside = (glance.narrow >= unit.lo()) & (glance.narrow <= unit.hi());
        return {fits && inside, is_exact && glance.is_narrow};
      }
      case Unit::equal: return {fits && glance.hash == unit.hash(), false};
      case Unit::differs: return {fits, is_exact && glance.hash != unit.hash()};
      case Unit::differs_whole: return {fits && !(glance.is_whole && glance.hash == unit.hash()), is_exact};
      case Unit::grams: return {fits && (unit.hash() & ~event.grams(glance)) == 0, false};
      case Unit::lacks: return {fits, is_exact && fits && lacks_part(glance, unit.part())};
      default: return {fits, is_exact};
    }
  }

  bool lacks_part(const Glance& glance, const Part& part) const {
    if (glance.state != string_state || !is_sound_part(part.form, part.size)) View::damaged();
    return event.lacks(glance, part);
  }

  bool record_holds(Slot slot) {
    if (slot >= view_->slots) View::damaged();
    Ref ref = view_->places[slot].record;
    const Record record = view_->at<Record>(ref);
    Allowance::spend(left_.predicates, record.count);
    const Predicate* predicates = view_->items<Record, Predicate>(ref, record.count);
    size_t head = sizeof(Record) + record.count * sizeof(Predicate);
    const char* bytes = reinterpret_cast<const char*>(view_->bytes(ref, head, record.bytes));
    for (uint32_t i = 0; i < record.count; ++i) {
      if (record.is_satisfied(i)) continue;
      const Predicate predicate = predicates[i];  // a copy: what was checked must be what is used
      View::check_literal(predicate, record.bytes);
      if (!holds(predicate, event.find(predicate.name), bytes)) return false;
    }
    return true;
  }

  // -- partitions --------------------------------------------------------------------------------------------------------

  void expand(const Partition& partition) {
    if (partition.way == Way::name) {
      for (const Attribute& attribute : event.attributes()) {
        probe_made(partition, view_->hasher.number_key(attribute.name, whole_code));
      }
      return;
    }
    if (partition.way == Way::group) return expand_group(partition);
    const Attribute* attribute = event.find_value(partition.name);
    if (attribute == nullptr) return;
    if (partition.way == Way::pair) {
      const Attribute* second = event.find_value(partition.details);
      if (second == nullptr) return;
      return probe(partition, filed_hash(partition.id, attribute->key.hash, second->key.hash), attribute->key, &second->key);
    }
    bool is_string = attribute->value.type == Type::string;
    switch (partition.way) {
      case Way::equal: return probe(partition, filed_hash(partition.id, attribute->key.hash), attribute->key);
      case Way::cell:
        if (!attribute->value.is_text()) expand_cells(partition, attribute->order);
        return;
      case Way::lower:
      case Way::upper:
        if ((mask_of(attribute->value.type) & partition.family) != 0) expand_blocks(partition, *attribute);
        return;
      case Way::prefix:
      case Way::suffix:
        if (is_string) expand_ends(partition, attribute->value.text);
        return;
      case Way::contains:
        if (is_string) expand_windows(partition, attribute->value.text);
        return;
      default: View::damaged();
    }
  }

  // The keys must stay where they are until the match is over.
  void probe(const Partition& partition, uint32_t hash, const Key& key, const Key* second = nullptr) {
    const Bucket* bucket = &view_->buckets[view_->table.place(hash)];
    __builtin_prefetch(bucket);
    Probe& made = probes_.emplace_back();  // field by field: copying from the stack would wait for it to be written
    made.bucket = bucket;
    made.hash = hash;
    made.partition = partition.id;
    made.key = &key;
    made.second = second;
    Allowance::spend(left_.probes, 1);
  }

  void probe_made(const Partition& partition, const Key& key) {
    probe(partition, filed_hash(partition.id, key.hash), made_.emplace_back(key));
  }

  void find_candidates() {
    candidates_.clear();
    for (const Probe& probe : following_) {
      view_->find(probe.bucket, probe.hash, left_.steps, [&](Ref ref) {
        const uint8_t* node = view_->bytes(ref, 0, sizeof(Node));
        for (int line = 0; line < 3; ++line) __builtin_prefetch(node + 64 * line);  // with some of its entries
        candidates_.push_back({ref, &probe});
        Allowance::spend(left_.candidates, 1);
        return false;
      });
    }
  }

  const Level* levels(const Partition& partition, uint32_t& count) {
    count = view_->at<Levels>(partition.details).count;
    Allowance::spend(left_.levels, count);
    const Level* all = view_->items<Levels, Level>(partition.details, count);
    for (uint32_t i = 1; i < count; ++i) {
      if (all[i].level <= all[i - 1].level) View::damaged();
    }
    return all;
  }

  void expand_cells(const Partition& partition, double order) {
    uint32_t count;
    const Level* at = levels(partition, count);
    for (uint32_t i = 0; i < count; ++i) {
      if (at[i].level < least_level || at[i].level > greatest_level) View::damaged();
      double cell = std::floor(order * cell_scale(at[i].level));
      if (!(std::fabs(cell) < two_to_53 / 2)) continue;
      for (int back = 0; back < cells_reached; ++back) {
        probe_made(partition, cell_key(at[i].level, cell - back, view_->hasher));
      }
    }
  }

  // Whether the block's least bound is above the value.
  bool is_above(const Node& node, const Attribute& attribute) const {
    if (!attribute.value.is_text()) {
      double bound;
      std::memcpy(&bound, &node.key.bits, 8);
      return bound > attribute.order;
    }
    uint32_t size = node.key.size & text_size_mask;
    std::string_view bound(reinterpret_cast<const char*>(&node.key.bits), std::min<size_t>(size, 8));
    if (size > 8) bound = view_->text(node.key.text, size);
    return bound > attribute.value.text;
  }

  void expand_blocks(const Partition& partition, const Attribute& attribute) {
    uint32_t count = view_->at<Blocks>(partition.details).count;
    const Ref* blocks = view_->items<Blocks, Ref>(partition.details, count);
    auto starts_above = [&](uint32_t i) { return is_above(view_->at<Node>(blocks[i]), attribute); };
    if (partition.way == Way::lower) {
      for (uint32_t i = 0; i < count && !starts_above(i); ++i) children_.push_back(blocks[i]);
    } else {
      for (uint32_t i = count; i-- > 0;) {
        children_.push_back(blocks[i]);
        if (!starts_above(i)) break;
      }
    }
    if (children_.size() > left_.nodes) View::damaged();
  }

  void expand_group(const Partition& partition) {
    const Group group = view_->at<Group>(partition.details);
    const Predicate predicate = *view_->items<Group, Predicate>(partition.details, 1);
    size_t head = sizeof(Group) + sizeof(Predicate);
    const char* bytes = reinterpret_cast<const char*>(view_->bytes(partition.details, head, group.bytes));
    View::check_literal(predicate, group.bytes);
    if (holds(predicate, event.find(predicate.name), bytes)) children_.push_back(group.node);
  }

  // The beginnings or, read backwards, the ends of a text, of all lengths in use.
  void expand_ends(const Partition& partition, std::string_view text) {
    bool is_suffix = partition.way == Way::suffix;
    uint32_t count;
    const Level* at = levels(partition, count);
    uint64_t hash = 0;
    size_t done = 0;
    for (uint32_t i = 0; i < count && at[i].level >= 0 && static_cast<size_t>(at[i].level) <= text.size(); ++i) {
      size_t size = static_cast<size_t>(at[i].level);
      Allowance::spend(left_.bytes, size - done);
      for (; done < size; ++done) hash = view_->hasher.extend(hash, text[is_suffix ? text.size() - 1 - done : done]);
      probe_made(partition, view_->hasher.part_key(text.substr(is_suffix ? text.size() - size : 0, size), hash));
    }
  }

  // Windows are looked up at once, not queued: a long text has many, and nearly all lead nowhere.
  void expand_windows(const Partition& partition, std::string_view text) {
    uint32_t count;
    const Level* at = levels(partition, count);
    windows_.clear();
    for (uint32_t i = 0; i < count && at[i].level > 0 && static_cast<size_t>(at[i].level) <= text.size(); ++i) {
      roll_windows(partition, text, at[i].level);
    }
    keep_each_once(windows_);
    children_.insert(children_.end(), windows_.begin(), windows_.end());
  }

  // A text may hold the same window twice; its node is visited once all the same.
  void keep_each_once(std::vector<Ref>& refs) const {
    std::sort(refs.begin(), refs.end());
    refs.erase(std::unique(refs.begin(), refs.end()), refs.end());
    if (refs.size() > left_.nodes) View::damaged();
  }

  void roll_windows(const Partition& partition, std::string_view text, size_t size) {
    constexpr size_t ahead = 16;
    Allowance::spend(left_.bytes, text.size());
    left_.steps = std::min(left_.steps + Allowance::usual_steps * text.size(), Allowance::without_end);
    uint32_t hashes[ahead];
    const Hasher& hasher = view_->hasher;
    uint64_t leaving = hasher.leaving(size), hash = 0;
    for (char byte : text.substr(0, size)) hash = hasher.extend(hash, byte);
    size_t windows = text.size() - size + 1;
    for (size_t begin = 0; begin < windows; begin += ahead) {
      size_t batch = std::min(ahead, windows - begin);
      for (size_t i = 0; i < batch; ++i) {
        size_t start = begin + i;
        hashes[i] = filed_hash(partition.id, hasher.part_hash(hash, size));
        __builtin_prefetch(&view_->buckets[view_->table.place(hashes[i])]);
        if (start + size < text.size()) hash = hasher.roll(hash, text[start + size], text[start], leaving);
      }
      for (size_t i = 0; i < batch; ++i) {
        view_->find(&view_->buckets[view_->table.place(hashes[i])], hashes[i], left_.steps, [&](Ref ref) {
          Allowance::spend(left_.bytes, size);
          Key key = text_key(text.substr(begin + i, size), false, 0);
          if (view_->is_child(view_->at<Node>(ref), partition.id, key, nullptr)) windows_.push_back(ref);
          return false;
        });
      }
      if (windows_.size() > many_windows + 2 * left_.nodes) keep_each_once(windows_);
    }
  }

  static constexpr size_t many_windows = 1 << 16;

  const View* view_ = nullptr;
  bool only_one_ = false;
  uint64_t tested_ = 0;
  Allowance left_;
  std::vector<Slot> found_;  // the first found_count_ of it
  size_t found_count_ = 0;
  std::vector<Probe> probes_, following_;  // for the next wave of nodes, and for this one
  std::vector<Ref> children_, visiting_;   // likewise, nodes that are known already
  std::vector<Candidate> candidates_;
  std::deque<Key> made_;  // keys of probes that are not of the event
  std::vector<Ref> windows_;
};

}  // namespace palio
