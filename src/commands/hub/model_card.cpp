// SPDX-License-Identifier: Apache-2.0
#include "commands/hub/model_card.h"

#include <array>

#include "base/quantity.h"
#include "base/text.h"
#include "config/load.h"

namespace hearth::commands {
namespace {

// The sections of config::for_publication, in the card's order.
constexpr std::array<std::string_view, 5> kCardSections = {"model", "training", "objective", "optimizer",
                                                           "lr_scheduler"};

// "[name]" and its keys, as `text` has them; empty if there is no such section.
std::string section_of(const std::string& text, std::string_view name) {
  const std::string head = fmt::format("[{}]\n", name);
  const size_t begin = text.starts_with(head) ? 0 : text.find("\n" + head) + 1;
  if (begin == 0 && !text.starts_with(head)) return "";
  const size_t end = text.find("\n[", begin + 1);
  return text.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

// As a YAML scalar: names of the Hub need no escapes, and others are quoted.
std::string yaml_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string front_matter(const CardInput& input, bool is_masked) {
  std::string text = "---\n";
  if (!input.licence.empty()) text += fmt::format("license: {}\n", yaml_text(input.licence));
  text += fmt::format("library_name: {}\n", input.is_native ? "hearth" : "transformers");
  if (!input.is_native) text += fmt::format("pipeline_tag: {}\n", is_masked ? "fill-mask" : "text-generation");
  if (!input.base_model.empty()) text += fmt::format("base_model: {}\n", yaml_text(input.base_model));
  if (!input.datasets.empty()) text += "datasets:\n";
  for (const std::string& dataset : input.datasets) text += fmt::format("- {}\n", yaml_text(dataset));
  return text + "---\n\n";
}

std::string or_none(const std::string& text) { return text.empty() ? "not named" : text; }

std::string figures(const checkpoint::Manifest& m) {
  std::string text = fmt::format("| step | {} |\n| tokens seen | {} ({}) |\n", m.step, m.tokens_seen,
                                 format_count(static_cast<double>(m.tokens_seen)));
  for (const auto& [name, value] : m.metrics) text += fmt::format("| {} | {:.6g} |\n", name, value);
  text += fmt::format("| dataset's hash | `{}` |\n| tokenizer's hash | `{}` |\n", or_none(m.dataset_hash),
                      or_none(m.tokenizer_hash));
  return text + fmt::format("| ranks | {} |\n| written | {} by Hearth {} |\n", m.ranks, m.created, m.code_version);
}

}  // namespace

std::string format_card(const CardInput& input) {
  const checkpoint::Manifest* m = input.manifest;
  std::optional<config::RunConfig> run;
  if (m != nullptr) run = config::from_toml_text(m->config_toml, checkpoint::kManifestFile, ".");
  std::string text = front_matter(input, run && run->objective.kind == config::ObjectiveKind::kMaskedLm);
  text += fmt::format("# {}\n\n", input.repository.substr(input.repository.find('/') + 1));
  text += input.is_native ? "A checkpoint of Hearth: weights in PyTorch's DCP with `hearth.json`. `hearth inspect` "
                            "shows it; `hearth convert` turns it into other formats.\n\n"
                          : "Weights in Hugging Face's format, written by Hearth.\n\n";
  text += fmt::format("| | |\n|---|---|\n| licence | {} |\n| parameters | {} ({}) |\n", or_none(input.licence),
                      input.parameters, format_count(static_cast<double>(input.parameters)));
  text +=
      fmt::format("| base model | {} |\n| data | {} |\n",
                  input.base_model.empty() ? "none, or not named" : input.base_model, or_none(join(input.datasets)));
  if (m != nullptr) text += figures(*m);
  if (!input.command.empty()) text += fmt::format("\nCommand of the training: `{}`\n", input.command);
  if (run && run->objective.masked())
    text += "\nThe model was trained on hidden tokens: a position sees all others. Give it no causal mask.\n";
  if (!input.proof.empty()) text += fmt::format("\n{}\n", input.proof);
  if (!run) return text;
  const std::string keys = config::to_toml(config::for_publication(*run));
  std::string sections;
  for (const std::string_view name : kCardSections) sections += section_of(keys, name);
  if (!sections.empty()) text += fmt::format("\n## Run file\n\n```toml\n{}```\n", sections);
  return text;
}

}  // namespace hearth::commands
