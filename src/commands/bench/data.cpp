// SPDX-License-Identifier: Apache-2.0
// `hearth bench data`: the cost of the order of samples, of opening many shards and of reading batches on this machine.
//
// Times are CPU time of the one working thread, the best of several calls: other programs on the machine matter little.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "base/disk_space.h"
#include "base/random.h"
#include "commands/commands.h"
#include "data/batch/loader.h"
#include "data/build/build.h"
#include "data/shard/dataset.h"

namespace hearth::commands {
namespace {

constexpr int64_t kSeqLen = 2048;

double cpu_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Least seconds of one of `turns` calls.
template <typename Body>
double best_of(int turns, Body body) {
  double best = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < turns; ++turn) {
    const double start = cpu_seconds();
    body();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

struct Results {
  double sample_one_ns = 0, sample_six_ns = 0, locate_ns = 0, open_ms = 0, tokens_per_second = 0;
  int64_t shards = 10000;
};

void write(const Path& path, std::string_view text) {
  make_folders(path.parent_path());
  File file = File::create(path);  // not fsynced: it does not outlive the command
  file.write(text);
  file.close();
}

// Words of six letters: only their number matters.
std::string corpus(int64_t bytes) {
  std::string text;
  const RandomKey key = random_key(0, "bench data");
  for (uint64_t i = 0; static_cast<int64_t>(text.size()) < bytes; ++i) {
    uint64_t letters = random_u64(key, i);
    for (int k = 0; k < 8; ++k, letters >>= 8) text += static_cast<char>(letters % 7 == 0 ? ' ' : 'a' + letters % 26);
  }
  return text;
}

data::Dataset build(const Path& folder, const std::string& text, int64_t document_bytes) {
  write(folder / "text" / "corpus.txt", text);
  data::BuildOptions options;
  options.out = folder / "data";
  options.paths = {folder / "text"};
  options.rules.read.document_bytes = document_bytes;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  return data::Dataset::open(options.out);
}

double time_sample(size_t sources) {
  std::vector<data::SamplerSource> mixed;
  const double weights[] = {0.4, 0.44, 0.03, 0.02, 0.1, 0.01};  // a published mixture of six sources
  for (size_t i = 0; i < sources; ++i) mixed.push_back({fmt::format("{}", i), 3'000'000'000, weights[i]});
  const data::Sampler sampler(mixed, data::Window::causal(kSeqLen), 1);
  constexpr uint64_t kSamples = 100'000;
  int64_t sum = 0;
  uint64_t g = 0;
  const double seconds = best_of(20, [&] {
    for (uint64_t end = g + kSamples; g < end; ++g) sum += sampler.sample(g).first_token;
  });
  return sum > 0 ? 1e9 * seconds / static_cast<double>(kSamples) : 0;
}

// `shards` copies of one small shard, as a dataset.
void time_many_shards(const Path& folder, Results& results) {
  const data::Dataset small = build(folder / "small", corpus(4096), 0);
  data::DatasetManifest manifest = small.manifest();
  data::SplitEntry& split = manifest.splits.front();
  const data::ShardEntry shard = split.shards.front();
  const std::string content = read_file(small.folder() / shard.file);
  split.shards.assign(static_cast<size_t>(results.shards), shard);
  for (size_t i = 0; i < split.shards.size(); ++i) {
    split.shards[i].file = fmt::format("train-{:05}.shard", i);
    write(folder / "many" / split.shards[i].file, content);
  }
  split.tokens *= results.shards;
  split.documents *= results.shards;
  split.text_bytes *= results.shards;
  write(folder / "many" / std::string(data::kManifestName), data::manifest_text(manifest));

  results.open_ms = 1e3 * best_of(5, [&] { data::Dataset::open(folder / "many"); });
  const data::Dataset many = data::Dataset::open(folder / "many");
  const data::Split& tokens = many.split("train");
  const RandomKey key = random_key(0, "bench locate");
  constexpr uint64_t kLookups = 20'000;
  std::vector<int64_t> places;
  for (uint64_t i = 0; i < kLookups; ++i)
    places.push_back(static_cast<int64_t>(random_u64(key, i) % static_cast<uint64_t>(tokens.tokens())));
  int64_t sum = 0;
  const double seconds = best_of(20, [&] {
    for (const int64_t token : places) sum += tokens.shard_of(token);
  });
  results.locate_ns = sum > 0 ? 1e9 * seconds / static_cast<double>(kLookups) : 0;
}

// One thread that copies batches from mapped shards in the page cache.
void time_loader(const Path& folder, int64_t corpus_bytes, Results& results) {
  const data::Dataset dataset = build(folder / "large", corpus(corpus_bytes), 4096);
  data::LoaderOptions options;
  options.seq_len = kSeqLen;
  options.global_batch_size = options.local_batch_size = 16;
  options.prefetch_threads = 0;
  data::Loader loader(dataset.split("train"), options);
  const int64_t steps = corpus_bytes / (kSeqLen * options.global_batch_size);
  for (int64_t i = 0; i < 3 * steps; ++i) loader.next();  // afterwards every block's checksum was checked
  const int64_t timed = steps / 4;
  const double seconds = best_of(20, [&] {
    for (int64_t i = 0; i < timed; ++i) loader.next();
  });
  results.tokens_per_second = static_cast<double>(timed * options.global_batch_size * kSeqLen) / seconds;
}

}  // namespace

int bench_data(CommandLine& line) {
  Results r;
  int64_t megabytes = 32;
  bool json = false;
  line.option("--shards N", &r.shards, within(1, 100'000), "small shards to open and to search in");
  line.option("--megabytes N", &megabytes, within(1, 1024), "text that the loader reads, as tokens");
  line.flag("--json", &json, "one JSON object instead of lines for people");
  if (!line.parse()) return 0;
  const Path scratch = temporary_directory() / fmt::format("hearth-bench-data-{}", ::getpid());
  std::error_code ignored;
  const std::shared_ptr<void> at_the_end(nullptr, [&](void*) { std::filesystem::remove_all(scratch, ignored); });
  r.sample_one_ns = time_sample(1);
  r.sample_six_ns = time_sample(6);
  time_many_shards(scratch, r);
  time_loader(scratch, megabytes << 20, r);
  if (json) {
    fmt::print(
        "{{\"sample_one_source_ns\": {}, \"sample_six_sources_ns\": {}, \"shards\": {}, \"locate_ns\": {}, "
        "\"open_ms\": {}, \"loader_tokens_per_second\": {}}}\n",
        r.sample_one_ns, r.sample_six_ns, r.shards, r.locate_ns, r.open_ms, r.tokens_per_second);
    return 0;
  }
  fmt::print("CPU time of one thread, the best of several turns\n");
  fmt::print("sample, one source     {:.1f} ns\n", r.sample_one_ns);
  fmt::print("sample, six sources    {:.1f} ns\n", r.sample_six_ns);
  fmt::print("shard of a token       {:.1f} ns, among {}\n", r.locate_ns, r.shards);
  fmt::print("open a dataset         {:.1f} ms, of {}\n", r.open_ms, counted(r.shards, "shard"));
  fmt::print("loader                 {} tokens/s\n", format_count(r.tokens_per_second));
  return 0;
}

}  // namespace hearth::commands
