// SPDX-License-Identifier: Apache-2.0
#include "commands/shared_options.h"

#include "data/formats/indexed_file.h"
#include "data/source/path_list.h"

namespace hearth::commands {
namespace {

std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c != 'n' && c != 't' && c != '\\')
      throw user_error(fmt::format("--text-join has an unknown escape \\{}", c), "", "there are \\n, \\t and \\\\");
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

}  // namespace

void SourceOptions::declare(CommandLine& line) {
  read.text_keys.clear();
  line.positional("PATH", &paths,
                  "files, folders with all they contain, shell patterns, or hf: names that were fetched; text, JSON "
                  "lines, JSON or CSV, as they are or compressed (gzip, zstd, xz, bzip2), Parquet or Arrow files, "
                  "folders of Hugging Face's save_to_disk, token files of Megatron and GPT-NeoX (NAME.bin with "
                  "NAME.idx), or arrays of spike counts (.npy with a metadata.jsonl beside them, or a table's column). "
                  "Hidden files of folders are left out, and README, LICENSE and the like beside records")
      .optional();
  line.option("--source-list FILE", &source_list, "more paths, one per line, relative to FILE's folder");
  line.option("--include GLOB", &include,
              "only files of folders, or of a pattern, whose name matches, such as \"*.txt\"");
  line.option("--exclude GLOB", &exclude, "leave out files and folders in folders whose name matches: \"*.png\"");
  line.option("--format NAME", &read.format, one_of(data::format_names()),
              "read every file in this format; default: each file's content decides");
  line.flag("--as-text", &as_text,
            "read the bytes of files that are not text, and with --text-key of files without keys, as texts; otherwise "
            "such files are refused");
  line.option("--dialect NAME", &read.dialect, one_of(data::index_dialects()),
              "the numbering of float types in token files; default: found from each file's sizes");
  line.option("--document-bytes N", &read.document_bytes,
              "cut longer texts at line ends into documents of about N bytes; 0: a file is a document");
  line.option("--text-key KEY", &read.text_keys,
              "the key of a JSON object's text, or a table's column of text, token ids or arrays of counts; every file "
              "must have keys then; dotted (meta.text), through lists (files.text); none given: text, or spike_counts "
              "for a tokenizer of arrays");
  line.option("--text-join TEXT", &text_join, "between several texts of a record; \\n and \\t are understood");
  line.flag("--join-first", &read.join_first, "put --text-join before the first text too, as the Stack-v2 recipe does");
  line.option("--max-record-bytes N", &read.max_record_bytes, "the longest line, or array, that is read");
  line.option("--on-error WHAT", &on_error, one_of({"stop", "skip", "replace"}),
              "a bad record ends the build (stop), is left out (skip), or gets U+FFFD if its text is not Unicode and "
              "is left out otherwise (replace); counted");
  line.option("--source-dataset NAME", &source_dataset, "only arrays whose source_dataset is NAME; none given: all");
}

data::GivenPaths SourceOptions::all_paths() const {
  std::vector<Path> all = paths;
  if (!source_list.empty()) {
    const auto listed = data::read_source_list(source_list);
    all.insert(all.end(), listed.begin(), listed.end());
  }
  if (all.empty()) throw user_error("there is nothing to read", "", "give PATH... or --source-list FILE");
  return data::expand_patterns(all);
}

data::ReadRules SourceOptions::read_rules() const {
  data::ReadRules rules = read;
  rules.text_join = unescape(text_join);
  return rules;
}

void TokenizerOptions::declare(CommandLine& line) {
  line.option("--tokenizer FILE", &tokenizer,
              "\"bytes\" (256 bytes, BOS and EOS), a tokenizer.json or .model, or a folder that holds one")
      .required();
  declare_special_tokens(line, open.bos_token, open.eos_token, open.without_meta_cuts);
}

void declare_special_tokens(CommandLine& line, std::string& bos, std::string& eos, bool& without_meta_cuts) {
  line.option("--bos-token TEXT", &bos, "the special token BOS, if the tokenizer does not define it");
  line.option("--eos-token TEXT", &eos, "the special token EOS, if the tokenizer does not define it");
  line.flag("--no-meta-cuts", &without_meta_cuts,
            "with Llama-3's tokenizer.model: do not cut texts of over 400,000 characters and runs of over 25,000 as "
            "Meta's code does; the ids are then those of tokenizer.json");
}

void declare_ends(CommandLine& line, std::string& bos, std::string& eos) {
  line.option("--bos WHERE", &bos, one_of({"none", "document"}),
              "before each document, or none; not given: as the tokenizer's template says");
  line.option("--eos WHERE", &eos, one_of({"none", "document"}),
              "after each document, or none; not given: after each document");
}

}  // namespace hearth::commands
