// SPDX-License-Identifier: Apache-2.0
// `hearth data export`: a dataset in the formats of other programs.
#include <set>

#include "commands/commands.h"
#include "commands/data/output_path.h"
#include "data/export/export.h"

namespace hearth::commands {

int data_export(CommandLine& line) {
  Path folder, out;
  std::string to, split_name = "train";
  std::vector<std::string> columns;
  bool overwrite = false;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.option("--to FORMAT", &to, one_of({"bin-idx", "save-to-disk", "jsonl"}),
              "bin-idx: token files of Megatron and GPT-NeoX; save-to-disk: a folder for Hugging Face's "
              "load_from_disk; jsonl: the text")
      .required();
  line.option("--out PATH", &out,
              "file or folder to write; for bin-idx PATH.bin and PATH.idx, and PATH_label.bin and .idx where some "
              "tokens do not count in the loss")
      .required();
  line.option("--split NAME", &split_name, "train, validation or test");
  line.option("--column NAME", &columns, one_of(data::saved_column_names()),
              "of save-to-disk; none given: input_ids, and where the data weigh tokens labels (-100 does not count) or "
              "weights");
  line.flag("--overwrite", &overwrite, "replace what is there");
  if (!line.parse()) return 0;
  if (!columns.empty() && to != "save-to-disk")
    throw user_error(fmt::format("--column does not go with --to {}", to), "", "leave it out");
  if (std::set<std::string>(columns.begin(), columns.end()).size() < columns.size())
    throw user_error("--column names a column twice", "", "name it once");
  const data::Dataset dataset = data::Dataset::open(folder);
  const data::Split& split = dataset.split(split_name);
  if (columns.empty()) columns = data::default_saved_columns(split);
  for (const Path& path : to == "bin-idx" ? data::indexed_files(split, out) : std::vector{out})
    prepare_output(path, overwrite, /*as_folder=*/to == "save-to-disk");
  const data::ExportResult result = to == "jsonl"     ? data::export_jsonl(dataset, split, out)
                                    : to == "bin-idx" ? data::export_indexed(dataset, split, out)
                                                      : data::export_saved(dataset, split, columns, out);
  fmt::print("wrote {}, {} of {}\n", counted(result.documents, "document"), counted(result.tokens, "token"),
             split.name());
  if (split.weights() && to == "jsonl") fmt::print("text has no weights: the weights of tokens are not written\n");
  if (result.replaced_documents > 0)
    fmt::print("{} not in UTF-8: U+FFFD replaces invalid bytes\n", counted(result.replaced_documents, "document"));
  return 0;
}

}  // namespace hearth::commands
