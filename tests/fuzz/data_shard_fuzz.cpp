// SPDX-License-Identifier: Apache-2.0
// A shard, as it is and with every checksum made right; then as the one shard of a dataset.
#include <cstring>

#include "base/hash.h"
#include "data/corpus_folder.h"
#include "data/shard/shard_reader.h"
#include "data/shard/shard_writer.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

using namespace data;

std::string signed_again(std::string bytes) {
  ShardHeader header;
  if (bytes.size() < sizeof header) return bytes;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.file_bytes = bytes.size();
  const std::string_view view = bytes;
  if (header.columns_offset <= bytes.size() && header.checksums_offset <= bytes.size() && header.block_bytes > 0) {
    const uint64_t room = (bytes.size() - header.checksums_offset) / sizeof(uint64_t);
    for (uint64_t block = 0; block < std::min(header.num_blocks, room); ++block) {
      const uint64_t begin = header.header_bytes + block * header.block_bytes;
      if (begin >= header.columns_offset) break;
      const uint64_t checksum =
          xxh3_64(view.substr(begin, std::min(header.block_bytes, header.columns_offset - begin)));
      std::memcpy(bytes.data() + header.checksums_offset + block * sizeof checksum, &checksum, sizeof checksum);
    }
    header.tables_checksum = xxh3_64(view.substr(header.columns_offset));
  }
  header.header_checksum = xxh3_64(std::as_bytes(std::span(&header, 1)).first(offsetof(ShardHeader, header_checksum)));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

void read_documents(const Split& split) {
  constexpr int64_t kSome = 100;
  for (int64_t document = 0; document < std::min(split.documents(), kSome); ++document) {
    accepted([&] {
      const int64_t begin = split.document_begin(document);
      require(begin >= 0 && begin <= split.tokens(), "a document begins outside of its split");
    });
    accepted([&] { split.origin(document); });
  }
  const int64_t count = std::min(split.tokens(), kSome);
  std::vector<int32_t> tokens(static_cast<size_t>(count)), starts;
  accepted([&] { split.read(split.tokens() - count, tokens); });
  std::vector<float> weights(static_cast<size_t>(count));
  accepted([&] {
    split.read_weights(split.tokens() - count, weights);
    for (const float weight : weights) require(is_weight(static_cast<double>(weight)), "a number that is no weight");
  });
  accepted([&] {
    split.document_starts(0, count, starts);
    for (const int32_t start : starts) require(start >= 0 && start < count, "a document starts outside of the window");
  });
  for (int64_t token = 0; token < count; ++token) {
    accepted([&] {
      const TokenPosition place = split.locate(token);
      require(place.document >= 0 && place.offset >= 0 && place.offset <= token, "a token outside of its document");
    });
  }
}

void read(const std::string& bytes) {
  make_folders(scratch() / "set");
  const Path path = write_scratch("set/shard", bytes);
  accepted([&] {
    const ShardReader reader(path);
    for (const Column& column : reader.columns())
      accepted([&] { reader.check_range(column, 0, reader.column_bytes(column).size()); });
    reader.find_damage();

    const ShardHeader& header = reader.header();
    DatasetManifest manifest;
    SplitEntry& split = manifest.splits.emplace_back();
    split.name = "train";
    split.tokens = static_cast<int64_t>(header.num_tokens);
    split.documents = static_cast<int64_t>(header.num_documents);
    split.shards.push_back({"shard", static_cast<int64_t>(bytes.size()), split.tokens, split.documents, "",
                            to_hex64(header.header_checksum)});
    if (reader.find_column(kWeightsColumn) != nullptr) split.shards.back().weights.emplace();
    write_scratch(std::string("set/") + std::string(kManifestName), manifest_text(manifest));
    const Dataset dataset = Dataset::open(scratch() / "set");
    read_documents(dataset.split("train"));
  });
}

}  // namespace

void run(std::string_view input) {
  read(std::string(input));
  read(signed_again(std::string(input)));
}

std::vector<std::string> seeds() {
  write_corpus(scratch() / "text", 3);
  const Path out = scratch() / "data";
  std::vector<std::string> found;
  const DatasetManifest manifest = build(out, {scratch() / "text"}).manifest;
  for (const ShardEntry& shard : manifest.splits.at(0).shards) found.push_back(read_file(out / shard.file));
  {
    // Many blocks, and a column of 2-D rows.
    ShardWriter writer(scratch() / "small", std::string(32, '0'), 64);
    writer.begin_column(kTokensColumn, ElementType::kU16, ColumnAxis::kToken);
    writer.append(std::vector<uint16_t>(40, 7));
    writer.begin_column(kDocumentEndsColumn, ElementType::kU64, ColumnAxis::kDocument);
    writer.append(std::vector<uint64_t>{10, 10, 40});
    writer.begin_column(kSourceColumn, ElementType::kU32, ColumnAxis::kDocument);
    writer.append(std::vector<uint32_t>{0, 1, 2});
    writer.begin_column(kWeightsColumn, ElementType::kF32, ColumnAxis::kToken);
    writer.append(std::vector<float>(40, 0.5F));
    writer.begin_column("shape", ElementType::kU8, ColumnAxis::kDocument, {2, 3});
    writer.append(std::vector<uint8_t>(18, 1));
    writer.finish();
  }
  found.push_back(read_file(scratch() / "small"));
  {
    // Tokens that lie in another file, of which several blocks and a rest.
    write_scratch("tokens", std::string(300, '\5'));
    const MappedFile tokens(scratch() / "tokens");
    ShardWriter writer(scratch() / "outside", std::string(32, '0'), 64);
    writer.begin_column(kDocumentEndsColumn, ElementType::kU64, ColumnAxis::kDocument);
    writer.append(std::vector<uint64_t>{10, 10, 140});
    writer.add_outside_column(kTokensColumn, ElementType::kU16, ColumnAxis::kToken,
                              std::filesystem::absolute(scratch() / "tokens"), 300, 20,
                              tokens.bytes().subspan(20, 280));
    writer.finish();
  }
  found.push_back(read_file(scratch() / "outside"));
  return found;
}

}  // namespace hearth::fuzz
