// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/nearest.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/text.h"
#include "config/problem.h"
#include "config/toml_text.h"

namespace hearth::cluster {
namespace {

constexpr std::string_view kEnvironment = "environment";

bool has_line_break(const config::Value& value) {
  const auto breaks = [](const std::string& text) { return text.find('\n') != std::string::npos; };
  if (const auto* text = std::get_if<std::string>(&value)) return breaks(*text);
  const auto* texts = std::get_if<config::Names>(&value);
  return texts != nullptr && std::any_of(texts->begin(), texts->end(), breaks);
}

// One file while it is read.
class ClusterReader {
 public:
  explicit ClusterReader(ClusterFile& file) : file_(file) {}

  void read(std::string_view text) {
    std::vector<config::TomlEntry> entries;
    if (const auto error = config::parse_toml(text, entries)) {
      problem(error->line, fmt::format("this is not TOML: {}", error->what), {});
    } else {
      for (const config::TomlEntry& entry : entries) take(entry);
      check_rules();
    }
    config::throw_problems(file_.name, problems_);
  }

 private:
  void problem(int line, const std::string& what, const std::string& fix) {
    const std::string where = line > 0 ? fmt::format("{}:{}", file_.name, line) : file_.name;
    problems_.push_back({.where = where, .line = line, .what = what, .fix = fix, .key = {}});
  }

  void take(const config::TomlEntry& entry) {
    const auto sections = cluster_sections();
    const bool known = std::any_of(sections.begin(), sections.end(),
                                   [&entry](const ClusterSection& section) { return section.name == entry.section; });
    if (entry.section.empty()) return problem(entry.line, fmt::format("{} stands outside of a section", entry.key), {});
    if (!known && entry.key.empty()) return unknown_section(entry);
    if (!known || entry.key.empty()) return;
    if (entry.section == kEnvironment) return take_variable(entry);
    for (const ClusterKey& key : cluster_keys()) {
      if (key.section == entry.section && key.key == entry.key) return assign_key(key, entry);
    }
    unknown_key(entry);
  }

  void unknown_section(const config::TomlEntry& entry) {
    std::vector<std::string> names;
    for (const ClusterSection& section : cluster_sections()) names.emplace_back(section.name);
    const std::string meant = nearest(entry.section, names);
    problem(entry.line, fmt::format("[{}] is not a section of a cluster file", entry.section),
            meant.empty() ? fmt::format("remove it; the sections are {}", join(names))
                          : fmt::format("did you mean [{}]?", meant));
  }

  void unknown_key(const config::TomlEntry& entry) {
    std::vector<std::string> here, anywhere;
    for (const ClusterKey& key : cluster_keys()) {
      if (key.section == entry.section) here.emplace_back(key.key);
      anywhere.emplace_back(key.key);
    }
    std::string fix = "remove it; `hearth config docs` lists every key of cluster files";
    if (const std::string meant = nearest(entry.key, here); !meant.empty()) {
      fix = fmt::format("did you mean {}.{}?", entry.section, meant);
    } else if (const std::string other = nearest(entry.key, anywhere); !other.empty()) {
      for (const ClusterKey& key : cluster_keys())
        if (key.key == other) fix = fmt::format("did you mean {}?", key.name());
    }
    problem(entry.line, fmt::format("{}.{} is not a key of a cluster file", entry.section, entry.key), fix);
  }

  void wrong_type(const config::TomlEntry& entry, std::string_view type) {
    const char* verb = entry.shown.starts_with("a ") ? "is" : "=";
    problem(entry.line, fmt::format("{}.{} {} {}: not {}", entry.section, entry.key, verb, entry.shown, type), {});
  }

  void assign_key(const ClusterKey& key, const config::TomlEntry& entry) {
    lines_[key.name()] = entry.line;
    const config::Value type = key.default_value();
    const auto value = entry.value ? config::as_type(*entry.value, type) : std::nullopt;
    if (!value) return wrong_type(entry, config::type_text(type));
    if (!key.limits.allow(*value)) {
      const bool is_choice = std::holds_alternative<std::string>(*value);
      return problem(
          entry.line,
          fmt::format("{} = {} {}", key.name(), entry.shown, is_choice ? "is not a choice" : "is out of range"),
          fmt::format("give {}", key.limits.text()));
    }
    if (key.section == "job" && has_line_break(*value))
      return problem(entry.line, fmt::format("{} has a line break", key.name()),
                     "each option of sbatch is one line of the script");
    std::visit([&]<class T>(T ClusterFile::*member) { file_.*member = std::get<T>(*value); }, key.member);
  }

  void take_variable(const config::TomlEntry& entry) {
    const auto* text = entry.value ? std::get_if<std::string>(&*entry.value) : nullptr;
    const auto* number = entry.value ? std::get_if<int64_t>(&*entry.value) : nullptr;
    const bool is_name =
        std::all_of(entry.key.begin(), entry.key.end(),
                    [](char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }) &&
        std::isdigit(static_cast<unsigned char>(entry.key.front())) == 0;
    if (!is_name)
      return problem(entry.line, fmt::format("environment.{} is not the name of an environment variable", entry.key),
                     "a name has letters, digits and _, and does not begin with a digit");
    if (text == nullptr && number == nullptr) return wrong_type(entry, "a text in quotes, nor a whole number");
    file_.environment.emplace_back(entry.key, text != nullptr ? *text : fmt::format("{}", *number));
  }

  void check_rules() {
    const auto rule = [this](const std::string& key, bool holds, const std::string& what, const std::string& fix) {
      if (!holds) problem(lines_.contains(key) ? lines_[key] : 0, fmt::format("{} {}", key, what), fix);
    };
    rule("job.time_limit", file_.time_limit.empty() || seconds_of_time_limit(file_.time_limit) > 0,
         fmt::format("= \"{}\" is not a time", file_.time_limit),
         "write HH:MM:SS, D-HH:MM:SS, or minutes, up to a year");
    rule("start.launcher", file_.has_slurm() || file_.launcher == "local",
         fmt::format("= \"{}\" has no allocation to start ranks in", file_.launcher),
         "with cluster.scheduler = \"none\" give start.launcher = \"local\"");
    rule("job.time_limit", file_.has_slurm() || file_.time_limit.empty(),
         "is read by nobody with cluster.scheduler = \"none\"", "remove it");
    rule("start.launcher", !(file_.has_slurm() && file_.launcher == "local") || file_.nodes == 1,
         "= \"local\" starts ranks on one node only", "give job.nodes = 1, or another launcher");
    const int64_t limit = seconds_of_time_limit(file_.time_limit);
    rule("job.signal_lead_seconds", limit <= 0 || file_.signal_lead_seconds < limit,
         fmt::format("= {} is not less than the time limit of {} s", file_.signal_lead_seconds, limit),
         "give less, or a longer job.time_limit");
    rule("device.memory", file_.device_memory.empty() || parse_bytes(file_.device_memory).value_or(0) > 0,
         fmt::format("= \"{}\" is not a size", file_.device_memory), "write a number and a unit, \"64 GiB\"");
    for (const std::string& option : file_.options) {
      rule("job.options", option.starts_with("-"), fmt::format("has \"{}\", which is not an option", option),
           "write each option with its value as one text, \"--core-spec=0\"");
    }
  }

  ClusterFile& file_;
  std::vector<config::Problem> problems_;
  std::map<std::string, int> lines_;  // of keys that are given
};

// The folder of shipped files. Its place is relative to the program, so an installation can be moved.
Path clusters_folder() {
  const Path program = own_program();
  return program.empty() ? Path() : (program.parent_path() / ".." / "share" / "hearth" / "clusters").lexically_normal();
}

}  // namespace

int64_t seconds_of_time_limit(std::string_view text) {
  int64_t days = 0;
  const size_t dash = text.find('-');
  const auto number = [](std::string_view part) -> int64_t {
    int64_t value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    return error == std::errc() && end == part.data() + part.size() && value >= 0 && value < 1'000'000 ? value : -1;
  };
  std::string_view rest = text;
  if (dash != std::string_view::npos) {
    days = number(text.substr(0, dash));
    rest = text.substr(dash + 1);
  }
  std::vector<int64_t> parts;
  for (const std::string& part : split(rest, ':')) parts.push_back(number(part));
  if (parts.empty() || parts.size() > 3 || days < 0 || rest.ends_with(":")) return -1;
  if (std::any_of(parts.begin(), parts.end(), [](int64_t part) { return part < 0; })) return -1;
  parts.resize(3, -1);
  int64_t seconds = days * 86400;
  // With days: hours, minutes, seconds. Without: minutes; minutes and seconds; or hours, minutes, seconds.
  if (dash != std::string_view::npos || parts[2] >= 0) {
    seconds += parts[0] * 3600 + std::max<int64_t>(parts[1], 0) * 60 + std::max<int64_t>(parts[2], 0);
  } else {
    seconds += parts[0] * 60 + std::max<int64_t>(parts[1], 0);
  }
  return seconds <= int64_t{366} * 86400 ? seconds : -1;
}

ClusterFile read_cluster_file(const Path& path, const std::string& name) {
  ClusterFile file;
  file.name = name;
  file.path = path;
  ClusterReader(file).read(read_stream(path));
  return file;
}

std::vector<std::string> shipped_clusters() {
  std::vector<std::string> names;
  const Path folder = clusters_folder();
  if (folder.empty() || !folder_exists(folder)) return names;
  for (const std::string& name : list_folder(folder))
    if (name.ends_with(".toml")) names.push_back(name.substr(0, name.size() - 5));
  return names;
}

ClusterFile find_cluster_file(const std::string& name_or_file) {
  if (name_or_file.find('/') != std::string::npos || name_or_file.ends_with(".toml"))
    return read_cluster_file(name_or_file, name_or_file);
  const std::vector<std::string> names = shipped_clusters();
  if (std::find(names.begin(), names.end(), name_or_file) == names.end()) {
    const std::string meant = nearest(name_or_file, names);
    std::string fix = "give a cluster file by its path";
    if (!names.empty()) fix = fmt::format("give one of {}, or a cluster file by its path", join(names));
    if (!meant.empty()) fix = fmt::format("did you mean {}? Or give a cluster file by its path", meant);
    throw user_error(fmt::format("there is no cluster file \"{}\"", name_or_file),
                     names.empty() ? fmt::format("{} is not there", clusters_folder().string()) : "", fix);
  }
  return read_cluster_file(clusters_folder() / (name_or_file + ".toml"), name_or_file);
}

}  // namespace hearth::cluster
