// SPDX-License-Identifier: Apache-2.0
#include "report/trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "config/config.h"
#include "config/load.h"
#include "data/formats/byte_stream.h"
#include "runfolder/names.h"

namespace hearth::report {
namespace {

using nlohmann::json;

std::string whole_text(const Path& file) {
  const std::string start = data::first_bytes(file, data::Compression::kNone, 16);
  const auto stream = data::open_stream(file, data::compression_of(start));
  std::string text;
  constexpr size_t kPortion = size_t{1} << 20;
  for (size_t filled = 0, count = 1; count > 0; filled += count) {
    text.resize(filled + kPortion);
    count = stream->read(std::span(text).subspan(filled));
    text.resize(filled + count);
  }
  return text;
}

class TraceReader {
 public:
  explicit TraceReader(const Path& file) { trace_.file = file; }

  Trace read() {
    const std::string text = text_of_trace();
    try {
      // Events are taken one by one and dropped: the whole tree would need many times the file's memory.
      const json rest = json::parse(
          text, [this](int depth, json::parse_event_t event, json& value) { return visit(depth, event, value); });
      take_facts(rest);
    } catch (const json::exception& e) {
      throw not_a_trace(e.what());
    }
    if (trace_.events.empty())
      throw user_error(fmt::format("{} has no complete events", trace_.file.string()),
                       "a trace has them in \"traceEvents\", with \"ph\": \"X\"",
                       "give a file of RUN/profile_traces, or one that PyTorch's profiler wrote");
    for (auto& [place, track] : numbers_) {
      const auto name = thread_names_.find(place);
      trace_.tracks[static_cast<size_t>(track)] = name != thread_names_.end() ? name->second : place;
    }
    return std::move(trace_);
  }

 private:
  std::string text_of_trace() const {
    try {
      return whole_text(trace_.file);
    } catch (const Error& e) {
      if (e.code() != ExitCode::kDamaged) throw;
      throw not_a_trace(e.message());
    }
  }
  Error not_a_trace(const std::string& why) const {
    return damaged(fmt::format("{} is not a trace", trace_.file.string()), why,
                   "give a file of RUN/profile_traces, or one that PyTorch's profiler wrote");
  }
  // Whether the parser keeps the value.
  bool visit(int depth, json::parse_event_t event, const json& value) {
    using Kind = json::parse_event_t;
    if (depth == 0 && event == Kind::array_start) events_depth_ = 1;  // Chrome's other form: only the events
    if (depth == 1 && event == Kind::key) events_depth_ = value == "traceEvents" ? 2 : 0;
    if (events_depth_ == 0 || depth != events_depth_ || event != Kind::object_end) return true;
    take_event(value);
    return false;
  }

  void take_event(const json& event) {
    const auto kind = event.find("ph");
    if (kind == event.end()) return;
    if (*kind == "M" && event.value("name", json()) == "thread_name")
      thread_names_[place_of(event)] = event.at("args").at("name").get<std::string>();
    if (*kind != "X") return;
    const auto category = event.find("cat");
    const auto duration = event.find("dur");
    const auto begin_us = event.at("ts").get<double>();
    const double length_us = duration == event.end() ? 0 : duration->get<double>();
    constexpr double kMost = 1e18;  // 30,000 years: sums stay finite
    if (!(length_us >= 0 && length_us < kMost && std::abs(begin_us) < kMost))
      throw not_a_trace(fmt::format("an event begins at {} and lasts {} microseconds", begin_us, length_us));
    trace_.events.push_back({event.at("name").get<std::string>(),
                             category == event.end() ? "" : category->get<std::string>(), track_of(event), begin_us,
                             begin_us + length_us});
  }

  static std::string place_of(const json& event) {
    return fmt::format("{}/{}", event.value("pid", json()).dump(), event.value("tid", json()).dump());
  }

  int64_t track_of(const json& event) {
    const auto [found, is_new] = numbers_.try_emplace(place_of(event), std::ssize(trace_.tracks));
    if (is_new) trace_.tracks.emplace_back();
    return found->second;
  }

  void take_facts(const json& rest) {
    const json facts = rest.is_object() ? rest.value("distributedInfo", json()) : json();
    if (!facts.is_object()) return;
    trace_.rank = facts.value("rank", int64_t{0});
    trace_.ranks = facts.value("world_size", int64_t{1});
  }

  Trace trace_;
  int events_depth_ = 0;  // of an event's object; 0: not among the events
  std::map<std::string, int64_t> numbers_;
  std::map<std::string, std::string> thread_names_;
};

// The number after `prefix` in `name`.
std::optional<int64_t> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

bool is_trace_name(const std::string& name) { return name.ends_with(".json") || name.ends_with(".json.gz"); }

// By rank, where names have one.
std::vector<Path> traces_in(const Path& folder) {
  std::vector<std::pair<int64_t, Path>> found;
  for (const std::string& name : list_folder(folder))
    if (is_trace_name(name) && std::filesystem::is_regular_file(folder / name))
      found.emplace_back(number_after(name, "rank").value_or(0), folder / name);
  std::sort(found.begin(), found.end());
  std::vector<Path> files;
  for (const auto& [rank, file] : found) files.push_back(file);
  return files;
}

// The newest iteration_N in `folder`, or `folder` itself if it has none.
Path newest_iteration(const Path& folder) {
  std::pair<int64_t, Path> newest{std::numeric_limits<int64_t>::min(), folder};
  for (const std::string& name : list_folder(folder)) {
    const auto number = number_after(name, "iteration_");
    if (number && *number > newest.first && folder_exists(folder / name)) newest = {*number, folder / name};
  }
  return newest.second;
}

// The traces' folder of a run folder, which has JSON files of other kinds itself. nullopt: `given` is no run folder.
std::optional<Path> traces_of_run(const Path& given) {
  const Path run_file = given / runfolder::kRunFile;
  config::RunConfig config;
  try {
    if (path_exists(run_file)) config = config::from_toml_text(read_file(run_file), run_file.string(), given);
  } catch (const Error&) {  // a damaged run file: the name that most runs have
  }
  const Path folder = join_path(given, config.profiling.save_traces_folder);
  return path_exists(run_file) || folder_exists(folder) ? std::optional(folder) : std::nullopt;
}

}  // namespace

Trace read_trace(const Path& file) { return TraceReader(file).read(); }

std::vector<Path> trace_files(const Path& given) {
  if (!path_exists(given))
    throw user_error(fmt::format("{} does not exist", given.string()), {},
                     "give a trace, or a folder of them, such as RUN/profile_traces");
  if (!folder_exists(given)) return {given};
  const Path folder = traces_of_run(given).value_or(given);
  std::vector<Path> files;
  if (folder_exists(folder)) files = traces_in(newest_iteration(folder));
  if (files.empty())
    throw user_error(fmt::format("{} has no traces", folder.string()),
                     "no file in it, or in the newest iteration_N, ends in .json or .json.gz",
                     "a training writes them with profiling.enable_profiling = true");
  return files;
}

}  // namespace hearth::report
