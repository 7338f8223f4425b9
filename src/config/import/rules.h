// SPDX-License-Identifier: Apache-2.0
// What an import does with the keys of other trainers: one table for each dialect.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace hearth::config {

struct ImportRule {
  enum class Kind {
    kCopy,    // our key `target` gets the value; `words` is a note beside it
    kRead,    // code of the dialect reads it
    kIgnore,  // it does not change what is trained: `words` say why
    kOnly,    // Hearth supports only the values in `target` ("1|null"); `words` say what it does
    kRefuse   // `words` say why; `fix` says what to do
  };
  // "training.steps". "profiling.*" is for every key that begins with "profiling." and has no row. In a dialect's
  // source, a row may have several names with blanks between them.
  std::string_view name;
  Kind kind;
  std::string_view target{}, words{}, fix{};
};

constexpr ImportRule copy(std::string_view names, std::string_view target, std::string_view note = {}) {
  return {names, ImportRule::Kind::kCopy, target, note};
}
// Our keys of the same names get the values.
constexpr ImportRule same(std::string_view names) { return {names, ImportRule::Kind::kCopy}; }
constexpr ImportRule read(std::string_view names) { return {names, ImportRule::Kind::kRead}; }
constexpr ImportRule ignore(std::string_view names, std::string_view why) {
  return {names, ImportRule::Kind::kIgnore, {}, why};
}
constexpr ImportRule only(std::string_view names, std::string_view values, std::string_view what) {
  return {names, ImportRule::Kind::kOnly, values, what};
}
constexpr ImportRule refuse(std::string_view names, std::string_view why, std::string_view fix = {}) {
  return {names, ImportRule::Kind::kRefuse, {}, why, fix};
}

// Reasons that keys of several programs have.
inline constexpr std::string_view kWhyFloat8 = "it tunes float8 products; Hearth scales each row";
inline constexpr std::string_view kWhyFormat = "checkpoints have one format";
inline constexpr std::string_view kWhyKernels = "it chooses between kernels with the same result";
inline constexpr std::string_view kWhyLaunch =
    "it starts processes: `hearth train RUN.toml` does so with --ranks, srun or mpirun";
inline constexpr std::string_view kWhyLog = "metrics.jsonl in the run folder has every number of every step";
inline constexpr std::string_view kWhyMemory = "it moves memory and changes no result";
inline constexpr std::string_view kWhyNoExperts = "the model has no experts";
inline constexpr std::string_view kWhyExperts = "experts are not imported: give model.num_experts and its neighbours";
inline constexpr std::string_view kWhyNoFloat16 = "numbers in float16 are not there";
inline constexpr std::string_view kWhyResume = "a run goes on from its newest good checkpoint";
inline constexpr std::string_view kWhySameBits = "results have the same bits, always";
inline constexpr std::string_view kWhySequence = "ranks of tensor parallelism always share the sequence, too";
inline constexpr std::string_view kWhyStages = "stages are cut between layers, evenly";
inline constexpr std::string_view kWhyThreads = "threads read ahead: data.prefetch_threads";
inline constexpr std::string_view kWhyTokenizer =
    "the dataset brings its tokenizer: `hearth data build --tokenizer FILE`";
inline constexpr std::string_view kWhyTraffic = "it moves memory or traffic and changes no result";
inline constexpr std::string_view kWhyValidation = "`hearth data build --validation FRACTION` holds documents out";
inline constexpr std::string_view kWhyWandb = "`scripts/wandb_sync.py` sends a run's metrics to W&B";

// The rows with one name each, in the same order. An error proposes the first of equally near names.
std::vector<ImportRule> one_by_one(std::span<const ImportRule> rows);

// Whether a pattern is the name, or ends in * and the name begins with it. "env.NAME" is also "$NAME".
bool fits_pattern(std::string_view pattern, std::string_view name);
// The rule of a key: the row with its name, else the longest row with * that fits it. Null: no rule.
const ImportRule* rule_for(std::span<const ImportRule> rules, std::string_view name);
// Whether a key has a row of its own.
bool has_rule(std::span<const ImportRule> rules, std::string_view name);

// The rules of a dialect (dialects.h) whose table has its own file: one row for each key.
std::span<const ImportRule> megatron_rules();
std::span<const ImportRule> neox_rules();
std::span<const ImportRule> torchtitan_rules();
std::span<const ImportRule> torchtitan_json_rules();
std::span<const ImportRule> transformers_rules();

}  // namespace hearth::config
