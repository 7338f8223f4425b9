#include "data/build.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/build_plan.h"
#include "data/parallel.h"
#include "data/shard_reader.h"
#include "data/shard_writer.h"

namespace hearth::data {
namespace {

constexpr std::string_view kLockName = "build.lock";
constexpr size_t kEncodeBytes = 1 << 20;  // text that is encoded at a time

struct BuiltShard {
  ShardHeader header{};
  bool kept = false;
};

// ---- what is there already

std::string identity_of(const ShardHeader& header) {
  std::string text;
  for (const uint8_t byte : header.identity) text += fmt::format("{:02x}", byte);
  return text;
}

// True if the planned shard is there and whole: it is read to the end, so that building again also repairs.
bool is_finished(const Path& path, const PlannedShard& planned, ShardHeader& header) {
  if (!path_exists(path)) return false;
  try {
    const ShardReader reader(path);
    header = reader.header();
    return identity_of(header) == planned.identity && reader.find_damage().empty();
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return false;
  }
}

// True if a shard stands at `path` that can be read and was made from something else.
bool is_other_shard(const Path& path, const std::string& identity) {
  if (!path_exists(path)) return false;
  try {
    return identity_of(ShardReader(path).header()) != identity;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return false;
  }
}

bool is_shard_file(const std::string& name) { return name.ends_with(".shard"); }
bool is_leftover(const std::string& name) {
  return name.ends_with(".shard.tmp") || name == std::string(kManifestName) + ".tmp";
}

// True if the folder's manifest is one, and not of this plan.
bool is_other_manifest(const BuildOptions& options, const BuildPlan& plan) {
  if (!path_exists(options.out / kManifestName)) return false;
  try {
    const Manifest manifest = read_manifest(options.out);
    return manifest.identity != plan.identity || manifest.rules != options.rules;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return e.code() != ExitCode::kDamaged;  // another version is another dataset; a damaged one tells nothing
  }
}

// Throws user_error if `out` holds another build, finished or not.
void refuse_other_build(const BuildOptions& options, const BuildPlan& plan) {
  std::string evidence = is_other_manifest(options, plan) ? kManifestName.data() : "";
  for (const PlannedSplit& split : plan.splits) {
    for (const PlannedShard& shard : split.shards) {
      if (is_other_shard(options.out / shard.file, shard.identity)) evidence = shard.file;
    }
  }
  if (!evidence.empty())
    throw user_error(fmt::format("{} holds a different dataset", options.out.string()),
                     fmt::format("its {} was made from other text or with other options", evidence),
                     "choose another --out, or add --overwrite to replace it");
}

void remove_what_is_not_planned(const BuildOptions& options, const BuildPlan& plan) {
  const auto planned = [&](const std::string& name) {
    for (const PlannedSplit& split : plan.splits)
      for (const PlannedShard& shard : split.shards)
        if (shard.file == name) return true;
    return false;
  };
  for (const std::string& name : list_folder(options.out)) {
    if (is_leftover(name) || (is_shard_file(name) && !planned(name))) remove_file(options.out / name);
  }
}

// ---- writing

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Ids as the column stores them.
class TokenColumn {
 public:
  TokenColumn(ShardWriter& writer, const tokenizer::Tokenizer& tokenizer)
      : writer_(writer),
        tokenizer_(tokenizer),
        encoder_(tokenizer.encoder()),
        type_(token_type(tokenizer.vocab_size())) {
    writer_.begin_column(kTokensColumn, type_, Axis::kToken);
  }

  void append_text(std::string_view text) {
    while (!text.empty()) {
      const size_t cut = text.size() <= kEncodeBytes ? text.size() : tokenizer_.safe_cut(text, kEncodeBytes);
      encoder_->encode(text.substr(0, cut), ids_);
      text.remove_prefix(cut);
      flush();
    }
  }
  void append_id(uint32_t id) {
    ids_.push_back(id);
    flush();
  }
  uint64_t count() const { return count_; }

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
  ElementType type_;
  std::vector<uint32_t> ids_;
  uint64_t count_ = 0;
};

ShardHeader write_shard(const BuildOptions& options, const BuildPlan& plan, const PlannedShard& shard,
                        BuildProgress& progress) {
  ShardWriter writer(options.out / shard.file, shard.identity);
  TokenColumn tokens(writer, *plan.tokenizer);
  std::vector<uint64_t> ends, text_bytes, source_offsets;
  std::vector<uint32_t> sources;
  MappedFile mapped;
  int64_t mapped_source = -1;
  for (const Document* document : shard.documents) {
    const SourceFile& source = plan.corpus.sources[static_cast<size_t>(document->source)];
    if (document->source != mapped_source) mapped = MappedFile(source.real_path);
    mapped_source = document->source;
    const std::string_view file = text_of(mapped.bytes());
    const auto begin = static_cast<size_t>(document->begin), size = static_cast<size_t>(document->size_bytes);
    if (file.size() != static_cast<size_t>(source.size_bytes) ||
        xxh3_128_hex(file.substr(begin, size)) != document->hash)
      throw user_error(fmt::format("{} changed while it was read", source.path), "", "run the same command again");
    const uint64_t before = tokens.count();
    if (options.rules.bos) tokens.append_id(*plan.tokenizer->bos());
    tokens.append_text(file.substr(begin, size));
    if (options.rules.eos) tokens.append_id(*plan.tokenizer->eos());
    ends.push_back(tokens.count());
    text_bytes.push_back(size);
    sources.push_back(static_cast<uint32_t>(document->source));
    source_offsets.push_back(begin);
    progress.text_bytes_done += document->size_bytes;
    progress.tokens_done += static_cast<int64_t>(tokens.count() - before);
  }
  writer.begin_column(kDocumentEndsColumn, ElementType::kU64, Axis::kDocument);
  writer.append(ends);
  writer.begin_column(kTextBytesColumn, ElementType::kU64, Axis::kDocument);
  writer.append(text_bytes);
  writer.begin_column(kSourceColumn, ElementType::kU32, Axis::kDocument);
  writer.append(sources);
  writer.begin_column(kSourceOffsetColumn, ElementType::kU64, Axis::kDocument);
  writer.append(source_offsets);
  return writer.finish();
}

// ---- the manifest

Manifest make_manifest(const BuildPlan& plan, const BuildRules& rules,
                       const std::vector<std::vector<BuiltShard>>& built) {
  Manifest m;
  m.identity = plan.identity;
  m.tokenizer_hash = plan.tokenizer->content_hash();
  m.vocab_size = plan.tokenizer->vocab_size();
  if (plan.tokenizer->bos()) m.bos = *plan.tokenizer->bos();
  if (plan.tokenizer->eos()) m.eos = *plan.tokenizer->eos();
  m.rules = rules;
  m.sources = plan.corpus.sources;
  m.links_resolved = plan.corpus.links_resolved;
  m.duplicates_dropped = plan.corpus.duplicates_dropped;
  m.empty_dropped = plan.corpus.empty_dropped;
  m.skipped = plan.corpus.skipped;
  m.invalid_utf8_files = plan.corpus.invalid_utf8_files;
  m.invalid_utf8_bytes = plan.corpus.invalid_utf8_bytes;
  for (size_t s = 0; s < plan.splits.size(); ++s) {
    SplitEntry& split = m.splits.emplace_back();
    split.name = plan.splits[s].name;
    for (const Document* document : plan.splits[s].documents) split.text_bytes += document->size_bytes;
    for (size_t i = 0; i < built[s].size(); ++i) {
      const ShardHeader& header = built[s][i].header;
      const PlannedShard& planned = plan.splits[s].shards[i];
      split.shards.push_back({planned.file, static_cast<int64_t>(header.file_bytes),
                              static_cast<int64_t>(header.num_tokens), static_cast<int64_t>(header.num_documents),
                              planned.identity, to_hex64(header.header_checksum)});
      split.documents += split.shards.back().documents;
      split.tokens += split.shards.back().tokens;
    }
  }
  return m;
}

std::vector<std::vector<BuiltShard>> find_finished_shards(const BuildOptions& options, const BuildPlan& plan) {
  std::vector<std::vector<BuiltShard>> built;
  for (const PlannedSplit& split : plan.splits) {
    auto& shards = built.emplace_back(split.shards.size());
    for_each_index(static_cast<int64_t>(shards.size()), options.threads, [&](int64_t i) {
      const PlannedShard& planned = split.shards[static_cast<size_t>(i)];
      BuiltShard& shard = shards[static_cast<size_t>(i)];
      shard.kept = is_finished(options.out / planned.file, planned, shard.header);
    });
  }
  return built;
}

bool all_kept(const std::vector<std::vector<BuiltShard>>& built) {
  return std::all_of(built.begin(), built.end(), [](const auto& shards) {
    return std::all_of(shards.begin(), shards.end(), [](const BuiltShard& shard) { return shard.kept; });
  });
}

// A lock that a failed removal left behind; one that is held stays.
void remove_stale_lock(const Path& path) {
  if (path_exists(path) && FileLock::try_lock(path) != nullptr) remove_file(path);
}

}  // namespace

BuildResult build_dataset(const BuildOptions& options, BuildProgress& progress) {
  const BuildPlan plan = plan_build(options, progress.corpus);
  if (!options.overwrite) refuse_other_build(options, plan);

  BuildResult result;
  auto built = find_finished_shards(options, plan);
  const Path manifest_path = options.out / kManifestName, lock_path = options.out / kLockName;
  if (all_kept(built) && path_exists(manifest_path)) {
    result.manifest = make_manifest(plan, options.rules, built);
    result.was_complete = read_file(manifest_path) == manifest_text(result.manifest);
  }
  for (size_t s = 0; s < built.size(); ++s) {
    for (size_t i = 0; i < built[s].size(); ++i) {
      result.shards_kept += built[s][i].kept ? 1 : 0;
      if (built[s][i].kept) continue;
      for (const Document* document : plan.splits[s].shards[i].documents)
        progress.text_bytes_total += document->size_bytes;
    }
  }
  if (result.was_complete) {
    remove_stale_lock(lock_path);
    return result;
  }

  make_folders(options.out);
  const auto lock = FileLock::try_lock(lock_path);
  if (lock == nullptr)
    throw user_error(fmt::format("another build is writing {}", options.out.string()), "",
                     "wait for it, or choose another --out");
  remove_file(manifest_path);  // from here to the new manifest the folder is no dataset
  remove_what_is_not_planned(options, plan);
  for (size_t s = 0; s < plan.splits.size(); ++s) {
    for_each_index(static_cast<int64_t>(built[s].size()), options.threads, [&](int64_t i) {
      BuiltShard& shard = built[s][static_cast<size_t>(i)];
      if (shard.kept) return;
      shard.header = write_shard(options, plan, plan.splits[s].shards[static_cast<size_t>(i)], progress);
    });
    for (const BuiltShard& shard : built[s]) result.shards_written += shard.kept ? 0 : 1;
  }
  result.manifest = make_manifest(plan, options.rules, built);
  write_file_atomic(manifest_path, manifest_text(result.manifest));
  remove_file(lock_path);
  return result;
}

}  // namespace hearth::data
