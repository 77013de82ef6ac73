// The tree of an index: nodes with buckets of entries, partitions, and the records of filters. It knows how to keep
// them consistent, not where a filter had best go.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "chains.hpp"

namespace palio {

class Tree : protected Surroundings {
 protected:
  explicit Tree(const Hasher& hasher) : storage_(hasher) { root_ = allocate_node(0, 0, bucket_capacity); }

  Term group_term(Ref details) const override {
    const View all = storage_.view();
    const Predicate* predicate = all.items<Group, Predicate>(details, 1);
    return {predicate, reinterpret_cast<const char*>(predicate + 1), &storage_.hasher()};
  }

  uint32_t uses(NameId name) const override { return storage_.name_uses(name); }

  // -- records -----------------------------------------------------------------------------------------------------------

  static size_t record_size(size_t predicates, size_t bytes) {
    return sizeof(Record) + predicates * sizeof(Predicate) + bytes;
  }

  Ref store_record(Slot slot, const Compiled& filter) {
    size_t count = filter.predicates.size(), bytes = filter.bytes.size();
    Ref ref = storage_.allocate(record_size(count, bytes));
    Record& record = storage_.at<Record>(ref);
    record = {slot, 0, static_cast<uint32_t>(count), static_cast<uint32_t>(bytes), 0, 0};
    Predicate* predicates = storage_.items<Record, Predicate>(ref);
    if (count != 0) std::memcpy(predicates, filter.predicates.data(), count * sizeof(Predicate));
    if (bytes != 0) std::memcpy(reinterpret_cast<char*>(predicates + count), filter.bytes.data(), bytes);
    return ref;
  }

  FilterTerms terms(Ref ref) {
    const Record& record = storage_.at<Record>(ref);
    const Predicate* predicates = storage_.items<Record, Predicate>(ref);
    const char* bytes = reinterpret_cast<const char*>(predicates + record.count);
    return {predicates, record.count, record.satisfied, record.used, bytes, &storage_.hasher()};
  }

  // -- nodes -------------------------------------------------------------------------------------------------------------

  static size_t node_size(size_t capacity) { return sizeof(Node) + capacity * sizeof(Entry); }

  Ref allocate_node(Ref parent, uint32_t partition, uint16_t capacity) {
    Ref ref = storage_.allocate(node_size(capacity));
    Node& node = storage_.at<Node>(ref);
    node.object = Object::node;
    node.parent = parent;
    node.partition = partition;
    node.capacity = capacity;
    node.depth = parent == 0 ? 0 : storage_.at<Node>(parent).depth + 1;
    ++nodes_;
    return ref;
  }

  Partition* partition_list(Ref node, uint32_t& count) {
    Ref list = storage_.at<Node>(node).partitions;
    count = list == 0 ? 0 : storage_.at<PartitionList>(list).count;
    return list == 0 ? nullptr : storage_.items<PartitionList, Partition>(list);
  }

  // The partition of its parent that a node belongs to.
  Partition& partition_of(Ref node) {
    uint32_t count, id = storage_.at<Node>(node).partition;
    Partition* all = partition_list(storage_.at<Node>(node).parent, count);
    while (all->id != id) ++all;
    return *all;
  }

  // A copy: the text may lie in the arena, which moves when it grows.
  static std::string long_text(const Key& key) {
    uint32_t size = key.size & text_size_mask;
    bool is_long = (key.size & text_flag) != 0 && key.text != nullptr && size > 8;
    return is_long ? std::string(key.text, size) : std::string();
  }

  StoredKey store_key(const Key& key) {
    StoredKey stored{key.bits, key.size, 0};
    std::string text = long_text(key);
    if (!text.empty()) {
      stored.text = storage_.allocate(text.size());
      std::memcpy(&storage_.at<char>(stored.text), text.data(), text.size());
    }
    return stored;
  }

  void release_key(const StoredKey& key) {
    if (key.text != 0) storage_.release(key.text, key.size & text_size_mask);
  }

  // A bucket of the next size; everything that refers to the node is told.
  Ref grow_node(Ref old) {
    uint16_t capacity = storage_.at<Node>(old).capacity;
    uint16_t larger = static_cast<uint16_t>(capacity < 4 ? capacity + 2 : capacity + capacity / 2);
    larger = std::min<uint16_t>(larger & ~1, bucket_capacity);
    Ref ref = storage_.allocate(node_size(larger));
    Node& node = storage_.at<Node>(ref);
    std::memcpy(static_cast<void*>(&node), &storage_.at<Node>(old), node_size(capacity));
    node.capacity = larger;
    const Entry* entries = storage_.items<Node, Entry>(ref);
    for (uint16_t i = 0; i < node.count; ++i) record_of(entries[i].slot).home = ref;
    Partition& partition = partition_of(ref);
    switch (partition.way) {
      case Way::lower:
      case Way::upper: *find_block(partition, old) = ref; break;
      case Way::group: storage_.at<Group>(partition.details).node = ref; break;
      default: storage_.refile(node.hash, old, ref);
    }
    storage_.release(old, node_size(capacity));
    return ref;
  }

  Ref* find_block(const Partition& partition, Ref node) {
    Ref* block = storage_.items<Blocks, Ref>(partition.details);
    while (*block != node) ++block;
    return block;
  }

  Record& record_of(Slot slot) { return storage_.at<Record>(storage_.place(slot).record); }

  Partition& partition_at(Ref node, uint32_t index) {
    uint32_t count;
    return partition_list(node, count)[index];
  }

  // -- entries -----------------------------------------------------------------------------------------------------------

  Ref attach(Ref node, Ref record) {
    Slot slot = storage_.at<Record>(record).slot;
    if (storage_.at<Node>(node).chain != 0 || storage_.at<Node>(node).count == bucket_capacity) {
      Ref chunk = chains_.append(node, slot, terms(record));
      storage_.at<Record>(record).home = chunk;
    } else {
      if (storage_.at<Node>(node).count == storage_.at<Node>(node).capacity) node = grow_node(node);
      storage_.items<Node, Entry>(node)[storage_.at<Node>(node).count++] = make_entry(slot, terms(record));
      storage_.at<Record>(record).home = node;
    }
    ++storage_.at<Node>(node).total;
    return node;
  }

  // Takes a filter's entry out; the last entry of the bucket fills the gap. Nodes that are left empty go.
  void detach(Ref record) {
    Ref home = storage_.at<Record>(record).home;
    Slot slot = storage_.at<Record>(record).slot;
    bool in_node = storage_.at<Node>(home).object == Object::node;
    Ref node = in_node ? home : storage_.at<Chunk>(home).owner;
    if (in_node) {
      Entry* gap = storage_.items<Node, Entry>(node);
      while (gap->slot != slot) ++gap;
      if (storage_.at<Node>(node).chain == 0) {
        *gap = storage_.items<Node, Entry>(node)[--storage_.at<Node>(node).count];
      } else {
        Slot filler = chains_.take_last(node);
        *gap = make_entry(filler, terms(storage_.place(filler).record));
        record_of(filler).home = node;
      }
    } else {
      record_of(chains_.take(home, slot)).home = home;
    }
    if (--storage_.at<Node>(node).total <= few_in_chain) unchain(node);
    prune(node);
  }

  // Moves the bucket's entries to its chain, in front of those that are there: nothing divides them, so they are better
  // decided together.
  void chain_up(Ref node) {
    std::vector<Slot> slots = slots_of(node, most_at_once);
    std::sort(slots.begin() + storage_.at<Node>(node).count, slots.end());
    while (storage_.at<Node>(node).chain != 0) chains_.take_last(node);
    storage_.at<Node>(node).count = 0;
    for (Slot slot : slots) {
      Ref chunk = chains_.append(node, slot, terms(storage_.place(slot).record));
      record_of(slot).home = chunk;
    }
  }

  // And back, when few are left.
  void unchain(Ref node) {
    if (storage_.at<Node>(node).chain == 0 || storage_.at<Node>(node).count != 0) return;
    std::vector<Slot> slots = slots_of(node, most_at_once);
    while (storage_.at<Node>(node).chain != 0) chains_.take_last(node);
    for (Slot slot : slots) {
      Entry* entries = storage_.items<Node, Entry>(node);
      entries[storage_.at<Node>(node).count++] = make_entry(slot, terms(storage_.place(slot).record));
      record_of(slot).home = node;
    }
  }

  static constexpr uint32_t few_in_chain = 16;

  void prune(Ref node) {
    while (node != 0 && node != root_ && storage_.at<Node>(node).total == 0 && storage_.at<Node>(node).partitions == 0) {
      node = remove_child(node);
    }
  }

  // Removes an empty node, if it may go, and with its last node the partition; what may be next is returned, or none.
  Ref remove_child(Ref ref) {
    Node node = storage_.at<Node>(ref);
    Partition& partition = partition_of(ref);
    bool is_sorted = partition.way == Way::lower || partition.way == Way::upper;
    Ref next = node.parent;
    if (is_sorted) {
      Ref* first = storage_.items<Blocks, Ref>(partition.details);
      Ref* block = find_block(partition, ref);
      if (block == first && partition.children > 1) return 0;  // it takes all that is below the second block
      if (block != first) next = *first;                       // which had to stay while there were others
      storage_.erase_item<Blocks, Ref>(partition.details, static_cast<size_t>(block - first));
    } else if (partition.way != Way::group) {
      storage_.unfile(node.hash, ref);
      if (has_levels(partition.way)) leave_level(partition, level_of(partition.way, node.key.size));
    }
    release_key(node.key);
    release_key(node.second);
    storage_.release(ref, node_size(node.capacity));
    --nodes_;
    if (--partition.children == 0) drop_partition(node.parent, partition);
    return next;
  }

  void drop_partition(Ref node, Partition& partition) {
    --partitions_[static_cast<size_t>(partition.way)];
    switch (partition.way) {
      case Way::cell:
      case Way::prefix:
      case Way::suffix:
      case Way::contains:
        if (partition.details != 0) storage_.release_list<Levels, Level>(partition.details);
        break;
      case Way::lower:
      case Way::upper: storage_.release_list<Blocks, Ref>(partition.details); break;
      case Way::group:
        storage_.release(partition.details,
                         sizeof(Group) + sizeof(Predicate) + storage_.at<Group>(partition.details).bytes);
        break;
      default: break;
    }
    Ref list = storage_.at<Node>(node).partitions;
    size_t place = static_cast<size_t>(&partition - storage_.items<PartitionList, Partition>(list));
    storage_.erase_item<PartitionList, Partition>(list, place);
    if (storage_.at<PartitionList>(list).count == 0) {
      storage_.release_list<PartitionList, Partition>(list);
      storage_.at<Node>(node).partitions = 0;
    }
  }

  // -- levels ------------------------------------------------------------------------------------------------------------

  static bool has_levels(Way way) {
    return way == Way::cell || way == Way::prefix || way == Way::suffix || way == Way::contains;
  }

  static int32_t level_of(Way way, uint32_t key_size) {
    return static_cast<int32_t>(way == Way::cell ? key_size : key_size & text_size_mask);
  }

  size_t level_place(Ref list, int32_t level) {
    if (list == 0) return 0;
    const Level* levels = storage_.items<Levels, Level>(list);
    const Level* end = levels + storage_.at<Levels>(list).count;
    auto before = [](const Level& left, int32_t right) { return left.level < right; };
    return static_cast<size_t>(std::lower_bound(levels, end, level, before) - levels);
  }

  void enter_level(Ref node, uint32_t index, int32_t level) {
    Ref list = partition_at(node, index).details;
    size_t place = level_place(list, level);
    if (list == 0 || place == storage_.at<Levels>(list).count ||
        storage_.items<Levels, Level>(list)[place].level != level) {
      list = storage_.insert_item<Levels, Level>(list, place, {level, 0});
      partition_at(node, index).details = list;
    }
    ++storage_.items<Levels, Level>(list)[place].nodes;
  }

  void leave_level(Partition& partition, int32_t level) {
    size_t place = level_place(partition.details, level);
    if (--storage_.items<Levels, Level>(partition.details)[place].nodes == 0) {
      storage_.erase_item<Levels, Level>(partition.details, place);
    }
  }

  // -- children ----------------------------------------------------------------------------------------------------------

  void create_partition(Ref node, const Division& division) {
    Partition partition{++last_partition_, division.name, division.way,     division.family,
                        0,                 division.second, 0, division.score};
    if (division.way == Way::group) {
      std::vector<char> literal(division.term.bytes, division.term.bytes);
      Predicate predicate = *division.term.predicate;
      if (has_literal(predicate.test) || predicate.test == Test::wide) {
        std::string_view text = division.term.text();
        literal.assign(text.begin(), text.end());
        predicate.literal.offset = 0;
      }
      partition.details = storage_.allocate(sizeof(Group) + sizeof(Predicate) + literal.size());
      Ref child = allocate_node(node, partition.id, 2);
      storage_.at<Group>(partition.details) = {child, static_cast<uint32_t>(literal.size())};
      Predicate* stored = storage_.items<Group, Predicate>(partition.details);
      *stored = predicate;
      if (!literal.empty()) std::memcpy(reinterpret_cast<char*>(stored + 1), literal.data(), literal.size());
      partition.children = 1;
    } else if (division.way == Way::lower || division.way == Way::upper) {
      Ref child = allocate_node(node, partition.id, 2);
      bool is_text = (division.family & text_types) != 0;
      StoredKey key = store_key(is_text ? text_key({}, false, 0) : Key{bits_of(-detail::infinity), 0, nullptr, 0});
      storage_.at<Node>(child).key = key;
      partition.details = storage_.insert_item<Blocks, Ref>(0, 0, child);
      partition.children = 1;
    }
    Ref list = storage_.at<Node>(node).partitions;
    size_t place = list == 0 ? 0 : storage_.at<PartitionList>(list).count;
    list = storage_.insert_item<PartitionList, Partition>(list, place, partition);
    storage_.at<Node>(node).partitions = list;
    ++partitions_[static_cast<size_t>(division.way)];
  }

  // A partition that no filter chose, because others suited all of them better, goes again.
  void drop_if_unused(Ref node, uint32_t id) {
    uint32_t count;
    Partition* partition = partition_list(node, count);
    Partition* end = partition + count;
    while (partition != end && partition->id != id) ++partition;
    if (partition == end) return;
    if (partition->children == 0) {
      drop_partition(node, *partition);
    } else if (partition->way == Way::group) {
      prune(storage_.at<Group>(partition->details).node);
    } else if (partition->way == Way::lower || partition->way == Way::upper) {
      prune(storage_.items<Blocks, Ref>(partition->details)[0]);
    }
  }

  // The child that the record belongs to, made if need be.
  Ref enter(Ref node, uint32_t index, Ref record, size_t term) {
    Partition partition = partition_at(node, index);
    FilterTerms all = terms(record);
    int second = partition.way == Way::pair ? equality_term(all, partition.details) : -1;
    ChildKey key;
    Ref child = find_child(partition, all, term, key);
    if (child == 0) child = make_child(node, index, key);
    mark(record, partition.way, static_cast<size_t>(term));
    if (second >= 0) mark(record, partition.way, static_cast<size_t>(second));
    return child;
  }

  void mark(Ref record, Way way, size_t term) {
    if (term >= marked_terms) return;
    storage_.at<Record>(record).used |= 1u << term;
    if (is_settled_by(way, *terms(record).term(term).predicate)) storage_.at<Record>(record).satisfied |= 1u << term;
  }

  // The child for the filter, or none; then the key is what it would have.
  Ref find_child(const Partition& partition, const FilterTerms& filter, size_t term, ChildKey& key) {
    switch (partition.way) {
      case Way::lower:
      case Way::upper: return enter_block(partition, filter.term(term));
      case Way::group: return storage_.at<Group>(partition.details).node;
      case Way::contains: key.first = choose_window(partition, filter.term(term)); break;
      case Way::pair:
        key.is_pair = true;
        equality_key(filter.term(term), key.first);
        equality_key(filter.term(static_cast<size_t>(equality_term(filter, partition.details))), key.second);
        break;
      default: way_key(partition.way, filter.term(term), key.first);
    }
    return find_child(partition.id, key);
  }

  Ref find_child(uint32_t partition, const ChildKey& key) const {
    View all = storage_.view();
    Ref found = 0;
    all.find(key.filed(partition), [&](Ref ref) {
      if (!all.is_child(all.at<Node>(ref), partition, key.first, key.other())) return false;
      found = ref;
      return true;
    });
    return found;
  }

  Ref make_child(Ref node, uint32_t index, const ChildKey& key) {
    Partition partition = partition_at(node, index);
    std::string texts[2] = {long_text(key.first), long_text(key.second)};
    Key first = key.first, second = key.second;
    if (!texts[0].empty()) first.text = texts[0].data();
    if (!texts[1].empty()) second.text = texts[1].data();
    Ref child = allocate_node(node, partition.id, 2);
    StoredKey stored = store_key(first);
    storage_.at<Node>(child).key = stored;
    if (key.is_pair) {
      stored = store_key(second);
      storage_.at<Node>(child).second = stored;
    }
    uint32_t hash = key.filed(partition.id);
    storage_.at<Node>(child).hash = hash;
    storage_.file(hash, child);
    if (has_levels(partition.way)) enter_level(node, index, level_of(partition.way, first.size));
    ++partition_at(node, index).children;
    return child;
  }

  // Of a few windows of the needle, the one with the fewest filters.
  Key choose_window(const Partition& partition, const Term& term) {
    std::string_view needle = term.text();
    size_t size = window_length(static_cast<uint32_t>(needle.size()));
    size_t windows = needle.size() - size + 1, step = (windows + 7) / 8;
    Key best;
    uint32_t least = ~0u;
    for (size_t start = 0; start < windows && least != 0; start += step) {
      std::string_view window = needle.substr(start, size);
      Key key = storage_.hasher().part_key(window);
      Ref child = find_child(partition.id, ChildKey{key, {}, false});
      uint32_t total = child == 0 ? 0 : storage_.at<Node>(child).total + (storage_.at<Node>(child).partitions != 0 ? 1000 : 0);
      if (total < least) {
        least = total;
        best = key;
      }
    }
    return best;
  }

  // -- sorted blocks -------------------------------------------------------------------------------------------------------

  // Whether the block begins above the bound.
  bool begins_above(Ref block, const Partition& partition, const Bound& bound) {
    const Node& node = storage_.at<Node>(block);
    if ((partition.family & text_types) == 0) {
      double begin;
      std::memcpy(&begin, &node.key.bits, 8);
      return begin > bound.number;
    }
    return key_text(node) > bound.text;
  }

  std::string_view key_text(const Node& node) {
    uint32_t size = node.key.size & text_size_mask;
    if (size <= 8) return {reinterpret_cast<const char*>(&node.key.bits), size};
    return {&storage_.at<char>(node.key.text), size};
  }

  Ref enter_block(const Partition& partition, const Term& term) {
    Bound bound;
    bound_of(partition.way, term, bound);
    return storage_.items<Blocks, Ref>(partition.details)[block_for(partition, bound)];
  }

  size_t block_for(const Partition& partition, const Bound& bound) {
    const Ref* blocks = storage_.items<Blocks, Ref>(partition.details);
    size_t low = 0, high = partition.children;
    while (high - low > 1) {
      size_t middle = (low + high) / 2;
      (begins_above(blocks[middle], partition, bound) ? high : low) = middle;
    }
    return low;
  }

  Key bound_key(const Partition& partition, const Bound& bound) {
    if ((partition.family & text_types) != 0) return text_key(bound.text, false, 0);
    return {bits_of(bound.number), 0, nullptr, 0};
  }

  // Moves the upper half of an overfull block into a block of its own; false if all its bounds are the same.
  bool split_block(Ref ref) {
    Ref parent = storage_.at<Node>(ref).parent;
    uint32_t count;
    uint32_t index = static_cast<uint32_t>(&partition_of(ref) - partition_list(parent, count));
    Partition partition = partition_at(parent, index);
    std::vector<std::pair<Bound, Slot>> bounds;
    if (storage_.at<Node>(ref).total > most_at_once) return false;  // a block that is split in part is in no order
    for (Slot slot : slots_of(ref, most_at_once)) {
      FilterTerms all = terms(storage_.place(slot).record);
      int term = applicable_term(partition, all, *this);
      Bound bound;
      bound_of(partition.way, all.term(static_cast<size_t>(term)), bound);
      bounds.push_back({bound, slot});
    }
    auto before = [](const auto& left, const auto& right) {
      return std::tie(left.first.number, left.first.text) < std::tie(right.first.number, right.first.text);
    };
    std::sort(bounds.begin(), bounds.end(), before);
    auto middle = std::upper_bound(bounds.begin(), bounds.end(), bounds[bounds.size() / 2], before);
    if (middle == bounds.end()) middle = std::lower_bound(bounds.begin(), bounds.end(), bounds[bounds.size() / 2], before);
    if (middle == bounds.begin()) return false;
    std::vector<Slot> moving;
    for (auto at = middle; at != bounds.end(); ++at) moving.push_back(at->second);
    std::string text(middle->first.text);
    Bound bound{middle->first.number, text};
    Ref block = allocate_node(parent, partition.id, 2);
    StoredKey key = store_key(bound_key(partition, bound));
    storage_.at<Node>(block).key = key;
    size_t place = block_for(partition, bound) + 1;
    Ref list = storage_.insert_item<Blocks, Ref>(partition.details, place, block);
    partition_at(parent, index).details = list;
    ++partition_at(parent, index).children;
    for (Slot slot : moving) {
      Ref record = storage_.place(slot).record;
      detach(record);
      block = attach(block, record);
    }
    return true;
  }

  std::vector<Slot> slots_of(Ref node, size_t most) {
    std::vector<Slot> slots;
    const Entry* entries = storage_.items<Node, Entry>(node);
    for (uint16_t i = 0; i < storage_.at<Node>(node).count; ++i) slots.push_back(entries[i].slot);
    chains_.collect(node, most, slots);
    return slots;
  }

  static constexpr size_t most_at_once = 1024;  // filters that one update looks at, and moves, at most

  Storage storage_;
  Chains chains_{storage_};
  Ref root_ = 0;
  uint64_t nodes_ = 0;
  uint32_t last_partition_ = 0;
  std::array<uint64_t, ways> partitions_{};
};

}  // namespace palio
