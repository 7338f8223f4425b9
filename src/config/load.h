// From a TOML file and --set to a RunConfig, and back to TOML.
//
// Precedence: default < model.flavor < file < --set, where "data.source.0.weight" names a key of the first
// [[data.source]], and a number one past the last table adds one. Every key must be known, of the right type and in
// range; whatever is wrong is reported at once (config/problem.h), with file:line, before anything else happens.
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

// Where a value came from.
struct Origin {
  enum class Kind { kDefault, kFlavor, kFile, kSet };
  Kind kind = Kind::kDefault;
  int line = 0;  // kFile
  bool given() const { return kind == Kind::kFile || kind == Kind::kSet; }
};

struct LoadResult {
  RunConfig config;
  std::string file_name;                               // as the user typed it; empty: no file
  std::map<std::string, Origin, std::less<>> origins;  // by name; what is not here has its default
  std::vector<Problem> problems;
  bool syntax_error = false;  // then the rest of the file is unknown

  // `name`: "training.steps", "data.source.0.weight"; "data.source.0" is where that table begins.
  Origin origin(std::string_view name) const;
  // "run.toml:12", "--set", or "run.toml" where the key is not written anywhere.
  std::string where(std::string_view name) const;
  // Whether one of the problems is about `name`, which may be a section; with `typed` about its value alone, and not
  // about how it goes with others.
  bool has_problem(std::string_view name, bool typed = false) const;
};

// Reads and types; the rules between keys are config/check.h. Everything wrong is in `problems`, except that an
// unreadable file throws. `toml` may be empty: defaults and `sets` ("section.key=value") only.
LoadResult read_run(const Path& toml, const std::vector<std::string>& sets);

// read_run and all rules for training.
LoadResult read_and_check(const Path& toml, const std::vector<std::string>& sets);

// The same, and throws what is wrong.
RunConfig load(const Path& toml, const std::vector<std::string>& sets);

// training.device becomes "cuda", with what follows from that for keys that are not given: as if the run file said so.
// For a plan of a machine that is not here.
void compute_on_gpu(LoadResult& run);

// A configuration that was not read: nothing is wrong with it so far.
LoadResult without_file(const RunConfig& config);

// Throws what is wrong with a run, if anything is: the problems of its file, and `found` later, each where its key
// stands. What is about a key that has a problem already is left out.
void throw_all(const LoadResult& loaded, std::span<const Error> found);

// Runs `body`. What it throws about a key says where that stands.
template <class Body>
void with_places(const LoadResult& loaded, const Body& body) {
  ErrorList errors;
  errors.attempt(body);
  throw_all(loaded, errors.list());
}

// The resolved configuration: every key, in the order of entries(). from_toml_text gives back the same values, bit for
// bit.
std::string to_toml(const RunConfig& config);

// Text that to_toml wrote, maybe long ago: a key that it does not have takes its default, one that no longer exists is
// an error. `name` stands in messages for the file.
RunConfig from_toml_text(std::string_view text, const std::string& name, const Path& base_folder);

}  // namespace hearth::config
