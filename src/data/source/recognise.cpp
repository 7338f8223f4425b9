#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "base/error.h"
#include "data/formats/byte_stream.h"
#include "data/formats/indexed_file.h"
#include "data/formats/json_text.h"
#include "data/formats/npy.h"
#include "data/source/source.h"

namespace hearth::data {
namespace {

constexpr size_t kSniffBytes = 1 << 20;

// Up to kSniffBytes of the uncompressed content. Later damage is found when the file is read.
std::string first_bytes(const Path& path, Compression compression) {
  std::string text(kSniffBytes, '\0');
  size_t size = 0;
  try {
    const auto stream = open_stream(path, compression);
    for (size_t n = 1; n > 0 && size < text.size(); size += n) n = stream->read(std::span(text).subspan(size));
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged) throw;
  }
  text.resize(size);
  return text;
}

// The name without a compressor's ending.
std::string plain_name(const Path& path) {
  std::string name = path.filename().string();
  for (const char* ending : {".gz", ".zst", ".zstd"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  }
  return name;
}

// By name, because then a first line that is not JSON is an error and not a text. By content, if the first two lines
// are JSON objects. One object alone may be a text, such as a configuration file among sources.
bool is_jsonl(const Path& path, std::string_view text) {
  const std::string name = plain_name(path);
  for (const char* ending : {".jsonl", ".ndjson", ".jsonlines"}) {
    if (name.ends_with(ending)) return true;
  }
  const bool is_whole_file = text.size() < kSniffBytes;
  for (int line = 0; line < 2; ++line) {
    const size_t begin = text.find_first_not_of("\r\n");
    if (begin == std::string_view::npos || text[begin] != '{') return false;
    const size_t end = text.find('\n', begin);
    // A second line that is longer than the bytes read cannot be checked: its first letter decides.
    const bool whole = end != std::string_view::npos || is_whole_file;
    if (whole && !is_json_object(text.substr(begin, std::min(end, text.size()) - begin))) return false;
    if (!whole) return line == 1;
    text.remove_prefix(std::min(end, text.size()));
  }
  return true;
}

// Parquet ("PARE": with an encrypted footer), Arrow's file format, and its stream format, which starts with a mark and
// the length of a message.
std::optional<Format> column_format(std::string_view bytes) {
  if (bytes.starts_with("PAR1") || bytes.starts_with("PARE")) return Format::kParquet;
  if (bytes.starts_with("ARROW1")) return Format::kArrow;
  constexpr std::string_view kMark = "\xff\xff\xff\xff";
  int32_t length = 0;
  if (bytes.size() < kMark.size() + sizeof length || !bytes.starts_with(kMark)) return {};
  std::memcpy(&length, bytes.data() + kMark.size(), sizeof length);
  return length > 0 && length % 8 == 0 ? std::optional(Format::kArrow) : std::nullopt;
}

// By name, because then other content is damage and not a text.
std::optional<Format> column_format_by_name(const Path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".parquet") return Format::kParquet;
  if (ending == ".arrow" || ending == ".feather") return Format::kArrow;
  return {};
}

}  // namespace

Recognised recognise(const Path& path, const ReadRules& rules) {
  Recognised found;
  std::string magic(8, '\0');
  {
    const File file = File::open_read(path);
    magic.resize(std::min(magic.size(), static_cast<size_t>(file.size_bytes())));
    file.read_at(0, std::as_writable_bytes(std::span(magic)));
  }
  if (rules.format.empty() && index_of(path)) {
    found.format = Format::kIndexed;
    return found;
  }
  found.compression = compression_of(magic);
  if (!rules.format.empty()) {
    found.format = parse_format(rules.format);
    if (may_give_ids(found.format) || found.format == Format::kNpy) found.compression = Compression::kNone;
    return found;
  }
  if (looks_like_npy(magic)) {
    found.format = Format::kNpy;
    return found;
  }
  if (found.compression == Compression::kNone) {
    auto format = column_format(magic);
    if (!format) format = column_format_by_name(path);
    if (format) {
      found.format = *format;
      return found;
    }
  }
  const std::string text = first_bytes(path, found.compression);
  if (const auto packed = column_format(text))
    throw user_error(fmt::format("{} is a compressed {} file", path.string(), format_name(*packed)),
                     "such files are read in pieces and are compressed inside",
                     fmt::format("unpack it first: {} -d", found.compression == Compression::kGzip ? "gzip" : "zstd"));
  found.format = is_jsonl(path, text) ? Format::kJsonl : Format::kText;
  return found;
}

}  // namespace hearth::data
