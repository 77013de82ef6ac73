// The tree of an index: the children of nodes, by the partition they belong to. It knows which child is a filter's, and
// makes it, not which partition a filter had best go to.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nodes.hpp"

namespace palio {

class Tree : protected Nodes {
 protected:
  using Nodes::Nodes;

  // -- children ----------------------------------------------------------------------------------------------------------

  void create_partition(Ref node, const Division& division) {
    Predicate predicate{};  // of a group: a copy with its literal, because the arena moves when it grows
    std::string literal;
    if (division.way == Way::group) {
      predicate = *division.term.predicate;
      if (has_literal(predicate.test) || predicate.test == Test::wide) {
        literal = division.term.text();
        predicate.literal.offset = 0;
      }
    }
    storage_.prepare_more(literal.size());
    Partition partition{++last_partition_, division.name, division.way,     division.family,
                        0,                 division.second, 0, division.score};
    if (division.way == Way::group) {
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

  // A copy: the text may lie in the arena, which moves when it grows. Made before anything is changed, because there may
  // be no memory for it.
  static std::string long_text(const Key& key) {
    return is_long(key) ? std::string(key.text, key.size & text_size_mask) : std::string();
  }

  Ref make_child(Ref node, uint32_t index, const ChildKey& key) {
    Partition partition = partition_at(node, index);
    std::string texts[2] = {long_text(key.first), long_text(key.second)};
    Key first = key.first, second = key.second;
    if (!texts[0].empty()) first.text = texts[0].data();
    if (!texts[1].empty()) second.text = texts[1].data();
    storage_.prepare_more(texts[0].size() + texts[1].size());
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
    storage_.prepare_more(text.size() + 2 * partition.children * sizeof(Ref));
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
};

}  // namespace palio
