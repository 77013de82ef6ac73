// What the fuzz targets share. They have the form that libFuzzer knows, and a driver of their own for other compilers.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "shared_index.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Valid inputs to begin with, and what must be put right after a mutation so that it gets past the first check.
std::vector<std::string> seeds();
void repair(std::string& input);

namespace palio::fuzz {

inline std::vector<std::string> some_texts() {
  std::vector<std::string> texts = {"", "a", "ab", "abc", "alarm", "https://example.org/a/b?c", std::string(40, 'x')};
  for (int i = 0; i < 60; ++i) texts.push_back("https://example.org/" + std::to_string(i * i * 7919) + "/" + std::to_string(i));
  for (size_t i = 0; i < 6; ++i) texts.push_back(texts[7 + i] + texts[20 + i] + texts[i] + texts[30 + i] + texts[9 * i]);
  return texts;
}

inline Value any_value(std::mt19937& random) {
  static const std::vector<std::string> texts = some_texts();
  const std::string& text = texts[random() % texts.size()];
  switch (random() % 6) {
    case 0: return Value::of_boolean(random() % 2 != 0);
    case 1: return Value::of_integer(random() % 3 == 0 ? (int64_t{1} << 53) + static_cast<int64_t>(random() % 3)
                                                       : static_cast<int64_t>(random() % 100));
    case 2: return Value::of_real(static_cast<double>(random() % 200) / 2);
    case 3: return Value::of_time(static_cast<int64_t>(random() % 100));
    case 4: return Value::of_bytes(text);
    default: return Value::of_string(text);
  }
}

// An operator that few events fail.
inline Operator excluding(std::mt19937& random, bool is_string) {
  if (random() % 4 == 0) return Operator::any;
  constexpr Operator all[] = {Operator::ne, Operator::not_prefix, Operator::not_suffix, Operator::not_contains};
  return all[is_string ? random() % 4 : 0];
}

// The constraints of one filter on a few names: of any operators, or of those that nothing divides.
inline std::vector<Constraint> any_constraints(Index& index, std::mt19937& random, bool exclude_little = false) {
  std::vector<Constraint> constraints;
  for (size_t c = random() % 4; c > 0; --c) {
    Constraint constraint{index.name_id("n" + std::to_string(random() % 6)), Operator::eq, 0, any_value(random)};
    TypeMask type = mask_of(constraint.literal.type);
    constraint.types = (type & number_types) != 0 ? number_types : type;
    bool is_string = constraint.literal.type == Type::string;
    constraint.op = static_cast<Operator>(random() % (is_string ? 14 : 6));
    if (exclude_little) constraint.op = excluding(random, is_string);
    if (constraint.op >= Operator::any) constraint.types = all_types;
    constraints.push_back(constraint);
  }
  return constraints;
}

// Enough filters to make an index divide itself in all its ways.
inline void fill(Index& index, std::mt19937& random, size_t filters, bool exclude_little = false) {
  Compiled compiled;
  for (size_t i = 0; i < filters; ++i) {
    compiled.compile(any_constraints(index, random, exclude_little), index.view().hasher);
    index.add(compiled);
  }
}

}  // namespace palio::fuzz
