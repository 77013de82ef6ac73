// The index: filters go in and out one by one, and it keeps itself divided so that an event meets few of them.
//
// Nothing is ever rebuilt: a bucket that overflows is divided, the table grows by a bucket at a time, and memory is
// extended in place.
#pragma once

#include <vector>

#include "tree.hpp"

namespace palio {

struct Census {
  uint64_t names;
  std::array<uint64_t, ways> partitions;
  uint64_t refiled;
};

class Index : private Tree {
 public:
  using Id = uint64_t;  // the slot, and above it how often the slot was used before

  explicit Index(const Hasher& hasher = Hasher()) : Tree(hasher) {}

  View view() const {
    View view = storage_.view();
    view.root = root_;
    view.nodes = nodes_;
    view.filters = filters_;
    view.has_generations = has_generations_;
    view.is_own = true;
    return view;
  }

  NameId name_id(std::string_view name) {
    storage_.prepare(name.size());
    return storage_.name_id(name);
  }

  Id add(const Compiled& filter) {
    storage_.prepare(record_size(filter.predicates.size(), filter.bytes.size()));
    Slot slot = storage_.take_slot();
    Ref ref = store_record(slot, filter);
    storage_.place(slot).record = ref;
    for (const Predicate& predicate : filter.predicates) storage_.retain_name(predicate.name);
    ++filters_;
    settle(root_, ref);
    return id_of(slot);
  }

  // For names that were asked for and then not used by a filter.
  void forget_unused_name(NameId id) { storage_.forget_unused_name(id); }

  bool contains(Id id) const {
    View all = view();
    Slot slot = static_cast<Slot>(id);
    return slot < all.slots && all.places[slot].record != 0 && all.places[slot].generation == id >> 32;
  }

  // The id must be there.
  void remove(Id id) {
    Slot slot = static_cast<Slot>(id);
    Ref ref = storage_.place(slot).record;
    detach(ref);
    Record& record = storage_.at<Record>(ref);
    const Predicate* predicates = storage_.items<Record, Predicate>(ref);
    for (uint32_t i = 0; i < record.count; ++i) storage_.give_name(predicates[i].name);
    storage_.release(ref, record_size(record.count, record.bytes));
    storage_.give_slot(slot);
    has_generations_ = true;
    --filters_;
  }

  // Looks again at where some filters are filed, in turn, and files those anew that are better off elsewhere.
  void reconsider(size_t count) {
    if (sample_.size() < 16) return;
    storage_.prepare(0);
    uint64_t most = sample_.spent() + most_care;
    for (uint64_t slots = storage_.slots(); count > 0 && slots > 0 && sample_.spent() < most; --count) {
      if (cursor_ >= slots) cursor_ = 0;
      Ref record = storage_.place(static_cast<Slot>(cursor_++)).record;
      if (record != 0) reconsider_one(record);
    }
  }

  void observe(const Event& event) { sample_.observe(event); }

  size_t size() const { return filters_; }
  Census census() const { return {storage_.names(), partitions_, refiled_}; }
  const Storage& storage() const { return storage_; }

 private:
  Id id_of(Slot slot) { return static_cast<Id>(storage_.place(slot).generation) << 32 | slot; }

  // -- filing ------------------------------------------------------------------------------------------------------------

  // Takes a record down the tree from a node, as far as partitions apply, and into a bucket.
  void settle(Ref node, Ref record) {
    for (;;) {
      uint32_t count;
      const Partition* partitions = partition_list(node, count);
      Choice choice = choose_partition(partitions, count, terms(record), *this);
      if (choice.partition < 0 || !descend(node, choice, record)) break;
    }
    put(node, record);
  }

  // Takes a record from the node to a child of it; false if there is no memory to make one.
  bool descend(Ref& node, const Choice& choice, Ref record) {
    try {
      node = enter(node, static_cast<uint32_t>(choice.partition), record, static_cast<size_t>(choice.term));
      return true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  void put(Ref node, Ref record) {
    node = attach(node, record);
    uint32_t total = storage_.at<Node>(node).total;
    bool is_due = total == bucket_capacity + 1u || total % most_at_once == 0;
    if (!is_due && (total <= bucket_capacity || (total & (total - 1)) != 0)) return;
    try {
      divide(node);
    } catch (const std::bad_alloc&) {  // no memory to find a division: the filters are found all the same
    }
    if (is_overfull(node)) chain_up(node);
  }

  // Whether entries are in the chain while others are in the bucket: what did not fit was not divided.
  bool is_overfull(Ref node) {
    const Node& at = storage_.at<Node>(node);
    return at.count != 0 && at.chain != 0;
  }

  // Files those of the node's filters again that one of its partitions applies to, be it a poor one.
  void file_anew(Ref node, const std::vector<Slot>& slots) {
    for (Slot slot : slots) {
      uint32_t count;
      const Partition* partitions = partition_list(node, count);
      Ref record = storage_.place(slot).record;
      Choice choice = choose_partition(partitions, count, terms(record), *this, true);
      if (choice.partition < 0) continue;
      detach(record);  // the node itself stays, because it has partitions
      Ref child = node;
      if (descend(child, choice, record)) {
        settle(child, record);
      } else {
        attach(node, record);
      }
    }
  }

  // -- dividing ------------------------------------------------------------------------------------------------------------

  static constexpr uint8_t greatest_depth = 40;

  std::vector<Used> path_of(Ref node) {
    std::vector<Used> path;
    while (node != root_) {
      const Partition& partition = partition_of(node);
      const Node& at = storage_.at<Node>(node);
      NameId name = partition.way == Way::name ? static_cast<NameId>(at.key.bits) : partition.name;
      path.push_back({partition.way, name, partition.family});
      node = at.parent;
    }
    return path;
  }

  // Finds a way to divide an overfull bucket and files its filters by it.
  void divide(Ref node) {
    const Node& at = storage_.at<Node>(node);
    if (node != root_ && at.partitions == 0 && at.total != 0) {
      Way way = partition_of(node).way;
      if ((way == Way::lower || way == Way::upper) && split_block(node)) return;
    }
    if (storage_.at<Node>(node).depth >= greatest_depth) return;
    std::vector<Slot> slots = slots_of(node, most_at_once);
    std::vector<FilterTerms> filters;
    size_t step = (slots.size() + 63) / 64;
    for (size_t i = 0; i < slots.size(); i += step) filters.push_back(terms(storage_.place(slots[i]).record));
    std::vector<Used> used = path_of(node);
    uint32_t count;
    const Partition* partitions = partition_list(node, count);
    for (uint32_t i = 0; i < count; ++i) used.push_back({partitions[i].way, partitions[i].name, partitions[i].family});
    Division division = choose_division(filters, used, sample_, count >= most_partitions);
    uint32_t last = last_partition_;
    try {
      if (division.found) create_partitions(node, division, filters);
    } catch (const std::bad_alloc&) {  // the filters make do with those partitions that there are
    }
    if (storage_.at<Node>(node).partitions == 0) return;
    file_anew(node, slots);
    for (uint32_t id = last_partition_; id > last; --id) drop_if_unused(node, id);
  }

  // The partition that was chosen; or in place of equality on one name, on pairs of names.
  void create_partitions(Ref node, const Division& division, const std::vector<FilterTerms>& filters) {
    uint32_t count, pairs = 0;
    const Partition* partitions = partition_list(node, count);
    for (uint32_t i = 0; i < count; ++i) pairs += partitions[i].way == Way::pair;
    std::vector<std::pair<NameId, NameId>> names;
    if (division.way == Way::equal && pairs < most_pairs) names = choose_pairs(filters, most_pairs - pairs);
    if (names.empty()) return create_partition(node, division);
    for (const auto& [name, second] : names) {
      float score = division.score * division.score;
      create_partition(node, {true, Way::pair, name, 0, score, {}, second});
    }
  }

  static constexpr uint32_t most_pairs = 24;
  static constexpr uint32_t most_partitions = 48;  // of one node; then names are looked up instead
  static constexpr uint64_t most_care = 1 << 23;   // bytes of sampled events looked at in one go

  // -- keeping it good -----------------------------------------------------------------------------------------------------

  void reconsider_one(Ref record) {
    Ref home = storage_.at<Record>(record).home;
    Ref node = storage_.at<Node>(home).object == Object::node ? home : storage_.at<Chunk>(home).owner;
    float now = judge_path(node, record);
    if (now < good_enough) return;
    const uint32_t total = storage_.at<Node>(node).total;
    if (total > bucket_capacity && storage_.at<Record>(record).slot % total == 0) {
      divide(node);  // once a round, as many filters as there are
    } else if (best_path(record) * much_better < now || best_share(terms(record), sample_) * much_better < now) {
      refile(record, node, now);
    }
  }

  // The share of events that visit the node, by the scores of the partitions above it, which are brought up to date.
  float judge_path(Ref node, Ref record) {
    float share = 1;
    FilterTerms all = terms(record);
    all.satisfied = 0;
    for (; node != root_; node = storage_.at<Node>(node).parent) {
      Partition& partition = partition_of(node);
      int term = applicable_term(partition, all, *this);
      if (term >= 0) {
        float seen = seen_share(partition, all, static_cast<size_t>(term));
        partition.score += (std::max(seen, 0.0005f) - partition.score) / 64;
      }
      share *= partition.score;
    }
    return share;
  }

  float seen_share(const Partition& partition, const FilterTerms& filter, size_t term) {
    float all = static_cast<float>(sample_.size());
    float share = static_cast<float>(sample_.visits(partition.way, filter.term(term))) / all;
    if (partition.way != Way::pair) return share;
    size_t second = static_cast<size_t>(equality_term(filter, partition.details));
    return share * static_cast<float>(sample_.visits(partition.way, filter.term(second))) / all;
  }

  // The same for the node to which the filter would go now.
  float best_path(Ref record) {
    float share = 1;
    FilterTerms all = terms(record);
    all.satisfied = 0;
    for (Ref node = root_;;) {
      uint32_t count;
      const Partition* partitions = partition_list(node, count);
      Choice choice = choose_partition(partitions, count, all, *this);
      if (choice.partition < 0) return share;
      const Partition& partition = partitions[choice.partition];
      size_t term = static_cast<size_t>(choice.term);
      share *= partition.score;
      ChildKey key;
      node = find_child(partition, all, term, key);
      if (term < marked_terms && is_settled_by(partition.way, all.predicates[term])) all.satisfied |= 1u << term;
      if (node == 0) return share;
    }
  }

  // Moves a filter that so large a share of events visits to where fewer come, by what the sample says of this filter;
  // if there is no partition for that, to the root's bucket, which is where partitions begin.
  void refile(Ref record, Ref node, float now) {
    FilterTerms all = terms(record);
    all.satisfied = 0;
    uint32_t count;
    const Partition* partitions = partition_list(root_, count);
    Choice choice;
    float least = now / 2;
    for (uint32_t i = 0; i < count; ++i) {
      int term = applicable_term(partitions[i], all, *this);
      if (term < 0) continue;
      float share = seen_share(partitions[i], all, static_cast<size_t>(term));
      if (share >= least) continue;
      least = share;
      choice = {static_cast<int>(i), term};
    }
    if (choice.partition < 0 && node == root_) return;
    uint32_t id = choice.partition < 0 ? 0 : partitions[choice.partition].id;
    detach(record);
    storage_.at<Record>(record).satisfied = storage_.at<Record>(record).used = 0;
    ++refiled_;
    partitions = partition_list(root_, count);  // one may have gone with the filter
    uint32_t index = 0;
    while (index < count && partitions[index].id != id) ++index;
    Ref child = root_;
    if (index < count && descend(child, {static_cast<int>(index), choice.term}, record)) return settle(child, record);
    put(root_, record);
  }

  static constexpr float good_enough = 0.05f;
  static constexpr float much_better = 4;  // less would send filters to and fro between ways that are much alike

  uint64_t filters_ = 0, cursor_ = 0, refiled_ = 0;
  bool has_generations_ = false;
  Sample sample_;
};

}  // namespace palio
