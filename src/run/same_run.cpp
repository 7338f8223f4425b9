// SPDX-License-Identifier: Apache-2.0
#include "run/same_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>

#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "comm/notes/frames.h"
#include "config/check.h"
#include "config/resume.h"
#include "convert/kind.h"
#include "run/preflight.h"

namespace hearth::run {
namespace {

// Weights without checksums of their own are compared by all bytes of a small folder, else by samples. These find a
// tensor that differs, if it has a stride's bytes. A rank must not read a whole model at its start.
constexpr int64_t kWholeBytes = int64_t{64} << 20, kSampleBytes = 4096, kStride = int64_t{4} << 20,
                  kMostSamples = 16384;

Path folder_of(const Path& run_toml) { return run_toml.has_parent_path() ? run_toml.parent_path() : Path("."); }

// A run file, its place and its options, as a message.
struct RunText {
  std::string text, name, folder;
  bool restart = false;
  std::vector<std::string> sets{};

  std::string bytes() const {
    std::string all = comm::parts_as_bytes(text, name, folder, restart ? "restart" : "");
    for (const std::string& set : sets) comm::put_part(all, set);
    return all;
  }
  static RunText from(std::string_view bytes) {
    std::vector<std::string> parts = comm::parts_of(bytes);
    return {parts.at(0), parts.at(1), parts.at(2), parts.at(3) == "restart", {parts.begin() + 4, parts.end()}};
  }
};

config::RunConfig with_all_paths_absolute(const config::RunConfig& config) {
  config::RunConfig absolute = with_absolute_paths(config);
  absolute.job.dump_folder = absolute_path(config.run_folder()).string();
  if (!config.checkpoint.initial_load_path.empty())
    absolute.checkpoint.initial_load_path = absolute_path(config.initial_load_path()).string();
  return absolute;
}

std::string differences_text(const config::RunConfig& of_first, const config::RunConfig& own) {
  std::string lines;
  for (const config::Difference& d : config::differences(of_first, own))
    lines += fmt::format("\n    {} = {}, and {} on rank 0", d.name, d.after, d.before);
  return lines;
}

void refuse_other_run(const std::string& lines, const comm::Control& control) {
  if (lines.empty()) return;
  throw user_error(fmt::format("{} was started with another run than rank 0:{}", control.name(), lines),
                   "all ranks have one configuration", "start all ranks with the same run file and the same options");
}

// Throws if this rank's own command line gives another run than rank 0's.
void compare_own(const RunText& first, const GivenRun& given, const config::RunConfig& of_first,
                 const comm::Control& control) {
  std::string lines;
  if (given.restart != first.restart)
    lines += fmt::format("\n    --restart: {}, and {} on rank 0", given.restart ? "given" : "not given",
                         first.restart ? "given" : "not given");
  if (given.run_toml.string() != first.name || given.sets != first.sets) {
    const config::LoadResult own = config::read_run(given.run_toml, given.sets, control.size());
    for (const config::Problem& problem : own.problems)
      lines += fmt::format("\n    {}: {}", problem.where, problem.what);
    lines += differences_text(with_all_paths_absolute(of_first), with_all_paths_absolute(own.config));
  }
  refuse_other_run(lines, control);
}

// Whether a file belongs to a model. What downloads leave beside it differs between hosts, and so do notes.
bool is_of_model(const Path& file) {
  const bool is_hidden = std::any_of(file.begin(), file.end(), [](const Path& part) {
    return part.string().starts_with('.') && part != ".metadata";  // DCP's
  });
  return !is_hidden && file.extension() != ".md" && !file.filename().string().starts_with("LICENSE");
}

std::string weights_identity(const Path& path) {
  const Path manifest = path / checkpoint::kManifestFile;
  if (path_exists(manifest)) return xxh3_128_hex(read_file(manifest));
  std::vector<FileEntry> files;
  if (folder_exists(path)) {
    files = files_under(path);
    std::erase_if(files, [](const FileEntry& file) { return !is_of_model(file.path); });
  } else {
    files.push_back({Path(), File::open_read(path).size_bytes()});
  }
  int64_t total = 0;
  for (const FileEntry& file : files) total += file.bytes;
  const int64_t stride = total <= kWholeBytes ? kSampleBytes : std::max(kStride, total / kMostSamples);
  StreamingHash hash;
  int64_t begin = 0;  // of a file, as if all were one after the other
  for (const FileEntry& entry : files) {
    hash.update(fmt::format("{} {}\n", entry.path.string(), entry.bytes));
    const File file = File::open_read(entry.path.empty() ? path : path / entry.path);
    std::string sample;
    const int64_t first = (begin + stride - 1) / stride * stride - begin;
    for (int64_t at = first; at < entry.bytes; at += stride) {
      sample.resize(static_cast<size_t>(std::min(kSampleBytes, entry.bytes - at)));
      file.read_at(at, std::as_writable_bytes(std::span(sample.data(), sample.size())));
      hash.update(sample);
    }
    begin += entry.bytes;
  }
  return hash.digest_128_hex();
}

}  // namespace

Path FirstRun::folder() const {
  if (error || loaded.syntax_error || loaded.has_problem("job.dump_folder")) return {};
  const Path folder = loaded.config.run_folder();
  return is_object(folder) ? Path() : absolute_path(folder);
}

FirstRun read_first_run(const GivenRun& given, int64_t ranks) {
  FirstRun first;
  try {
    if (!given.run_toml.empty()) first.text = read_stream(given.run_toml);
    first.loaded =
        config::read_run_text(first.text, given.run_toml.string(), folder_of(given.run_toml), given.sets, ranks);
    config::check(first.loaded, config::Purpose::kTrain);
  } catch (const Error& error) {
    first.error = error;
  }
  return first;
}

double join_timeout_s(const std::optional<FirstRun>& first, const GivenRun& given, int64_t ranks) {
  constexpr std::string_view kKey = "comm.init_timeout_seconds";
  const double by_default = config::Comm().init_timeout_seconds;
  const auto in = [&](const config::LoadResult& loaded) {
    return loaded.syntax_error || loaded.has_problem(kKey) ? by_default : loaded.config.comm.init_timeout_seconds;
  };
  if (first) return first->error ? by_default : in(first->loaded);
  // The standard input, or a pipe, is rank 0's.
  std::error_code unreadable;
  const bool is_file = std::filesystem::is_regular_file(given.run_toml, unreadable);
  if (!is_file && !given.run_toml.empty()) return by_default;
  const FirstRun own = read_first_run(given, ranks);
  return own.error ? by_default : in(own.loaded);
}

config::LoadResult share_run(const std::optional<FirstRun>& first, const GivenRun& given, comm::Control& control) {
  RunText text;
  control.together("the run file", [&] {
    if (given.misuse) throw Error(*given.misuse);
    if (!first) return;
    if (first->error) throw Error(*first->error);
    text = {first->text, given.run_toml.string(), absolute_path(folder_of(given.run_toml)).string(), given.restart,
            given.sets};
  });
  text = RunText::from(control.broadcast("the run file", text.bytes()));
  config::LoadResult loaded;
  control.together("the run file of all ranks", [&] {
    if (first) {
      loaded = first->loaded;
      return;
    }
    loaded = config::read_run_text(text.text, text.name, text.folder, text.sets, control.size());
    config::check(loaded, config::Purpose::kTrain);
    compare_own(text, given, loaded.config, control);
  });
  return loaded;
}

void require_one_run(const config::RunConfig& own, comm::Control& control) {
  const std::string first = control.broadcast("the run of all ranks", config::to_toml(own));
  control.together("the run of all ranks", [&] {
    refuse_other_run(differences_text(config::from_toml_text(first, "rank 0's run", "."), own), control);
  });
}

void require_same(std::string_view operation, const std::vector<FoundInput>& mine, comm::Control& control) {
  if (control.size() == 1) return;
  std::string bytes;
  for (const FoundInput& one : mine) bytes += comm::parts_as_bytes(one.key, one.path, one.identity);
  const std::vector<std::string> first = comm::parts_of(control.broadcast(operation, bytes));
  control.together(operation, [&] {
    for (size_t i = 0; i < std::max(3 * mine.size(), first.size()) / 3; ++i) {
      const FoundInput none{.key = "nothing", .path = "", .identity = "nothing"};
      const FoundInput& here = i < mine.size() ? mine[i] : none;
      const FoundInput there =
          3 * i < first.size() ? FoundInput{first[3 * i], first[3 * i + 1], first[3 * i + 2]} : none;
      if (here.key == there.key && here.identity == there.identity) continue;
      const std::string& key = i < mine.size() ? here.key : there.key;
      throw user_error(
          fmt::format("{}: {} has another content on {} than on rank 0", key,
                      here.path.empty() ? there.path : here.path, control.name()),
          fmt::format("its identity is {} there, and {} on rank 0", here.identity, there.identity),
          "let this path be the same files on all hosts: an old copy, or another disk of that name, may be "
          "in its place")
          .about(key);
    }
  });
}

// Another host's file system may show a new checkpoint later than rank 0's.
void wait_until_seen(const Path& checkpoint) {
  constexpr std::chrono::milliseconds kPatience(30'000), kPause(200);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!path_exists(checkpoint)) {
    if (std::chrono::steady_clock::now() > end)
      throw Error(ExitCode::kHardware, fmt::format("{} is not here, and rank 0 goes on from it", checkpoint.string()),
                  "this host's file system shows an older state, or another disk of that name is in its place",
                  "let the run folder be the same on all hosts, and start again");
    std::this_thread::sleep_for(kPause);
  }
}

std::vector<FoundInput> weights_found(const std::optional<Path>& own, const config::RunConfig& config) {
  if (own) {
    if (!is_object(*own)) wait_until_seen(*own);
    return {{"checkpoint.folder", own->string(), weights_identity(*own)}};
  }
  if (config.checkpoint.initial_load_path.empty()) return {};
  const Path folder = convert::find_weights(normal_path(config.initial_load_path())).folder;
  return {{"checkpoint.initial_load_path", folder.string(), weights_identity(folder)}};
}

}  // namespace hearth::run
