// manifest.json: what a dataset is made of. Written last by a build: a folder without it is no dataset.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::data {

inline constexpr int64_t kManifestVersion = 1;  // stored on disk
inline constexpr std::string_view kManifestName = "manifest.json";

struct SourceFile {
  std::string path;  // as found, through links
  std::string real_path;
  int64_t size_bytes = 0;
  std::string hash;  // XXH3-128 of the content
  bool operator==(const SourceFile&) const = default;
};

struct ShardEntry {
  std::string file;  // name in the dataset's folder
  int64_t size_bytes = 0;
  int64_t tokens = 0, documents = 0;
  std::string identity;  // 32 hexadecimal digits: what it was made from
  std::string checksum;  // 16 hexadecimal digits: the header's checksum, which stands for every byte
  bool operator==(const ShardEntry&) const = default;
};

struct SplitEntry {
  std::string name;  // "train", "validation"
  int64_t documents = 0;
  int64_t tokens = 0;      // BOS and EOS included
  int64_t text_bytes = 0;  // of the text the tokens were made from: the denominator of bits per byte
  std::vector<ShardEntry> shards;
  bool operator==(const SplitEntry&) const = default;
};

// What changes the tokens. Everything here is part of the identity.
struct BuildRules {
  std::string tokenizer = "bytes";
  bool bos = false, eos = true;    // before and after each document
  double validation = 0;           // share of the documents that is held out
  int64_t document_bytes = 0;      // longer files are cut at line ends into documents of about this size; 0: never
  int64_t shard_tokens = 1 << 26;  // a shard is closed when its documents' text reaches so many bytes
  bool operator==(const BuildRules&) const = default;
};

struct Manifest {
  std::string identity;  // 32 hexadecimal digits over rules, tokenizer, and the documents' content and order
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int64_t bos = -1, eos = -1;  // ids; -1: the tokenizer has none
  BuildRules rules;
  std::vector<SourceFile> sources;  // sorted by real path; those that gave documents
  std::vector<SplitEntry> splits;
  int64_t links_resolved = 0;      // paths that led to a file already listed
  int64_t duplicates_dropped = 0;  // files whose content another file already had
  int64_t empty_dropped = 0;       // files without a byte
  int64_t skipped = 0;             // entries of folders that are no files: dangling links, sockets
  int64_t invalid_utf8_files = 0, invalid_utf8_bytes = 0;  // kept as they are

  const SplitEntry* find_split(std::string_view name) const;
};

std::string manifest_text(const Manifest& manifest);  // JSON, the same bytes for the same manifest
// `origin` names the file in errors. Throws user_error for a manifest of another version or of something else,
// damaged() for one whose checksum is wrong or that lacks what version 1 must have.
Manifest parse_manifest(std::string_view text, const std::string& origin);
// Throws user_error if `folder` holds no dataset.
Manifest read_manifest(const Path& folder);

}  // namespace hearth::data
