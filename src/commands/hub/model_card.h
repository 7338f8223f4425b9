// README.md of a pushed model: what it is, where it came from, and how it was trained.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace hearth::commands {

struct CardInput {
  std::string repository;  // "ORG/NAME"
  std::string licence;     // the Hub's identifier; empty: the card names none
  std::string base_model;  // "ORG/NAME" whose weights it started from; empty: none
  std::vector<std::string> datasets;
  bool is_native = false;  // the files are Hearth's, not Hugging Face's
  int64_t parameters = 0;
  const checkpoint::Manifest* manifest = nullptr;  // of a checkpoint of Hearth's; null: of another program
  std::string command;                             // that trained it; empty: not known
  std::string proof;  // a sentence: what was compared of the converted weights; empty: nothing
};

// `hub_names`: the repositories among `texts` that begin with "hf:", without that.
std::vector<std::string> hub_names(const std::vector<std::string>& texts);

// Text with YAML in front, as the Hub reads it. Sections of the run file that have paths of the machine are left out.
std::string format_card(const CardInput& input);

}  // namespace hearth::commands
