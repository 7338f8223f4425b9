// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/ids.h"

#include <charconv>

#include "base/error.h"
#include "base/hash.h"
#include "tokenizer/formats/no_encoder.h"

namespace hearth::tokenizer {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 31;  // ids are int32

}  // namespace

std::unique_ptr<Encoder> IdsTokenizer::encoder(SpecialText) const {
  return std::make_unique<NoEncoder>(user_error("text cannot be encoded without a tokenizer",
                                                "--vocab-size is for sources of token ids", "give --tokenizer FILE"));
}

void IdsTokenizer::decode(uint32_t id, std::string& text) const {
  check_id(id, "there are");
  text += fmt::format(" {}", id);
}

std::string IdsTokenizer::name() const { return fmt::format("ids:{}", vocab_size_); }

// Stored in manifests: never change.
std::string IdsTokenizer::content_hash() const { return xxh3_128_hex("hearth tokenizer " + name()); }

std::optional<int64_t> parse_ids_name(std::string_view name) {
  constexpr std::string_view kPrefix = "ids:";
  if (!name.starts_with(kPrefix)) return {};
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size() && digits[0] != '0';
  return whole && size >= 1 && size <= kMostTokens ? std::optional(size) : std::nullopt;
}

}  // namespace hearth::tokenizer
