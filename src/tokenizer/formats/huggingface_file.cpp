// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "tokenizer/formats/huggingface_model.h"
#include "tokenizer/formats/huggingface_node.h"
#include "tokenizer/formats/huggingface_normalizer.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

// ---- pre_tokenizer

Behavior read_behavior(const Node& node) {
  static const std::pair<const char*, Behavior> kNames[] = {{"Isolated", Behavior::kIsolated},
                                                            {"Removed", Behavior::kRemoved},
                                                            {"MergedWithPrevious", Behavior::kMergedWithPrevious},
                                                            {"MergedWithNext", Behavior::kMergedWithNext},
                                                            {"Contiguous", Behavior::kContiguous}};
  const std::string name = node.as_string();
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  throw node.wrong(fmt::format("is \"{}\"", name),
                   "Hearth knows Isolated, Removed, MergedWithPrevious, MergedWithNext "
                   "and Contiguous");
}

SplitStep read_split(const Node& node) {
  node.allow_keys({"type", "pattern", "behavior", "invert"});
  const Node pattern = node.at("pattern");
  pattern.allow_keys({"String", "Regex"});
  SplitStep step;
  step.is_literal = pattern.has("String");
  step.pattern = pattern.string(step.is_literal ? "String" : "Regex");
  if (step.is_literal && step.pattern.empty()) throw pattern.wrong("is an empty text");
  step.behavior = read_behavior(node.at("behavior"));
  step.invert = node.flag_or("invert", false);
  return step;
}

const SplitStep kWhiteSpaceRemoved = {.pattern = R"(\s+)", .behavior = Behavior::kRemoved};

PretokenizerStage read_metaspace(const Node& node) {
  using Prefix = PretokenizerStage::Prefix;
  node.allow_keys({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  PretokenizerStage stage;
  stage.prefix = stage.space_as = node.string("replacement");
  if (stage.space_as.empty() || decode_utf8(stage.space_as, 0).length != stage.space_as.size())
    throw node.at("replacement").wrong("is not one character");
  const std::string scheme = node.string_or("prepend_scheme", "always");
  if (scheme != "always" && scheme != "first" && scheme != "never")
    throw node.at("prepend_scheme").wrong(fmt::format("is \"{}\"", scheme), "Hearth knows always, first and never");
  if (!node.flag_or("add_prefix_space", true) && scheme != "never")
    throw node.at("add_prefix_space").wrong("is false, but prepend_scheme is not \"never\"");
  stage.prefix_where = scheme == "always" ? Prefix::kAlways : scheme == "first" ? Prefix::kFirst : Prefix::kNever;
  if (node.flag_or("split", true))
    stage.cuts.push_back({.pattern = stage.space_as, .is_literal = true, .behavior = Behavior::kMergedWithNext});
  return stage;
}

class PretokenizerReader {
 public:
  void read(const Node& node) {
    if (node.is_null()) return;
    const std::string type = node.type();
    if (type == "Sequence") {
      node.allow_keys({"type", "pretokenizers"});
      for (const Node& item : node.items("pretokenizers")) read(item);
      return;
    }
    if (byte_level)
      throw node.wrong("comes after ByteLevel", "Hearth reads ByteLevel only as the last item of a Sequence");
    if (type == "ByteLevel") {
      read_byte_level(node);
    } else if (type == "Split") {
      cuts().push_back(read_split(node));
    } else if (type == "Digits") {
      node.allow_keys({"type", "individual_digits"});
      const bool single = node.flag_or("individual_digits", false);
      cuts().push_back(
          {.pattern = std::string(kDigitsPattern), .behavior = single ? Behavior::kIsolated : Behavior::kContiguous});
    } else if (type == "Punctuation") {
      node.allow_keys({"type", "behavior"});
      cuts().push_back({.pattern = punctuation_class(),
                        .behavior = node.has("behavior") ? read_behavior(node.at("behavior")) : Behavior::kIsolated});
    } else if (type == "Metaspace") {
      stages.push_back(read_metaspace(node));
    } else if (type == "WhitespaceSplit") {
      node.allow_keys({"type"});
      cuts().push_back(kWhiteSpaceRemoved);
    } else if (type == "BertPreTokenizer") {
      node.allow_keys({"type"});
      cuts().push_back(kWhiteSpaceRemoved);
      cuts().push_back({.pattern = punctuation_class()});
    } else {
      throw node.unknown_type(
          "BertPreTokenizer, ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, WhitespaceSplit");
    }
  }

  std::vector<PretokenizerStage> stages;
  bool byte_level = false;

 private:
  std::vector<SplitStep>& cuts() {
    if (stages.empty()) stages.emplace_back();
    return stages.back().cuts;
  }

  void read_byte_level(const Node& node) {
    node.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    byte_level = true;
    if (node.flag_or("add_prefix_space", true)) {
      stages.emplace_back();
      stages.back().prefix = " ";
      stages.back().prefix_where = PretokenizerStage::Prefix::kAlways;
    }
    if (node.flag_or("use_regex", true)) cuts().push_back({.pattern = std::string(kGpt2Pattern)});
  }
};

// ---- post_processor

// Ids of the template's tokens before (`after` false) and after the text.
void read_template(const Node& node, HuggingFaceFile& file) {
  node.allow_keys({"type", "single", "pair", "special_tokens"});
  bool after = false;
  for (const Node& item : node.items("single")) {
    item.allow_keys({"SpecialToken", "Sequence"});
    if (item.has("Sequence")) {
      if (after || item.at("Sequence").string("id") != "A") throw item.wrong("is not the only text, \"A\"");
      after = true;
      continue;
    }
    const std::string name = item.at("SpecialToken").string("id");
    for (const Node& id : node.at("special_tokens").at(name).items("ids")) {
      std::optional<uint32_t>& place = after ? file.after : file.before;
      if (place)
        throw node.at("single").wrong(fmt::format("puts several tokens {} a text", after ? "after" : "before"),
                                      "Hearth puts at most one BOS and one EOS", "use a file whose template has one");
      place = id.as_id();
    }
  }
  if (!after) throw node.at("single").wrong("has no place for the text");
}

// The id of ["[CLS]", 101].
uint32_t read_pair(const Node& node, std::string_view key) {
  const std::vector<Node> pair = node.items(key);
  if (pair.size() != 2) throw node.at(key).wrong("is not a token with its id");
  return pair[1].as_id();
}

void read_post_processor(const Node& node, HuggingFaceFile& file) {
  if (node.is_null()) return;
  const std::string type = node.type();
  if (type == "Sequence") {
    node.allow_keys({"type", "processors"});
    for (const Node& item : node.items("processors")) read_post_processor(item, file);
  } else if (type == "ByteLevel") {
    node.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});  // not about ids
  } else if (type == "TemplateProcessing") {
    if (file.before || file.after) throw node.wrong("is a second template");
    read_template(node, file);
  } else if (type == "BertProcessing") {
    if (file.before || file.after) throw node.wrong("is a second template");
    node.allow_keys({"type", "sep", "cls"});
    file.before = read_pair(node, "cls");
    file.after = read_pair(node, "sep");
  } else {
    throw node.unknown_type("BertProcessing, ByteLevel, Sequence, TemplateProcessing");
  }
}

// ---- decoder

// Without a decoder `tokenizers` puts a space between any two tokens.
void read_word_decoder(const Node& node, HuggingFaceFile& file) {
  file.word_decoder.emplace();
  if (node.is_null()) return;
  if (node.type() != "WordPiece") throw node.unknown_type("WordPiece, because the model is one");
  node.allow_keys({"type", "prefix", "cleanup"});
  file.word_decoder->prefix = node.string_or("prefix", "##");
  if (file.word_decoder->prefix.empty()) throw node.at("prefix").wrong("is empty");
  file.word_decoder->cleans = node.flag_or("cleanup", true);
}

void read_decoder(const Node& node, HuggingFaceFile& file) {
  if (file.word_piece) return read_word_decoder(node, file);
  if (node.is_null()) return;
  const std::string type = node.type();
  if (type == "Sequence") {
    node.allow_keys({"type", "decoders"});
    for (const Node& item : node.items("decoders")) read_decoder(item, file);
  } else if (type == "ByteLevel") {
    node.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    if (!file.byte_level) throw node.wrong("decodes bytes, but pre_tokenizer has no ByteLevel");
  } else if (file.byte_level) {
    throw node.unknown_type("ByteLevel, because pre_tokenizer has it");
  } else if (type == "Replace") {
    NormalizerStep step = read_replace(node);
    if (step.kind != NormalizerStep::Kind::kReplace)
      throw node.at("pattern").at("Regex").wrong("is a regular expression", "Hearth decodes with plain text only");
    file.decoder.push_back({std::move(step.from), std::move(step.to)});
  } else if (type == "ByteFallback" || type == "Fuse") {
    node.allow_keys({"type"});
    file.decodes_bytes |= type == "ByteFallback";
  } else if (type == "Strip") {
    node.allow_keys({"type", "content", "start", "stop"});
    if (node.id("stop") != 0 || node.id("start") > 1)
      throw node.wrong("strips more than one character at the start", "Hearth reads start 0 or 1 and stop 0");
    if (node.id("start") == 1) file.decoder_strip = node.string("content");
  } else if (type == "Metaspace") {
    const PretokenizerStage stage = read_metaspace(node);
    file.decoder.push_back({stage.space_as, " ", stage.prefix_where != PretokenizerStage::Prefix::kNever});
  } else {
    throw node.unknown_type("ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip");
  }
}

// ---- added_tokens

AddedToken read_added_token(const Node& node) {
  node.allow_keys({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
  AddedToken token;
  token.text = node.string("content");
  token.id = node.id("id");
  token.special = node.flag_or("special", false);
  token.normalized = node.flag_or("normalized", true);
  token.single_word = node.flag_or("single_word", false);
  token.strip_left = node.flag_or("lstrip", false);
  token.strip_right = node.flag_or("rstrip", false);
  if (token.text.empty()) throw node.at("content").wrong("is empty");
  return token;
}

// `tokenizers` ignores an added token's id in the file. It uses the vocabulary's id for that text, or else the next
// free id. A file whose id differs is refused: nobody knows which of the two a model was trained with.
void read_added_tokens(const Node& root, const VocabularyIndex& vocabulary, HuggingFaceFile& file) {
  if (!root.has("added_tokens")) return;
  std::set<std::string> seen;
  uint32_t next = static_cast<uint32_t>(vocabulary.size());
  for (const Node& node : root.items("added_tokens")) {
    AddedToken token = read_added_token(node);
    if (!seen.insert(token.text).second) throw node.wrong("repeats an earlier token");
    const auto known = vocabulary.find(token.text);
    const uint32_t expected = known != vocabulary.end() ? known->second : next;
    if (token.id != expected)
      throw node.at("id").wrong(fmt::format("is {}, but tokenizers would use {}", token.id, expected),
                                "it gives an added token its id in the vocabulary, or else the next free one",
                                "correct the id in the file");
    if (token.id >= next) next = token.id + 1;
    file.added_tokens.push_back(std::move(token));
  }
  std::stable_partition(file.added_tokens.begin(), file.added_tokens.end(),
                        [](const AddedToken& token) { return token.special; });
}

void forget_unreachable_that_are_added(HuggingFaceFile& file) {
  std::set<uint32_t> added;
  for (const AddedToken& token : file.added_tokens) added.insert(token.id);
  std::erase_if(file.unreachable, [&](const auto& entry) { return added.contains(entry.first); });
}

}  // namespace

HuggingFaceFile parse_huggingface_file(std::string_view text, const std::string& origin) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw user_error(fmt::format("{}: it is not JSON", origin), "", "the file may be cut short");
  const Node root(json, "", origin);
  root.allow_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                   "decoder", "model"});
  for (const char* key : {"truncation", "padding"})
    if (root.has(key))
      throw root.at(key).wrong("is set", "it cuts or pads texts, which Hearth does itself", "set it to null");

  HuggingFaceFile file;
  PretokenizerReader pretokenizer;
  pretokenizer.read(root.at("pre_tokenizer"));
  file.byte_level = pretokenizer.byte_level;
  file.pretokenizer = std::move(pretokenizer.stages);
  file.normalizer = read_normalizer(root.at("normalizer"));
  const VocabularyIndex vocabulary = read_model(root.at("model"), text, file);
  read_added_tokens(root, vocabulary, file);
  forget_unreachable_that_are_added(file);
  read_post_processor(root.at("post_processor"), file);
  read_decoder(root.at("decoder"), file);
  return file;
}

}  // namespace hearth::tokenizer
