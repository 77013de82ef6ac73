// The nodes of an index, with their buckets and partitions, and the records of filters: how they are kept consistent
// while filters come and go.
#pragma once

#include <array>
#include <vector>

#include "chains.hpp"

namespace palio {

class Nodes : protected Surroundings {
 protected:
  explicit Nodes(const Hasher& hasher) : storage_(hasher) { root_ = allocate_node(0, 0, bucket_capacity); }

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

  // The key's text must not lie in the arena.
  StoredKey store_key(const Key& key) {
    StoredKey stored{key.bits, key.size, 0};
    uint32_t size = key.size & text_size_mask;
    if (is_long(key)) {
      stored.text = storage_.allocate(size);
      std::memcpy(&storage_.at<char>(stored.text), key.text, size);
    }
    return stored;
  }

  static bool is_long(const Key& key) {
    return (key.size & text_flag) != 0 && key.text != nullptr && (key.size & text_size_mask) > 8;
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
      append_to_chain(node, record);
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

  // The filters of a node, at most so many; of a chain the youngest.
  std::vector<Slot> slots_of(Ref node, size_t most) {
    std::vector<Slot> slots;
    const Entry* entries = storage_.items<Node, Entry>(node);
    for (uint16_t i = 0; i < storage_.at<Node>(node).count; ++i) slots.push_back(entries[i].slot);
    chains_.collect(node, most, slots);
    return slots;
  }

  static constexpr size_t most_at_once = 1024;  // filters that one update looks at, and moves, at most

  // Moves the bucket's entries to its chain: nothing divides them, so they are better decided together.
  void chain_up(Ref node) {
    std::array<Slot, bucket_capacity + 1> waiting;
    uint32_t count = storage_.at<Node>(node).count;
    for (uint32_t i = 0; i < count; ++i) waiting[i] = storage_.items<Node, Entry>(node)[i].slot;
    if (storage_.at<Node>(node).total == count + 1) waiting[count++] = chains_.take_last(node);  // stays the last
    storage_.at<Node>(node).count = 0;
    for (uint32_t i = 0; i < count; ++i) append_to_chain(node, storage_.place(waiting[i]).record);
  }

  void append_to_chain(Ref node, Ref record) {
    Ref chunk = chains_.append(node, storage_.at<Record>(record).slot, terms(record));
    storage_.at<Record>(record).home = chunk;
  }

  // And back, when so few are left that none are in the bucket.
  void unchain(Ref node) {
    while (storage_.at<Node>(node).chain != 0) {
      Slot slot = chains_.take_last(node);
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

  Storage storage_;
  Chains chains_{storage_};
  Ref root_ = 0;
  uint64_t nodes_ = 0;
  uint32_t last_partition_ = 0;
  std::array<uint64_t, ways> partitions_{};
};

}  // namespace palio
