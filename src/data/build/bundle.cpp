// SPDX-License-Identifier: Apache-2.0
#include "data/build/bundle.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/build/shards.h"
#include "data/formats/text_weights.h"
#include "data/shard/weight_column.h"

namespace hearth::data {
namespace {

constexpr size_t kEncodeBytes = 1 << 20;  // text encoded at a time

// Ids as the column stores them, and their weights as labels.
class TokenColumn {
 public:
  TokenColumn(ShardWriter& writer, const tokenizer::Tokenizer& tokenizer)
      : writer_(writer),
        tokenizer_(tokenizer),
        encoder_(tokenizer.encoder()),
        weigher_(tokenizer),
        type_(token_type(tokenizer.vocab_size())) {
    writer_.begin_column(kTokensColumn, type_, ColumnAxis::kToken);
  }

  // `weights` are those of the text's bytes, or of the ids; empty: each is 1.
  void append_text(std::string_view text, const WeightRuns& weights) {
    for (int64_t begin = 0; !text.empty();) {
      const size_t cut = text.size() <= kEncodeBytes ? text.size() : tokenizer_.safe_cut(text, kEncodeBytes);
      encoder_->encode(text.substr(0, cut), ids_);
      if (weights.runs().size() > 1)
        weigher_.append(text.substr(0, cut), ids_, weights, begin, weights_);
      else
        weights_.append(std::ssize(ids_), weights.empty() ? 1 : weights.runs().front().weight);
      text.remove_prefix(cut);
      begin += static_cast<int64_t>(cut);
      flush();
    }
  }
  void append_id(uint32_t id, float weight) {
    ids_.push_back(id);
    weights_.append(1, weight);
    flush();
  }
  void append_ids(std::string_view bytes, const WeightRuns& weights) {  // u32 as in memory
    ids_.resize(bytes.size() / sizeof(uint32_t));
    if (!ids_.empty()) std::memcpy(ids_.data(), bytes.data(), bytes.size());
    if (weights.empty())
      weights_.append(std::ssize(ids_), 1);
    else
      weights_.append(weights);
    flush();
  }
  uint64_t count() const { return count_; }
  const WeightRuns& weights() const { return weights_; }
  const tokenizer::EncodeCounts& encode_counts() const { return encoder_->counts(); }

 private:
  void flush() {
    for (const uint32_t id : ids_) HEARTH_CHECK(id < tokenizer_.vocab_size());
    switch (type_) {
      case ElementType::kU8:
        writer_.append(std::vector<uint8_t>(ids_.begin(), ids_.end()));
        break;
      case ElementType::kU16:
        writer_.append(std::vector<uint16_t>(ids_.begin(), ids_.end()));
        break;
      default:
        writer_.append(ids_);
    }
    count_ += ids_.size();
    ids_.clear();
  }

  ShardWriter& writer_;
  const tokenizer::Tokenizer& tokenizer_;
  std::unique_ptr<tokenizer::Encoder> encoder_;
  TextWeights weigher_;
  ElementType type_;
  std::vector<uint32_t> ids_;
  WeightRuns weights_;
  uint64_t count_ = 0;
};

// A column that is mostly zeros. It is left out if all values are 0.
void append_rare_column(ShardWriter& writer, std::string_view name, const std::vector<uint32_t>& values) {
  if (std::ranges::all_of(values, [](uint32_t value) { return value == 0; })) return;
  writer.add_column(name, ColumnAxis::kDocument, values);
}

int64_t sum_of_rare_column(const ShardReader& shard, std::string_view name) {
  const Column* column = shard.find_column(name);
  if (column == nullptr || column->type != ElementType::kU32) return 0;
  const std::span<const std::byte> bytes = shard.column_bytes(*column);
  int64_t sum = 0;
  for (size_t at = 0; at + sizeof(uint32_t) <= bytes.size(); at += sizeof(uint32_t)) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    sum += value;
  }
  return sum;
}

uint32_t saturated(int64_t count) { return static_cast<uint32_t>(std::min<int64_t>(count, 0xFFFFFFFF)); }

ShardHeader write_shard(const Path& path, const std::string& identity, const std::vector<Document>& documents,
                        const BuildPlan& plan, const BuildRules& rules, BuildProgress& progress) {
  const tokenizer::Tokenizer& tokenizer = *plan.tokenizer;
  ShardWriter writer(path, identity);
  TokenColumn tokens(writer, tokenizer);
  DocumentColumns columns;
  std::vector<uint32_t> special_text, bytes_replaced;
  for (const Document& document : documents) {
    const uint64_t before = tokens.count();
    const tokenizer::EncodeCounts counts_before = tokens.encode_counts();
    if (document.is_ids) {
      tokens.append_ids(document.data, document.weights);
    } else {
      const auto& runs = document.weights.runs();
      if (rules.bos) tokens.append_id(*tokenizer.bos(), runs.empty() ? 1 : runs.front().weight);
      tokens.append_text(document.data, document.weights);
      if (rules.eos) tokens.append_id(*tokenizer.eos(), runs.empty() ? 1 : runs.back().weight);
    }
    columns.add(document, tokens.count(), plan.text_bytes_of(document));
    const tokenizer::EncodeCounts& counts = tokens.encode_counts();
    special_text.push_back(saturated(counts.special_text_seen - counts_before.special_text_seen));
    bytes_replaced.push_back(saturated(counts.invalid_bytes_replaced - counts_before.invalid_bytes_replaced));
    progress.text_bytes_done += static_cast<int64_t>(document.data.size());
    progress.tokens_done += static_cast<int64_t>(tokens.count() - before);
  }
  columns.write(writer);
  append_rare_column(writer, kSpecialTextColumn, special_text);
  append_rare_column(writer, kBytesReplacedColumn, bytes_replaced);
  write_weights(writer, tokens.weights());
  return writer.finish();
}

// A document's element in the sequence hash.
Hash128 content_of(const Document& document) {
  return xxh3_128(fmt::format("{} {}", to_hex(document.content), document.data.size()));
}

}  // namespace

void Bundle::add(const Document& document, size_t split) {
  std::vector<Document>& documents = documents_[split];
  documents.push_back(document);
  data_bytes_ += static_cast<int64_t>(document.data.size());
  if (document.owner != nullptr || document.data.empty()) return;
  auto* copy = static_cast<char*>(memory_->allocate(document.data.size(), alignof(uint32_t)));
  std::memcpy(copy, document.data.data(), document.data.size());
  documents.back().data = {copy, document.data.size()};
}

std::string identity_of(const ShardHeader& header) {
  std::string text;
  for (const uint8_t byte : header.identity) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<ShardHeader> find_whole_shard(const Path& path, const std::string& identity) {
  if (!path_exists(path)) return {};
  try {
    const ShardReader reader(path);
    if (identity_of(reader.header()) == identity && reader.find_damage().empty()) return reader.header();
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
  }
  return {};
}

std::array<BundleSplit, kNumSplits> write_bundle(const Bundle& bundle, const BuildPlan& plan,
                                                 const BuildOptions& options, BuildProgress& progress) {
  std::array<BundleSplit, kNumSplits> result;
  for (size_t s = 0; s < kNumSplits; ++s) {
    const std::vector<Document>& documents = bundle.documents(s);
    if (documents.empty()) continue;
    for (const Document& document : documents) {
      result[s].text_bytes += plan.text_bytes_of(document);
      result[s].content.append(content_of(document));
    }
    const std::string file = shard_name(s, bundle.portion(), bundle.index());
    const std::string identity = plan.shard_identity(s, bundle.portion(), bundle.index());
    std::optional<ShardHeader> header = find_whole_shard(options.out / file, identity);
    result[s].kept = header.has_value();
    if (!header && plan.arrays)
      header = write_array_shard(options.out / file, identity, documents, *plan.arrays, progress);
    else if (!header && options.rules.in_place)
      header = write_outside_shard(options.out / file, identity, documents, plan, options.rules, progress);
    else if (!header)
      header = write_shard(options.out / file, identity, documents, plan, options.rules, progress);
    const ShardReader shard(options.out / file);
    result[s].special_text_seen = sum_of_rare_column(shard, kSpecialTextColumn);
    result[s].invalid_bytes_replaced = sum_of_rare_column(shard, kBytesReplacedColumn);
    ShardEntry& entry = result[s].shard.emplace();
    entry.file = file;
    entry.size_bytes = static_cast<int64_t>(header->file_bytes);
    entry.tokens = plan.arrays ? stream_tokens(shard) : static_cast<int64_t>(header->num_tokens);
    entry.documents = static_cast<int64_t>(header->num_documents);
    entry.identity = identity;
    entry.checksum = to_hex64(header->header_checksum);
    entry.tokens_in = options.rules.in_place ? static_cast<int64_t>(documents.front().source) : -1;
    entry.weights = find_weights(shard);
  }
  return result;
}

}  // namespace hearth::data
