// SPDX-License-Identifier: Apache-2.0
#include "data/export/export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "data/formats/utf8.h"

namespace hearth::data {
namespace {

constexpr int64_t kChunkTokens = 1 << 20;

Path with_ending(const Path& path, const char* ending) {
  Path full = path;
  full += ending;
  return full;
}

// A file that appears under its name when it is complete.
class NewFile {
 public:
  explicit NewFile(const Path& path)
      : path_(path), temporary_(with_ending(path, ".tmp")), file_(File::create(temporary_)) {}
  template <typename T>
  void append(const std::vector<T>& values) {
    file_.write(std::as_bytes(std::span(values)));
  }
  void append(std::string_view text) { file_.write(text); }
  void finish() {
    file_.sync();
    file_.close();
    rename_path(temporary_, path_);
  }

 private:
  Path path_, temporary_;
  File file_;
};

template <typename T>
void append_tokens(const Split& split, bool labels, NewFile& file) {
  std::vector<int32_t> ids;
  std::vector<float> weights;
  std::vector<T> tokens;
  for (int64_t begin = 0; begin < split.tokens(); begin += kChunkTokens) {
    ids.resize(static_cast<size_t>(std::min(kChunkTokens, split.tokens() - begin)));
    split.read(begin, ids);
    if (labels) {
      weights.resize(ids.size());
      split.read_weights(begin, weights);
      ids = masked_labels(ids, weights);
    }
    tokens.assign(ids.begin(), ids.end());
    file.append(tokens);
  }
}

template <typename T>
void append_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Calls body(begin, length) for each document, and writes the results in chunks.
template <typename T, typename Body>
void append_column(const Split& split, NewFile& file, const Body& body) {
  std::vector<T> column;
  int64_t begin = 0;
  for (int64_t i = 0; i < split.documents(); ++i) {
    const int64_t end = split.document_begin(i + 1);
    column.push_back(body(begin, end - begin));
    begin = end;
    if (column.size() < static_cast<size_t>(kChunkTokens)) continue;
    file.append(column);
    column.clear();
  }
  file.append(column);
}

// The layout: indexed_file.h.
void write_indexed(const Split& split, const Path& prefix, bool small, bool labels) {
  constexpr uint8_t kU16 = 8, kI32 = 4;
  const int64_t token_bytes = small ? 2 : 4;
  NewFile tokens(with_ending(prefix, ".bin")), index(with_ending(prefix, ".idx"));
  if (small)
    append_tokens<uint16_t>(split, labels, tokens);
  else
    append_tokens<int32_t>(split, labels, tokens);

  const auto documents = static_cast<uint64_t>(split.documents());
  std::string header("MMIDIDX\0\0", 9);
  append_value<uint64_t>(header, 1);
  append_value<uint8_t>(header, small ? kU16 : kI32);
  append_value<uint64_t>(header, documents);
  append_value<uint64_t>(header, documents + 1);
  index.append(header);
  append_column<int32_t>(split, index, [](int64_t, int64_t length) {
    if (length > INT32_MAX)
      throw user_error(fmt::format("a document has {} tokens", length), "the format holds 2147483647 at most",
                       "build with --document-bytes");
    return static_cast<int32_t>(length);
  });
  append_column<int64_t>(split, index, [&](int64_t begin, int64_t) { return begin * token_bytes; });
  int64_t number = 0;
  index.append(std::vector<int64_t>{0});
  append_column<int64_t>(split, index, [&](int64_t, int64_t) { return ++number; });
  tokens.finish();
  index.finish();
}

Path label_prefix(const Path& prefix) { return with_ending(prefix, "_label"); }

}  // namespace

Error real_weights(const Dataset& dataset, const Split& split, std::string_view what, const char* fix) {
  return user_error(fmt::format("{} cannot hold the weights of {}", what, dataset.folder().string()),
                    describe_weights(*split.weights(), split.tokens()) + ": a label can only count or not count", fix);
}

std::vector<Path> indexed_files(const Split& split, const Path& prefix) {
  std::vector<Path> files;
  for (const Path& p : split.weights() ? std::vector{prefix, label_prefix(prefix)} : std::vector{prefix})
    for (const char* ending : {".bin", ".idx"}) files.push_back(with_ending(p, ending));
  return files;
}

// The numbers and the labels' type are GPT-NeoX's (megatron/data/indexed_dataset.py: best_fitting_dtype).
ExportResult export_indexed(const Dataset& dataset, const Split& split, const Path& prefix) {
  if (split.weights() && !split.weights()->is_mask)
    throw real_weights(dataset, split, "bin-idx", "give --to save-to-disk, which has a column \"weights\"");
  if (split.weights()) write_indexed(split, label_prefix(prefix), /*small=*/false, /*labels=*/true);
  write_indexed(split, prefix, dataset.manifest().vocab_size < 65500, /*labels=*/false);
  return {split.documents(), split.tokens(), 0};
}

ExportResult export_jsonl(const Dataset& dataset, const Split& split, const Path& path) {
  const auto tokenizer = dataset.open_tokenizer();
  if (!tokenizer->has_text())
    throw user_error(
        fmt::format("{} has no text", dataset.folder().string()),
        tokenizer->arrays() != nullptr ? "its documents are arrays" : "it was built from token ids with --vocab-size",
        "give --to bin-idx");
  ExportResult result{split.documents(), split.tokens(), 0};
  NewFile file(path);
  std::vector<int32_t> ids;
  std::string lines;
  for (int64_t i = 0; i < split.documents(); ++i) {
    const int64_t begin = split.document_begin(i);
    ids.resize(static_cast<size_t>(split.document_begin(i + 1) - begin));
    split.read(begin, ids);
    const std::vector<uint32_t> tokens(ids.begin(), ids.end());
    const std::string text = tokenizer->decode_all(tokens);
    result.replaced_documents += count_invalid_utf8(text) > 0 ? 1 : 0;
    lines += nlohmann::json{{"text", text}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    if (lines.size() < static_cast<size_t>(kChunkTokens)) continue;
    file.append(lines);
    lines.clear();
  }
  file.append(lines);
  file.finish();
  return result;
}

}  // namespace hearth::data
