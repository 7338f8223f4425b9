// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface_normalizer.h"

#include <nlohmann/json.hpp>

#include "tokenizer/formats/base64.h"

namespace hearth::tokenizer {
namespace {

using Kind = NormalizerStep::Kind;

struct NamedStep {
  std::string_view name;
  Kind kind;
  NormalForm form = NormalForm::kNfc;
};
constexpr NamedStep kWithoutSettings[] = {{"NFC", Kind::kForm, NormalForm::kNfc},
                                          {"NFD", Kind::kForm, NormalForm::kNfd},
                                          {"NFKC", Kind::kForm, NormalForm::kNfkc},
                                          {"NFKD", Kind::kForm, NormalForm::kNfkd},
                                          {"Nmt", Kind::kNmt},
                                          {"StripAccents", Kind::kStripAccents},
                                          {"Lowercase", Kind::kLowercase}};

NormalizerStep read_charsmap(const Node& node) {
  node.allow_keys({"type", "precompiled_charsmap"});
  const Node map = node.at("precompiled_charsmap");
  std::string bytes;
  if (!decode_base64(map.as_string(), bytes))
    throw map.wrong("is not base64", "", "the file may be damaged; download it again");
  NormalizerStep step{.kind = Kind::kCharsmap};
  step.charsmap = std::make_shared<const Charsmap>(bytes, map.place());
  return step;
}

// BERT's rules. Accents are removed if the text becomes lower case, unless strip_accents says otherwise.
void append_bert(const Node& node, std::vector<NormalizerStep>& steps) {
  node.allow_keys({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lowercase = node.flag_or("lowercase", true);
  if (node.flag_or("clean_text", true)) steps.push_back({.kind = Kind::kBertClean});
  if (node.flag_or("handle_chinese_chars", true)) steps.push_back({.kind = Kind::kBertChinese});
  if (node.flag_or("strip_accents", lowercase)) {
    steps.push_back({.kind = Kind::kForm, .form = NormalForm::kNfd});
    steps.push_back({.kind = Kind::kBertNonspacing});
  }
  if (lowercase) steps.push_back({.kind = Kind::kLowercase});
}

void append_steps(const Node& node, std::vector<NormalizerStep>& steps) {
  if (node.is_null()) return;
  const std::string type = node.type();
  for (const auto& [name, kind, form] : kWithoutSettings) {
    if (type != name) continue;
    node.allow_keys({"type"});
    steps.push_back({.kind = kind, .form = form});
    return;
  }
  if (type == "Sequence") {
    node.allow_keys({"type", "normalizers"});
    for (const Node& item : node.items("normalizers")) append_steps(item, steps);
  } else if (type == "Prepend") {
    node.allow_keys({"type", "prepend"});
    steps.push_back({.kind = Kind::kPrepend, .to = node.string("prepend")});
  } else if (type == "Replace") {
    steps.push_back(read_replace(node));
  } else if (type == "Strip") {
    node.allow_keys({"type", "strip_left", "strip_right"});
    steps.push_back({.kind = Kind::kStrip, .left = node.flag("strip_left"), .right = node.flag("strip_right")});
  } else if (type == "BertNormalizer") {
    append_bert(node, steps);
  } else if (type == "Precompiled") {
    steps.push_back(read_charsmap(node));
  } else {
    throw node.unknown_type(
        "BertNormalizer, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip, "
        "StripAccents");
  }
}

}  // namespace

NormalizerStep read_replace(const Node& node) {
  node.allow_keys({"type", "pattern", "content"});
  const Node pattern = node.at("pattern");
  pattern.allow_keys({"String", "Regex"});
  const bool is_regex = pattern.has("Regex");
  if (is_regex && pattern.has("String")) throw pattern.wrong("is both a text and a regular expression");
  NormalizerStep step{.kind = is_regex ? Kind::kReplaceRegex : Kind::kReplace,
                      .from = pattern.string(is_regex ? "Regex" : "String"),
                      .to = node.string("content")};
  if (step.from.empty()) throw pattern.wrong("is an empty text");
  return step;
}

std::vector<NormalizerStep> read_normalizer(const Node& node) {
  std::vector<NormalizerStep> steps;
  append_steps(node, steps);
  return steps;
}

}  // namespace hearth::tokenizer
