// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "hub/name.h"
#include "recordings/patch_file.h"
#include "recordings/spike_vocabulary.h"
#include "tokenizer/formats/array_tokenizer.h"
#include "tokenizer/formats/bytes.h"
#include "tokenizer/formats/document_tokens.h"
#include "tokenizer/formats/huggingface.h"
#include "tokenizer/formats/ids.h"
#include "tokenizer/formats/sentencepiece.h"
#include "tokenizer/formats/tiktoken.h"
#include "tokenizer/tokenizer.h"

namespace hearth::tokenizer {
namespace {

constexpr const char* kKinds =
    "\"bytes\"; \"spikes\"; a tokenizer.json of Hugging Face (BPE, Unigram); a .model of SentencePiece; the "
    "tokenizer.model of Llama-3 (tiktoken); a tokenizer.patches; a folder that holds one of these; or the hf: name of "
    "such a folder, fetched";

constexpr std::string_view kKeptNames[] = {"tokenizer.json", "tokenizer.model", recordings::kPatchesName};

bool needs_no_file(std::string_view name) {
  return name == "bytes" || parse_ids_name(name) || recordings::parse_spikes_name(name);
}

// The file of tokenizer `name`, which is a file or a folder.
Path file_of(const std::string& name) {
  Path path = name;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) {
    for (const std::string_view file : kKeptNames)
      if (path_exists(path / file)) return path / file;
    throw user_error(fmt::format("folder {} holds no tokenizer", name),
                     "it has neither a tokenizer.json nor a tokenizer.model nor a tokenizer.patches",
                     "give the tokenizer's file");
  }
  if (std::filesystem::exists(status)) return path;
  throw user_error(fmt::format("there is no tokenizer \"{}\"", name),
                   "it is not \"bytes\" or \"spikes\", and there is no such file or folder",
                   fmt::format("give one of: {}", kKinds));
}

// Null if the content is none of such a kind.
std::unique_ptr<FileTokenizer> open_text_file(std::string content, const std::string& origin, bool meta_cuts) {
  if (looks_like_huggingface_file(content)) return std::make_unique<HuggingFaceTokenizer>(std::move(content), origin);
  if (looks_like_sentencepiece_file(content))
    return std::make_unique<SentencePieceTokenizer>(std::move(content), origin);
  if (looks_like_tiktoken_file(content))
    return std::make_unique<TiktokenTokenizer>(std::move(content), origin, meta_cuts);
  return nullptr;
}

std::unique_ptr<Tokenizer> finish(std::unique_ptr<FileTokenizer> tokenizer, const OpenOptions& options,
                                  DocumentTokenSearch search) {
  search.in_file = tokenizer->file_tokens();
  const DocumentTokens tokens =
      options.document_tokens ? *options.document_tokens : find_document_tokens(tokenizer->special_tokens(), search);
  for (const auto id : {tokens.bos, tokens.eos})
    if (id && *id >= tokenizer->vocab_size())
      throw damaged(fmt::format("{}: BOS or EOS is token {}", search.origin, *id),
                    fmt::format("the tokenizer has {} tokens", tokenizer->vocab_size()));
  tokenizer->set_document_tokens(tokens);
  return tokenizer;
}

std::unique_ptr<Tokenizer> open_any(const std::string& name, const OpenOptions& options) {
  DocumentTokenSearch search;
  search.bos_name = options.bos_token;
  search.eos_name = options.eos_token;
  search.origin = name;
  const auto refuse_names = [&] {  // for kinds that have no special tokens
    if (!options.bos_token.empty() || !options.eos_token.empty()) find_document_tokens({}, search);  // throws
  };
  if (name == "bytes") {
    refuse_names();
    return std::make_unique<BytesTokenizer>();
  }
  if (const auto vocab_size = parse_ids_name(name)) {
    refuse_names();
    return std::make_unique<IdsTokenizer>(*vocab_size);
  }
  if (const auto vocab_size = recordings::parse_spikes_name(name)) {
    refuse_names();
    return std::make_unique<ArrayTokenizer>(std::make_unique<recordings::SpikeVocabulary>(*vocab_size));
  }
  const Path path = file_of(hub::find_fetched(name).string());
  search.folder = path.has_parent_path() ? path.parent_path() : ".";
  search.origin = path.string();
  std::string content = read_file(path);
  if (recordings::looks_like_patch_file(content)) {
    refuse_names();
    return std::make_unique<ArrayTokenizer>(std::make_unique<recordings::PatchFile>(std::move(content), search.origin));
  }
  if (auto tokenizer = open_text_file(std::move(content), search.origin, !options.without_meta_cuts))
    return finish(std::move(tokenizer), options, search);
  throw user_error(fmt::format("{} is not a tokenizer that Hearth reads", path.string()),
                   "its content is of an unknown kind", fmt::format("give one of: {}", kKinds));
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name, const OpenOptions& options) {
  auto tokenizer = open_any(name, options);
  if (options.without_meta_cuts && tokenizer->kind() != "tiktoken")
    throw user_error(
        fmt::format("{} does not use Meta's cuts", name),
        fmt::format("only Llama-3's tokenizer.model uses them; this tokenizer's kind is {}", tokenizer->kind()),
        "remove --no-meta-cuts");
  return tokenizer;
}

bool is_kept_name(std::string_view name) {
  return needs_no_file(name) || std::find(std::begin(kKeptNames), std::end(kKeptNames), name) != std::end(kKeptNames);
}

void keep_tokenizer(const Path& folder, const std::string& name, std::string_view file_content,
                    const std::string& temporary) {
  HEARTH_CHECK(is_kept_name(name));
  if (needs_no_file(name)) return;
  const Path path = folder / name;
  if (!path_exists(path) || read_file(path) != file_content) write_file_atomic(path, file_content, folder / temporary);
}

std::unique_ptr<Tokenizer> open_kept_tokenizer(const Path& folder, const std::string& name, const std::string& hash,
                                               const DocumentTokens& document_tokens) {
  if (!is_kept_name(name))
    throw damaged(fmt::format("{} names tokenizer \"{}\"", folder.string(), name),
                  "a copy of a tokenizer never has this name");
  const Path path = folder / name;
  const char* restore = "copy the tokenizer's file there again, byte for byte";
  if (!needs_no_file(name) && !path_exists(path))
    throw damaged(fmt::format("{} is missing", path.string()), "the manifest in its folder names it", restore);
  const auto other = [&](std::string why) {
    return damaged(fmt::format("{} is not the tokenizer that the manifest in its folder names", path.string()),
                   std::move(why), restore);
  };
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    OpenOptions options;
    options.document_tokens = document_tokens;
    tokenizer = open_tokenizer(needs_no_file(name) ? name : path.string(), options);
    if (tokenizer->content_hash() != hash && tokenizer->kind() == "tiktoken") {  // each rule has its hash
      options.without_meta_cuts = true;
      tokenizer = open_tokenizer(path.string(), options);
    }
  } catch (const Error& e) {
    if (e.code() != ExitCode::kUser) throw;
    throw other(e.message());
  }
  if (tokenizer->content_hash() != hash)
    throw other(fmt::format("its hash is {} instead of {}", tokenizer->content_hash(), hash));
  return tokenizer;
}

}  // namespace hearth::tokenizer
