// SPDX-License-Identifier: Apache-2.0
// A run's TOML file: read, checked, written and read back.
#include "config/check.h"
#include "config/load.h"
#include "config/resume.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  config::LoadResult loaded = config::read_run(write_scratch("run.toml", input), {});
  const bool typed = loaded.problems.empty();
  check(loaded, config::Purpose::kTrain);
  accepted([&] { throw_problems(loaded.file_name, loaded.problems); });
  if (!typed) return;
  const std::string text = to_toml(loaded.config);
  const config::RunConfig again = config::from_toml_text(text, "stored", ".");
  require(differences(loaded.config, again).empty() && to_toml(again) == text, "not the same after a round trip");
}

std::vector<std::string> seeds() {
  std::vector<std::string> found{config::to_toml({})};
  const Path configs = test::source_path("configs");
  for (const std::string& name : list_folder(configs))
    if (name.ends_with(".toml")) found.push_back(read_file(configs / name));
  found.push_back(
      "[model]\nflavor = \"8B\"\n[training]\nsteps = 0x10\nseq_len = 1_000\n[optimizer]\nlr = 3e-4\n"
      "name = '''AdamW'''\n[data]\npath = \"\\u00e9\\\"\"\n\"quoted\".key = [1, {a = 1979-05-27}]\n");
  return found;
}

}  // namespace hearth::fuzz
