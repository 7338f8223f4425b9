#include "data/shard/shard_format.h"

namespace hearth::data {

uint64_t element_size(uint32_t element_type) {
  switch (static_cast<ElementType>(element_type)) {
    case ElementType::kU8:
    case ElementType::kI8:
      return 1;
    case ElementType::kU16:
    case ElementType::kI16:
      return 2;
    case ElementType::kU32:
    case ElementType::kI32:
    case ElementType::kF32:
      return 4;
    case ElementType::kU64:
    case ElementType::kI64:
    case ElementType::kF64:
      return 8;
  }
  return 0;
}

std::string_view element_type_name(uint32_t element_type) {
  constexpr std::string_view kNames[] = {"?", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64"};
  return kNames[element_size(element_type) == 0 ? 0 : element_type];
}

ElementType token_type(int64_t vocab_size) {
  if (vocab_size <= 1 << 8) return ElementType::kU8;
  return vocab_size <= 1 << 16 ? ElementType::kU16 : ElementType::kU32;
}

}  // namespace hearth::data
