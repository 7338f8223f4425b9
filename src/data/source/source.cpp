// SPDX-License-Identifier: Apache-2.0
#include "data/source/source.h"

#include <algorithm>
#include <array>

#include "data/source/readers.h"

namespace hearth::data {

void Record::fail(RecordProblem what, std::string why_so, std::string how_on) {
  problem = what;
  why = std::move(why_so);
  fix = std::move(how_on);
}

void Record::fail_as_too_long(int64_t max_record_bytes) {
  fail(RecordProblem::kTooLong, fmt::format("it has more than {} bytes (--max-record-bytes)", max_record_bytes));
}

void Record::fail_as_unreadable(const Error& error) {
  fail(RecordProblem::kUnreadable,
       error.why().empty() ? error.message() : fmt::format("{}: {}", error.message(), error.why()));
}

bool Record::check_ids(int64_t vocab_size) {
  const auto outside = std::ranges::find_if(ids, [&](uint32_t id) { return id >= vocab_size; });
  if (vocab_size == 0 || outside == ids.end()) return true;
  fail(RecordProblem::kWrongType, fmt::format("token {} is outside the vocabulary of {}", *outside, vocab_size),
       "give the tokenizer that made the ids (--tokenizer FILE), or --vocab-size N; or leave out such records with "
       "--on-error skip");
  return false;
}

bool can_be_cut(const SourceFile& file) {
  if (file.format == Format::kJsonl) return file.compression == Compression::kNone;
  return may_give_ids(file.format);
}

std::unique_ptr<SourceReader> open_source(const SourceFile& file, const ReadRules& rules, SourceRange range) {
  // In the order of the enum.
  constexpr std::array kOpen = {open_text_source,   open_jsonl_source,  open_indexed_source, open_npy_source,
                                open_column_source, open_column_source, open_json_source,    open_csv_source};
  return kOpen.at(static_cast<size_t>(file.format))(file, rules, range);
}

void check_weight_keys(const SourceFile& file, const ReadRules& rules) {
  const bool is_table = file.format == Format::kParquet || file.format == Format::kArrow;
  const bool has_keys = data::has_keys(file.format);
  const auto refuse = [&](std::string_view option, const char* why, const char* fix) {
    throw user_error(fmt::format("{} does not go with {}", option, file.path),
                     fmt::format("it is read as {}: {}", format_name(file.format), why), fix);
  };
  const char* no_keys = "there are no keys";
  const char* fix = file.format == Format::kIndexed ? "give a second token file with the labels: --labels PATH"
                                                    : "leave it out, or give JSON, CSV, Parquet or Arrow files";
  if (!rules.loss_keys.empty() && !has_keys) refuse("--loss-key", no_keys, fix);
  if (!rules.weights_key.empty() && !has_keys) refuse("--weights-key", no_keys, fix);
  if (!rules.labels_key.empty() && !has_keys) refuse("--labels-key", no_keys, fix);
  if (!rules.weights_key.empty() && file.format == Format::kCsv)
    refuse("--weights-key", "its fields are texts", "write the table as JSON lines or Parquet");
  if (!rules.labels_key.empty() && !is_table)
    refuse("--labels-key", "there are no token ids", "give --loss-key for texts that count, or --weights-key");
}

void check_options_used(const std::vector<SourceFile>& files, const ReadRules& rules) {
  const ReadRules defaults;
  const auto check = [&](std::string_view option, bool is_given, const auto& uses, const char* why) {
    if (is_given && std::ranges::none_of(files, uses))
      throw user_error(fmt::format("{} has no effect", option), why, "remove it");
  };
  const bool joins_one = rules.join_first || rules.text_keys.size() > 1;  // a row of CSV has one text for each key
  const auto joins = [&](const SourceFile& file) {
    return has_keys(file.format) && (file.format != Format::kCsv || joins_one);
  };
  const char* no_texts = "it is for records with several texts, and none of the files can have such records";
  check("--join-first", rules.join_first, joins, no_texts);
  check("--text-join", rules.text_join != defaults.text_join, joins, no_texts);
  check(
      "--dialect", !rules.dialect.empty(), [](const SourceFile& file) { return file.format == Format::kIndexed; },
      "none of the files is a token file (.bin with .idx)");
  const auto has_limit = [](const SourceFile& file) {
    return file.format != Format::kIndexed && (file.format != Format::kText || file.compression != Compression::kNone);
  };
  check("--max-record-bytes", rules.max_record_bytes != defaults.max_record_bytes, has_limit,
        "it limits records of JSON, CSV and tables, arrays, and compressed texts; the files have no such record");
}

}  // namespace hearth::data
