#include <fmt/core.h>

#include "base/error.h"
#include "commands/commands.h"
#include "data/export.h"

namespace hearth::commands {

int data_export(CommandLine& line) {
  Path folder, out;
  std::string to, split_name = "train";
  bool overwrite = false;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.option("--to", "FORMAT", &to, "bin-idx: token files of Megatron and GPT-NeoX; jsonl: the text")
      .required()
      .choices({"bin-idx", "jsonl"});
  line.option("--out", "PATH", &out, "file to write; for bin-idx PATH.bin and PATH.idx").required();
  line.option("--split", "NAME", &split_name, "train or validation");
  line.flag("--overwrite", &overwrite, "replace files that are there");
  if (!line.parse()) return 0;
  const data::Dataset dataset = data::Dataset::open(folder);
  const data::Split& split = dataset.split(split_name);
  for (const char* ending : {"", ".bin", ".idx"}) {
    const Path path = out.string() + ((*ending == '\0') == (to == "jsonl") ? ending : ".none");
    if (!overwrite && path_exists(path))
      throw user_error(fmt::format("{} is there already", path.string()), "", "give another --out, or add --overwrite");
  }
  if (out.has_parent_path()) make_folders(out.parent_path());
  const data::ExportResult result =
      to == "jsonl" ? data::export_jsonl(dataset, split, out) : data::export_indexed(dataset, split, out);
  fmt::print("wrote {} documents, {} tokens of {}\n", result.documents, result.tokens, split.name());
  if (result.replaced_documents > 0)
    fmt::print("{} documents are not UTF-8: U+FFFD stands for what is not\n", result.replaced_documents);
  return 0;
}

}  // namespace hearth::commands
