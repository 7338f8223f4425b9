// SPDX-License-Identifier: Apache-2.0
// `hearth data pack`: a dataset as rows of one length.
#include "data/export/pack.h"
#include "commands/commands.h"
#include "commands/data/output_path.h"

namespace hearth::commands {
namespace {

// Plain text is not a dataset: a build chooses the tokenizer and the documents.
data::Dataset open_built(const Path& folder) {
  if (path_exists(folder) && !path_exists(folder / data::kManifestName))
    throw user_error(
        fmt::format("{} is not a dataset", folder.string()), "rows are made of tokens",
        fmt::format(
            "build one first: hearth data build --out DATA --tokenizer FILE {}; then: hearth data pack ... DATA",
            folder.string()));
  return data::Dataset::open(folder);
}

}  // namespace

int data_pack(CommandLine& line) {
  Path folder, out;
  std::string to = "save-to-disk", split_name = "train";
  data::PackRules rules;
  bool overwrite = false;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.option("--length N", &rules.length, within(1, 1 << 24), "tokens of each row").required();
  line.option("--to FORMAT", &to, one_of({"save-to-disk"}),
              "save-to-disk: a folder for Hugging Face's load_from_disk with input_ids, attention_mask and labels");
  line.option("--out PATH", &out, "folder to write").required();
  line.option("--split NAME", &split_name, "train, validation or test");
  line.option("--drop-tails N", &rules.drop_tails, at_least(0),
              "take N documents at a time and drop the tokens after their last whole row, as the Trainium recipe does "
              "with 1000; 0: keep every token");
  line.flag("--overwrite", &overwrite, "replace what is there");
  if (!line.parse()) return 0;
  const data::Dataset dataset = open_built(folder);
  const data::Split& split = dataset.split(split_name);
  prepare_output(out, overwrite, /*as_folder=*/true);
  const data::PackResult result = data::pack_split(dataset, split, rules, out);
  fmt::print("wrote {} of {} tokens from {} of {}\n", counted(result.rows, "row"), rules.length,
             counted(split.documents(), "document"), split.name());
  if (rules.drop_tails > 0)
    fmt::print("dropped {} of {} tokens: tails of each {} documents\n", result.dropped, split.tokens(),
               rules.drop_tails);
  if (result.padding > 0)
    fmt::print("the last row ends with {} of padding (id {}, attention_mask 0, label -100)\n",
               counted(result.padding, "position"), result.padding_id);
  return 0;
}

}  // namespace hearth::commands
