// SPDX-License-Identifier: Apache-2.0
// `hearth bench tokenizer`: the speed of a tokenizer's encoding on this machine, on the user's text and on hard texts
// for slow tokenizers.
#include <algorithm>
#include <ctime>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "commands/commands.h"
#include "data/source/foreign_kind.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {
namespace {

using Json = nlohmann::ordered_json;
using Documents = std::vector<std::string>;
using tokenizer::Encoder;
using tokenizer::Tokenizer;

constexpr size_t kHardBytes = 1'000'000;

struct Options {
  std::string tokenizer;
  std::vector<Path> paths;
  int64_t repeat = 3, threads = 1;
  bool json = false;
};

struct Timing {
  std::string name;
  double bytes = 0, seconds = 0;
  int64_t tokens = 0;
  double mb_per_s() const { return bytes / seconds / 1e6; }
};

double seconds_of(clockid_t clock) {
  timespec now;
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<Path> files_in(const std::vector<Path>& paths) {
  std::vector<Path> files;
  for (const Path& path : paths) {
    if (!std::filesystem::is_directory(path))
      files.push_back(path);
    else
      for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Documents read_documents(const std::vector<Path>& paths) {
  Documents documents;
  size_t bytes = 0;
  for (const Path& file : files_in(paths)) {
    documents.push_back(read_stream(file));
    data::require_text(documents.back(), file);
    bytes += documents.back().size();
  }
  if (bytes == 0) throw user_error("there is no text to encode", "the paths hold no bytes", "give files with text");
  return documents;
}

// Texts on which some tokenizers take quadratic time.
std::vector<std::pair<std::string, std::string>> hard_texts() {
  const auto repeated = [](std::string_view what) {
    std::string text;
    while (text.size() < kHardBytes) text += what;
    return text;
  };
  std::string random;
  const RandomKey key = random_key(0, "bench tokenizer");
  for (uint64_t i = 0; i < kHardBytes; ++i) random.push_back(static_cast<char>(random_u64(key, i)));
  return {{"one letter", repeated("a")},
          {"spaces", repeated(" ")},
          {"random bytes", std::move(random)},
          {"one emoji", repeated("\xF0\x9F\x98\x80")}};
}

int64_t encode_all(Encoder& encoder, const Documents& documents, std::vector<uint32_t>& ids) {
  int64_t tokens = 0;
  for (const std::string& document : documents) {
    ids.clear();
    encoder.encode(document, ids);
    tokens += std::ssize(ids);
  }
  return tokens;
}

double bytes_of(const Documents& documents) {
  double bytes = 0;
  for (const std::string& document : documents) bytes += static_cast<double>(document.size());
  return bytes;
}

// In processor time of this thread, where other programs on the machine do not count: the best of `repeat` passes,
// after one pass that warms caches up. If `cold`, each pass has a new encoder.
Timing time_passes(const std::string& name, const Documents& documents, int64_t repeat, bool cold,
                   const std::function<std::unique_ptr<Encoder>()>& make) {
  Timing best{name, bytes_of(documents), 1e300};
  std::vector<uint32_t> ids;
  auto encoder = make();
  encode_all(*encoder, documents, ids);
  for (int64_t i = 0; i < repeat; ++i) {
    if (cold) encoder = make();
    const double start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    best.tokens = encode_all(*encoder, documents, ids);
    best.seconds = std::min(best.seconds, seconds_of(CLOCK_THREAD_CPUTIME_ID) - start);
  }
  return best;
}

// Each thread encodes all documents, at the same time as the others.
Timing time_threads(const Tokenizer& tokenizer, const Documents& documents, const Options& options) {
  Timing best{fmt::format("{} threads, wall clock", options.threads),
              bytes_of(documents) * static_cast<double>(options.threads), 1e300};
  for (int64_t i = 0; i < options.repeat; ++i) {
    const double start = seconds_of(CLOCK_MONOTONIC);
    std::vector<int64_t> tokens(static_cast<size_t>(options.threads));
    {
      std::vector<std::jthread> threads;
      for (int64_t& count : tokens)
        threads.emplace_back([&] {
          std::vector<uint32_t> ids;
          count = encode_all(*tokenizer.encoder(), documents, ids);
        });
    }
    best.seconds = std::min(best.seconds, seconds_of(CLOCK_MONOTONIC) - start);
    best.tokens = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  }
  return best;
}

std::vector<Timing> measure(const Tokenizer& tokenizer, const Documents& documents, const Options& options) {
  const auto cached = [&] { return tokenizer.encoder(); };
  const auto uncached = [&] { return tokenizer.encoder_without_cache(); };
  std::vector<Timing> timings = {time_passes("without cache", documents, options.repeat, false, uncached),
                                 time_passes("with an empty cache", documents, options.repeat, true, cached),
                                 time_passes("with a full cache", documents, options.repeat, false, cached)};
  if (options.threads > 1) timings.push_back(time_threads(tokenizer, documents, options));
  for (const auto& [name, text] : hard_texts())
    timings.push_back(time_passes("1 MB: " + name, {text}, options.repeat, true, cached));
  return timings;
}

}  // namespace

int bench_tokenizer(CommandLine& line) {
  Options options;
  line.positional("PATH", &options.paths, "text: files, and folders with all files in them");
  line.option("--tokenizer NAME", &options.tokenizer, "\"bytes\", a tokenizer's file, or the folder that holds it")
      .required();
  line.option("--repeat N", &options.repeat, within(1, 1000), "passes over the text; the best one counts");
  line.option("--threads N", &options.threads, within(1, 1024), "more than 1: also that many threads at once");
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return 0;

  const auto tokenizer = tokenizer::open_tokenizer(options.tokenizer);
  const Documents documents = read_documents(options.paths);
  const std::vector<Timing> timings = measure(*tokenizer, documents, options);
  if (options.json) {
    Json json;
    json["kind"] = tokenizer->kind();
    json["text_bytes"] = static_cast<int64_t>(bytes_of(documents));
    for (const Timing& t : timings)
      json["timings"].push_back({{"name", t.name}, {"mb_per_s", t.mb_per_s()}, {"tokens", t.tokens}});
    fmt::print("{}\n", json.dump());
    return 0;
  }
  fmt::print("tokenizer   {} ({}), {} tokens\n", options.tokenizer, tokenizer->kind(), tokenizer->vocab_size());
  fmt::print("text        {} in {} files\n\n", format_bytes(static_cast<int64_t>(bytes_of(documents))),
             documents.size());
  fmt::print("{:<28}{:>10}{:>14}\n", "one core, processor time", "MB/s", "tokens/s");
  for (const Timing& t : timings)
    fmt::print("{:<28}{:>10.1f}{:>14.3g}\n", t.name, t.mb_per_s(), static_cast<double>(t.tokens) / t.seconds);
  return 0;
}

}  // namespace hearth::commands
