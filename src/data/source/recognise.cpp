// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/formats/indexed_file.h"
#include "data/formats/json_scanner.h"
#include "data/formats/json_text.h"
#include "data/formats/json_values.h"
#include "data/formats/stream_buffer.h"
#include "data/source/foreign_kind.h"
#include "data/source/json_look.h"
#include "data/source/readers.h"
#include "data/source/source.h"
#include "formats/npy.h"

namespace hearth::data {
namespace {

constexpr std::string_view kReadKinds =
    "Hearth reads text, JSON, CSV, Parquet, Arrow and token files; text, JSON and CSV also packed by gzip, zstd, xz or "
    "bzip2";

// Ways on with a file that is no source.
std::string ways_on(const Path& path, std::string_view first, std::string_view as_text) {
  const std::string ending = path.extension().string();
  const std::string pattern = ending.empty() ? path.filename().string() : "*" + ending;
  return fmt::format("{}{}leave it out (in a folder: --exclude {}), or {}", first, first.empty() ? "" : "; ",
                     shell_word(pattern), as_text);
}

// Throws what the user reads about such a file.
[[noreturn]] void refuse_foreign(const Path& path, Compression compression, const ForeignKind& kind) {
  const bool is_packed = compression != Compression::kNone;
  const std::string unpack = fmt::format("unpack it once: {0} --decompress < {1} > {1}.unpacked",
                                         compression_name(compression), shell_word(path.string()));
  // A command takes the unpacked file. But tar unpacks in one step, and some advice is no command.
  const bool wants_unpacked = is_packed && kind.fix.find("tar ") == std::string::npos &&
                              kind.fix.find(shell_word(path.string())) != std::string::npos;
  throw user_error(fmt::format("{} is {}{}", path.string(), kind.name,
                               is_packed ? fmt::format(", packed by {}", compression_name(compression)) : ""),
                   kind.why.empty() ? std::string(kReadKinds) : kind.why,
                   ways_on(path, wants_unpacked ? unpack : kind.fix, "read its bytes as they are with --as-text"));
}

// Whether a file's bytes are no text, which the user wants to read all the same; otherwise throws for such a file.
// `text` is unpacked.
bool is_foreign(const Path& path, Compression compression, std::string_view text, const KindRules& kinds) {
  const auto kind = foreign_kind(text, path);
  if (!kind || kinds.as_text) return kind.has_value();
  refuse_foreign(path, compression, *kind);
}

// Throws for a text with other bytes behind its beginning. It looks at the unpacked bytes of a packed text, whose
// source looks at all of them.
void refuse_foreign_rest(const Path& path, Compression compression, std::string_view unpacked, const KindRules& kinds) {
  if (kinds.as_text) return;
  std::optional<File> file;
  if (compression == Compression::kNone) file = File::open_read(path);
  std::string bytes(kKindBytes, '\0');
  const auto kind = foreign_rest(file ? file->size_bytes() : std::ssize(unpacked), [&](int64_t position) {
    if (!file) return unpacked.substr(static_cast<size_t>(position), kKindBytes);
    file->read_at(position, std::as_writable_bytes(std::span(bytes)));
    return std::string_view(bytes);
  });
  if (kind) refuse_foreign(path, compression, *kind);
}

// Throws for token files where the user said how texts are read.
void refuse_text_options(const Path& path, const KindRules& kinds) {
  if (!kinds.has_keys && !kinds.as_text) return;
  const std::string option = kinds.has_keys ? "--text-key" : "--as-text";
  throw user_error(fmt::format("{} does not go with {}", option, path.string()),
                   kinds.has_keys ? "it is read as bin-idx: there are no keys"
                                  : "it is read as bin-idx, by the index beside it: it has token ids",
                   kinds.has_keys ? ways_on(path, "", "build from it alone, without --text-key")
                                  : ways_on(path, "remove --as-text", "read its bytes with --format text"));
}

bool is_named(const Path& path, std::initializer_list<std::string_view> endings) {
  const std::string name = plain_name(path);
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// The first line that is not blank, without its end; nothing if `text` ends in it and the file does not.
std::optional<std::string_view> take_line(std::string_view& text, bool is_whole) {
  const size_t begin = std::min(text.find_first_not_of("\r\n"), text.size());
  const size_t end = text.find('\n', begin);
  if (end == std::string_view::npos && !is_whole) return {};
  const std::string_view line = text.substr(begin, std::min(end, text.size()) - begin);
  text.remove_prefix(std::min(end, text.size()));
  return line;
}

enum class Lines { kNone, kOne, kTwo };

// How many of the first two lines are JSON objects.
Lines count_object_lines(std::string_view text, bool is_whole) {
  const auto first = take_line(text, is_whole);
  if (!first || !is_json_object(*first)) return Lines::kNone;
  const auto second = take_line(text, is_whole);
  // A second line that is longer than the bytes read cannot be checked: its first letter decides.
  const bool is_object =
      second ? is_json_object(*second)
             : text.find_first_not_of("\r\n") != std::string_view::npos && text[text.find_first_not_of("\r\n")] == '{';
  return is_object ? Lines::kTwo : Lines::kOne;
}

bool has_a_key(const std::vector<std::string>& names, const std::vector<std::string>& keys) {
  return std::ranges::any_of(keys, [&](const std::string& key) {
    return std::ranges::any_of(names, [&](const std::string& name) {
      return key == name || (key.starts_with(name) && key.size() > name.size() && key[name.size()] == '.');
    });
  });
}

// Whether a file has a fault in its records, and is no text that happens to begin like JSON. One object without the key
// stays a text: many configuration files have comments.
bool has_bad_records(std::string_view text, const JsonLook& look, const std::vector<std::string>& keys) {
  if (look.why_not.empty()) return false;
  if (look.lacks_end || look.has_fault || (text[0] == '[' && !look.may_be_cut)) return true;
  const auto is_spelled = [&](const std::string& key, char quote) {
    const std::string name = quote + key + quote;
    for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const size_t next = text.find_first_not_of(" \t\r\n", at + name.size());
      if (next != std::string_view::npos && text[next] == ':') return true;
    }
    return false;
  };
  return text[0] == '{' && std::ranges::any_of(keys, [&](const std::string& key) {
           return is_spelled(key, '"') || is_spelled(key, '\'');  // Python's quotes
         });
}

// JSON lines by name, because then a first line that is not JSON is an error and not a text. By content, if the first
// two lines are JSON objects. Other JSON by content: an array of objects, or objects over several lines. One object
// alone may be a text, such as a configuration file among sources: it is a record only if it has the key, or if the
// user named a key.
std::optional<Format> json_format(const Path& path, std::string_view text, const ReadRules& rules,
                                  const KindRules& kinds, JsonLook& look) {
  const bool is_whole = text.size() < kSniffBytes, by_name = is_named(path, {".jsonl", ".ndjson", ".jsonlines"});
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const std::optional<Format> named = by_name ? std::optional(Format::kJsonl) : std::nullopt;
  if (begin == std::string_view::npos) return named;
  const Lines lines = text[begin] == '{' ? count_object_lines(text, is_whole) : Lines::kNone;
  if (lines == Lines::kTwo || (by_name && lines == Lines::kOne)) return Format::kJsonl;
  look = look_at_json(text, is_whole);
  // The reader says where the fault is.
  if (is_named(path, {".json"}) && !kinds.as_text && has_bad_records(text.substr(begin), look, rules.text_keys))
    return Format::kJson;
  if (look.objects == 0) return look.is_empty_array && (by_name || kinds.has_keys) ? Format::kJson : named;
  // The key may follow behind the bytes that were looked at.
  const bool is_cut_list = look.is_cut && text[begin] == '[';
  const bool are_records =
      by_name || kinds.has_keys || look.objects > 1 || is_cut_list || has_a_key(look.keys, rules.text_keys);
  return are_records ? std::optional(Format::kJson) : std::nullopt;
}

// Throws for a file that is one object with several texts at a key: {"text": ["a", "b"]}, {"data": [{"text": "a"},
// {"text": "b"}]}. As a record it is one document, and `datasets` reads it as one row, too, which its writer hardly
// meant. The file is read whole, because it may be long.
void refuse_rows_in_object(const Path& path, Compression compression, const ReadRules& rules) {
  std::optional<JsonRows> found;
  try {
    JsonValues values(open_stream(path, compression), rules.max_record_bytes);
    JsonValue value;
    if (!values.next(value) || values.in_array() || value.too_long) return;
    found = rows_of_json(value.text, rules.text_keys);
    if (!found || values.next(value)) return;
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDamaged) throw;
    return;  // the reader reports it
  }
  const std::string name = path.string(), lines = Path(plain_name(path)).replace_extension(".jsonl").string();
  const std::string open =
      compression == Compression::kNone
          ? "cat " + shell_word(name)
          : fmt::format("{} --decompress --stdout {}", compression_name(compression), shell_word(name));
  // Other members, such as a version, are no columns.
  const std::string command = fmt::format(
      ": {} | python3 -c \"import json, sys; c = json.load(sys.stdin); c = {{k: v for k, v in c.items() if "
      "type(v) is list and len(v) == {}}}; [print(json.dumps(dict(zip(c, r)))) for r in "
      "zip(*c.values())]\" > {}",
      open, found->num_rows, shell_word(lines));
  throw user_error(
      fmt::format("{} is one JSON object with {} texts at \"{}\"", name, found->num_texts, found->text_key),
      "it would be one document, with the texts of all rows",
      fmt::format("write its rows as records, one a line{}; or read it as one document with --format json",
                  found->num_rows > 1 ? command : ""));
}

// Whether a long file that begins with an object has records: the key, or a second object, may stand behind the bytes
// that were looked at, or behind the first hundred keys. The file is read up to its second value.
bool has_records_behind(const Path& path, Compression compression, const ReadRules& rules) {
  try {
    JsonValues values(open_stream(path, compression), rules.max_record_bytes);
    JsonValue value;
    if (!values.next(value) || values.in_array() || value.too_long) return false;
    JsonText texts(rules);
    std::string text;
    const RecordProblem problem = texts.read(value.text, text);
    if (problem == RecordProblem::kMalformed) return false;
    return problem != RecordProblem::kMissingKey || (values.next(value) && is_json_object(value.text));
  } catch (const Error& error) {
    if (error.code() != ExitCode::kDamaged) throw;
    return false;
  }
}

// Parquet, Arrow's file format, and its stream format, which starts with a mark and the length of a message. An
// encrypted Parquet file is one of the foreign kinds.
std::optional<Format> column_format(std::string_view bytes) {
  if (bytes.starts_with("PAR1")) return Format::kParquet;
  if (bytes.starts_with("ARROW1")) return Format::kArrow;
  constexpr std::string_view kMark = "\xff\xff\xff\xff";
  int32_t length = 0;
  if (bytes.size() < kMark.size() + sizeof length || !bytes.starts_with(kMark)) return {};
  std::memcpy(&length, bytes.data() + kMark.size(), sizeof length);
  return length > 0 && length % 8 == 0 ? std::optional(Format::kArrow) : std::nullopt;
}

// By name, because then other content is damage and not a text.
std::optional<Format> column_format_by_name(const Path& path) {
  if (is_named(path, {".parquet"})) return Format::kParquet;
  if (is_named(path, {".arrow", ".feather"})) return Format::kArrow;
  return {};
}

// Throws: a key was named, and the file has none.
[[noreturn]] void refuse_text(const Path& path, std::string_view text, const JsonLook& look) {
  const size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string_view rest = text.substr(begin);
  if (look.has_fault) {
    throw user_error(fmt::format("{} is JSON with a fault", path.string()), look.why_not,
                     ways_on(path, "correct it, or get it again", "read it whole with --as-text"));
  }
  std::string kind = "plain text", why = "JSON, CSV, Parquet and Arrow files have keys";
  if (!look.others.empty())
    kind = fmt::format("JSON of {}", look.others);
  else if (rest.starts_with("<?xml"))
    kind = "XML";
  else if (rest.starts_with("<!DOCTYPE html") || rest.starts_with("<!doctype html") || rest.starts_with("<html"))
    kind = "HTML";
  if (kind == "plain text" && (rest.starts_with('{') || rest.starts_with('[')) && !look.why_not.empty())
    why = look.why_not.starts_with("not JSON") ? look.why_not : "not JSON: " + look.why_not;
  throw user_error(fmt::format("{} is {}: it has no keys, and --text-key names one", path.string(), kind), why,
                   ways_on(path, "", "read such files whole with --as-text"));
}

// Throws for a Parquet file whose footer is encrypted.
void refuse_encrypted(const Path& path, const KindRules& kinds) {
  const std::string start = first_bytes(path, Compression::kNone, kKindBytes);
  if (start.starts_with("PARE")) is_foreign(path, Compression::kNone, start, kinds);
}

// The format that the user named.
Recognised as_named(const Path& path, Compression compression, const ReadRules& rules, const KindRules& kinds) {
  Recognised found{parse_format(rules.format), compression};
  if (kinds.has_keys && found.format == Format::kText)
    throw user_error("--text-key and --format text are both given", "a text has no keys", "give one of them");
  if (kinds.as_text && found.format != Format::kText)
    throw user_error(fmt::format("--as-text and --format {} are both given", rules.format),
                     "one reads text and the other does not", "give one of them");
  if (found.format == Format::kIndexed) refuse_text_options(path, kinds);
  if (found.format == Format::kParquet) refuse_encrypted(path, kinds);
  if (may_give_ids(found.format) || found.format == Format::kNpy) return {found.format, Compression::kNone};
  const std::string bytes = first_bytes(path, compression, kSniffBytes);
  is_foreign(path, compression, bytes, kinds);
  if (found.format == Format::kText) refuse_foreign_rest(path, compression, bytes, kinds);
  return found;
}

}  // namespace

Recognised recognise(const Path& path, const ReadRules& rules, const KindRules& kinds) {
  const std::string start = first_bytes(path, Compression::kNone, kKindBytes);
  if (rules.format.empty() && index_of(std::filesystem::canonical(path))) {
    refuse_text_options(path, kinds);
    return {Format::kIndexed, Compression::kNone};
  }
  const Compression compression = compression_of(start);
  if (!rules.format.empty()) return as_named(path, compression, rules, kinds);
  if (formats::looks_like_npy(start)) return {Format::kNpy, Compression::kNone};
  if (compression == Compression::kNone) {
    if (const auto format = column_format(start)) return {*format, Compression::kNone};
    if (is_foreign(path, compression, start, kinds)) return {Format::kText, compression};
    if (const auto format = column_format_by_name(path)) return {*format, Compression::kNone};
  }
  const std::string bytes = first_bytes(path, compression, kSniffBytes);
  if (const auto packed = column_format(bytes); packed && !kinds.as_text)
    throw user_error(fmt::format("{} is a compressed {} file", path.string(), format_name(*packed)),
                     "such files are read in pieces and are compressed inside",
                     fmt::format("unpack it first: {0} --decompress < {1} > {1}.unpacked",
                                 compression_name(compression), shell_word(path.string())));
  if (is_foreign(path, compression, bytes, kinds)) return {Format::kText, compression};
  std::string_view text = bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  JsonLook look;
  auto format = json_format(path, text, rules, kinds, look);
  const bool may_go_on = look.objects == 1 && (look.is_cut || look.keys.size() >= JsonScanner::kMostMembers);
  if (!format && may_go_on && has_records_behind(path, compression, rules)) format = Format::kJson;
  if (format) {
    if (*format == Format::kJson && look.objects == 1) refuse_rows_in_object(path, compression, rules);
    return {*format, compression};
  }
  if (csv_separator(text, path, rules.text_keys, kinds.has_keys)) return {Format::kCsv, compression};
  if (kinds.has_keys && !kinds.as_text && !text.empty()) refuse_text(path, text, look);
  refuse_foreign_rest(path, compression, bytes, kinds);
  return {Format::kText, compression};
}

}  // namespace hearth::data
