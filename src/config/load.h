// SPDX-License-Identifier: Apache-2.0
// Reads a TOML file and --set into a RunConfig, and writes it as TOML.
//
// Precedence: default < model.flavor < file < --set. There "data.source.0.weight" is a key of the first
// [[data.source]], and a number one past the last table adds a table. Every key must be known, of the right type and in
// range. All problems are reported together (config/problem.h), with file:line, before anything else happens.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error_list.h"
#include "base/file.h"
#include "config/config.h"
#include "config/fields.h"
#include "config/problem.h"

namespace hearth::config {

// The origin of a value.
struct Origin {
  enum class Kind { kDefault, kFlavor, kFile, kSet };
  Kind kind = Kind::kDefault;
  int line = 0;  // kFile
  bool given() const { return kind == Kind::kFile || kind == Kind::kSet; }
};

struct LoadResult {
  RunConfig config;
  std::string file_name;                               // as the user typed it; empty: no file
  std::map<std::string, Origin, std::less<>> origins;  // by name; missing ones have their default
  std::vector<Problem> problems;
  bool syntax_error = false;  // the rest of the file is unknown

  // `name`: "training.steps", "data.source.0.weight"; "data.source.0" is the line where that table begins.
  Origin origin(std::string_view name) const;
  // "run.toml:12", "--set", or "run.toml" if the key is not given.
  std::string where(std::string_view name) const;
  // Whether a problem is about `name`, a key or a section. With `typed`, problems of rules between keys do not count.
  bool has_problem(std::string_view name, bool typed = false) const;
};

// Reads a file and checks types; the rules between keys are in config/check.h. All errors are in `problems`, except
// that an unreadable file throws. `toml` may be empty: only defaults and `sets` ("section.key=value"). `world`: the
// number of ranks that were started; 0: not known. parallelism.data_parallel_shard_degree becomes this number if it is
// -1 or not given, and has to equal it otherwise.
LoadResult read_run(const Path& toml, const std::vector<std::string>& sets, int64_t world = 0);

// Like read_run, but from a text. Messages use `name` as the file's name.
LoadResult read_run_text(std::string_view text, const std::string& name, const Path& base_folder,
                         const std::vector<std::string>& sets = {}, int64_t world = 0);

// read_run and all rules for training.
LoadResult read_and_check(const Path& toml, const std::vector<std::string>& sets, int64_t world = 0);

// Like read_and_check, but throws if there are problems.
RunConfig load(const Path& toml, const std::vector<std::string>& sets);

// Sets training.device to "cuda", and the keys that follow from it if they are not given, as a run file would. Used to
// plan for a machine that is not here.
void compute_on_gpu(LoadResult& run);

// A configuration that was not read from a file. It has no problems.
LoadResult without_file(const RunConfig& config);

// Throws the problems of a run, if there are any: the file's problems, and the errors `found` later, each with its
// key's place in the file. Errors about a key that already has a problem are left out.
void throw_all(const LoadResult& loaded, std::span<const Error> found);

// Runs `body` and adds the key's place in the file to its errors.
template <class Body>
void with_places(const LoadResult& loaded, const Body& body) {
  ErrorList errors;
  errors.attempt(body);
  throw_all(loaded, errors.list());
}

// The resolved configuration: every key, in the order of entries(). from_toml_text gives back the same bits.
std::string to_toml(const RunConfig& config);

// The keys that say how a model was trained, for a reader on another machine: the sections model, objective, optimizer,
// lr_scheduler and training. All other keys have their defaults, and no key is a path.
RunConfig for_publication(const RunConfig& config);

// Reads text that to_toml wrote, perhaps in an older version. Missing keys take their default; keys that no longer
// exist are an error. Messages use `name` as the file's name.
RunConfig from_toml_text(std::string_view text, const std::string& name, const Path& base_folder);

}  // namespace hearth::config
