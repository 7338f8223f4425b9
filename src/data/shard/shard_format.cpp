// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard_format.h"

namespace hearth::data {
namespace {

struct Element {
  std::string_view name;
  uint64_t size;
};

const Element& element_of(uint32_t type) {
  static constexpr Element kElements[] = {{"?", 0},   {"u8", 1},  {"u16", 2}, {"u32", 4}, {"u64", 8}, {"i8", 1},
                                          {"i16", 2}, {"i32", 4}, {"i64", 8}, {"f32", 4}, {"f64", 8}};
  return kElements[type < std::size(kElements) ? type : 0];
}

}  // namespace

Error bad_shard(const Path& path, std::string why) {
  return damaged(fmt::format("shard {} is damaged", path.string()), std::move(why), kRebuild);
}

uint64_t element_size(uint32_t element_type) { return element_of(element_type).size; }

std::string_view element_type_name(uint32_t element_type) { return element_of(element_type).name; }

ElementType token_type(int64_t vocab_size) {
  if (vocab_size <= 1 << 8) return ElementType::kU8;
  return vocab_size <= 1 << 16 ? ElementType::kU16 : ElementType::kU32;
}

}  // namespace hearth::data
