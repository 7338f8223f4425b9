#include "data/corpus.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "base/error.h"
#include "base/hash.h"
#include "data/parallel.h"
#include "data/utf8.h"

namespace hearth::data {
namespace {

namespace fs = std::filesystem;

// Walks the paths; a real path is kept once, with the first path that led to it.
class Walk {
 public:
  Walk(const CorpusOptions& options, Corpus& corpus) : options_(options), corpus_(corpus) {
    if (!options.exclude.empty() && path_exists(options.exclude)) excluded_ = fs::canonical(options.exclude);
  }

  void visit(const Path& path, bool given_by_user) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    const bool wrong_kind = !fs::is_directory(status) && !fs::is_regular_file(status);
    if (given_by_user && error) throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (given_by_user && wrong_kind) throw user_error(fmt::format("{} is neither a file nor a folder", path.string()));
    if (error && error.value() != ENOENT && error.value() != ELOOP)
      throw system_error(fmt::format("cannot read {}", path.string()), error.value());
    if (wrong_kind) {  // a link to nowhere, a socket
      ++corpus_.skipped;
      return;
    }
    if (!fs::is_directory(status) && !given_by_user && !included(path)) return;
    const Path real = fs::canonical(path);
    if (real == excluded_) return;
    if (fs::is_directory(status)) {
      if (!folders_.insert(real.string()).second) {
        ++corpus_.links_resolved;
        return;
      }
      for (const std::string& name : list_folder(path)) visit(path / name, false);
    } else if (!files_.try_emplace(real.string(), path.string()).second) {
      ++corpus_.links_resolved;
    }
  }

  const std::map<std::string, std::string>& files() const { return files_; }  // real path -> path

 private:
  bool included(const Path& path) const {
    const std::string name = path.filename().string();
    const auto matches = [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; };
    return options_.include.empty() || std::any_of(options_.include.begin(), options_.include.end(), matches);
  }

  const CorpusOptions& options_;
  Corpus& corpus_;
  Path excluded_;
  std::set<std::string> folders_;
  std::map<std::string, std::string> files_;
};

struct ScannedFile {
  SourceFile source;
  std::vector<Document> documents;  // `source` not yet set
  int64_t invalid_utf8_bytes = 0;
};

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads one file: hash, documents, invalid UTF-8.
ScannedFile scan(const std::string& real_path, const std::string& path, int64_t document_bytes) {
  ScannedFile file;
  const MappedFile mapped(real_path);
  const std::string_view text = text_of(mapped.bytes());
  file.source = {path, real_path, static_cast<int64_t>(text.size()), xxh3_128_hex(text)};
  file.invalid_utf8_bytes = count_invalid_utf8(text);
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.size();
    if (document_bytes > 0 && text.size() - begin > static_cast<size_t>(document_bytes)) {
      const size_t line_end = text.find('\n', begin + static_cast<size_t>(document_bytes) - 1);
      if (line_end != std::string_view::npos) end = line_end + 1;
    }
    const bool whole = begin == 0 && end == text.size();
    file.documents.push_back({0, static_cast<int64_t>(begin), static_cast<int64_t>(end - begin),
                              whole ? file.source.hash : xxh3_128_hex(text.substr(begin, end - begin))});
    begin = end;
  }
  return file;
}

// Keeps what has text and was not there before.
void gather(std::vector<ScannedFile> files, Corpus& corpus) {
  std::unordered_set<std::string> contents;
  for (ScannedFile& file : files) {
    if (file.source.size_bytes == 0) {
      ++corpus.empty_dropped;
      continue;
    }
    if (!contents.insert(file.source.hash).second) {
      ++corpus.duplicates_dropped;
      continue;
    }
    corpus.invalid_utf8_bytes += file.invalid_utf8_bytes;
    corpus.invalid_utf8_files += file.invalid_utf8_bytes > 0 ? 1 : 0;
    for (Document& document : file.documents) {
      document.source = static_cast<int64_t>(corpus.sources.size());
      corpus.documents.push_back(std::move(document));
    }
    corpus.sources.push_back(std::move(file.source));
  }
}

}  // namespace

int64_t Corpus::text_bytes() const {
  int64_t sum = 0;
  for (const Document& document : documents) sum += document.size_bytes;
  return sum;
}

Corpus find_corpus(const CorpusOptions& options, int64_t document_bytes, CorpusProgress& progress) {
  Corpus corpus;
  Walk walk(options, corpus);
  for (const Path& path : options.paths) walk.visit(path, true);

  const std::vector<std::pair<std::string, std::string>> paths(walk.files().begin(), walk.files().end());
  int64_t total = 0;
  for (const auto& [real_path, path] : paths) {
    std::error_code error;
    const auto size = fs::file_size(real_path, error);
    total += error ? 0 : static_cast<int64_t>(size);
  }
  progress.files = static_cast<int64_t>(paths.size());
  progress.bytes_total = total;

  std::vector<ScannedFile> files(paths.size());
  for_each_index(static_cast<int64_t>(paths.size()), options.threads, [&](int64_t i) {
    const auto& [real_path, path] = paths[static_cast<size_t>(i)];
    ScannedFile& file = files[static_cast<size_t>(i)];
    file = scan(real_path, path, document_bytes);
    progress.bytes_read += file.source.size_bytes;
  });
  gather(std::move(files), corpus);
  if (corpus.documents.empty())
    throw user_error("there is no text to build from",
                     paths.empty() ? "no file was found" : fmt::format("all of the {} files are empty", paths.size()),
                     options.include.empty() ? "give files or folders that hold text"
                                             : "give other paths, or another --include pattern");
  return corpus;
}

bool is_held_out(const std::string& document_hash, double fraction) {
  const uint64_t value = xxh3_64("held out: " + document_hash);  // decides stored splits: never change
  return static_cast<double>(value >> 11) * 0x1p-53 < fraction;
}

}  // namespace hearth::data
