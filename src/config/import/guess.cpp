// SPDX-License-Identifier: Apache-2.0
#include "config/import/guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/text.h"
#include "config/import/import.h"

namespace hearth::config {
namespace {

constexpr size_t kShown = 6;  // names in an error

// A program whose files Hearth does not import, and keys that only its files have. "name.*" is every key of a table.
struct OtherProgram {
  std::string_view title;  // of the file
  std::array<std::string_view, 13> keys;
  std::string_view fix;  // FOLDER stands for the file's
};
constexpr OtherProgram kOthers[] = {
    {"a file of NeMo or NxD Training",
     {"trainer.*", "exp_manager.*", "distributed_strategy.*", "model_source", "compiler_flags", "restore_from_path"},
     "write a run file by hand: docs/coming_from.md has the names of its keys here"},
    {"a file of LLaMA-Factory",
     {"stage", "finetuning_type", "template", "cutoff_len", "dataset_dir", "quantization_bit"},
     "give the TrainingArguments that are among its keys, in a file of their own"},
    {"a file of Axolotl",
     {"base_model", "sequence_len", "sample_packing", "datasets", "val_set_size", "special_tokens.*"},
     "write a run file by hand: docs/coming_from.md has the names of its keys here"},
    {"a file of DeepSpeed",
     {"zero_allow_untested_optimizer", "train_micro_batch_size_per_gpu", "zero_optimization.*", "scheduler.*",
      "zero_force_ds_cpu_optimizer", "communication_data_type", "train_batch_size", "steps_per_print", "optimizer.type",
      "optimizer.params.*", "gradient_accumulation_steps", "bf16.*", "fp16.*"},
     "give the trainer's own file or command without it: DeepSpeed's file says nothing of the model and the data"},
    {"the config.json of a model of Transformers",
     {"architectures", "model_type", "hidden_size", "num_hidden_layers", "vocab_size", "transformers_version"},
     "`hearth inspect --model FOLDER` prints its shape for a run file"},
    {"the trainer_state.json of a checkpoint of Transformers' Trainer",
     {"global_step", "log_history", "log_history.*", "best_metric", "best_global_step", "best_model_checkpoint",
      "total_flos", "is_world_process_zero", "is_local_process_zero", "stateful_callbacks.*"},
     "give the TrainingArguments, as a .json of what their to_json_string() returns, or the training's command"},
    {"a file of torchtune",
     {"model._component_", "tokenizer._component_", "dataset._component_", "optimizer._component_", "loss._component_",
      "checkpointer._component_"},
     "write a run file by hand: `hearth config docs` lists every key"},
    {"a file of MosaicML's LLM Foundry, or of OLMo",
     {"max_duration", "train_loader.*", "device_train_microbatch_size", "global_train_batch_size", "max_seq_len",
      "algorithms.*"},
     "write a run file by hand: `hearth config docs` lists every key"},
};

std::string lower_text(std::string_view name) {
  std::string text(name);
  for (char& c : text) c = lower(c);
  return text;
}

// NAME of an option --no-NAME; empty for another key.
std::string negated(const Dialect& dialect, const ForeignKey& key) {
  if (!key.from_command || key.value.text() != "true" || rule_for(dialect.rules, key.name) != nullptr) return {};
  const size_t dot = key.name.rfind('.'), begin = dot == std::string::npos ? 0 : dot + 1;
  if (std::string_view(key.name).substr(begin, 3) != "no_") return {};
  std::string name = key.name;
  name.erase(begin, 3);
  return has_rule(dialect.rules, name) ? name : std::string();
}

bool has_program(std::span<const ForeignKey> keys) {
  return std::any_of(keys.begin(), keys.end(), [](const ForeignKey& key) { return key.name == "launch.program"; });
}

// Whether a key is one of the dialect's. `exact`: it has a row of its own. `program`: lines of NAME=value are variables
// of a program, and no options.
bool knows(const Dialect& dialect, const ForeignKey& key, bool exact, bool program = false) {
  if (key.from_command ? !dialect.commands : !dialect.files) return false;
  if (key.name.starts_with('$') && !has_rule(dialect.rules, key.name))
    return !program && has_rule(dialect.rules, lower_text(key.name.substr(1)));
  if (!negated(dialect, key).empty()) return true;
  return exact ? has_rule(dialect.rules, key.name) : rule_for(dialect.rules, key.name) != nullptr;
}

// Whether a key tells one trainer from another. What launches the training does not.
bool is_counted(const ForeignKey& key) {
  return !key.name.starts_with("launch.") && !key.name.starts_with("env.") && !key.name.starts_with("$SLURM_");
}

std::vector<ForeignKey> keys_of_file(std::span<const ForeignKey> keys, std::string_view file) {
  std::vector<ForeignKey> own(keys.begin(), keys.end());
  std::erase_if(own, [file](const ForeignKey& key) { return key.file != file; });
  return own;
}

std::string names_of(std::span<const ForeignKey> keys) {
  std::vector<std::string> names;
  for (const ForeignKey& key : keys) names.push_back(key.called());
  return names.empty() ? "nothing" : join_first(names, kShown);
}

std::string examples() {
  return "torchtitan's files have training.steps, GPT-NeoX's num_layers and train_iters, Transformers' learning_rate "
         "and per_device_train_batch_size, Megatron-LM's commands --num-layers";
}

// Refuses a file with at least two of another program's own keys, which `dialect` does not know.
void refuse_other_programs(std::span<const ForeignKey> keys, const Dialect& dialect) {
  // GPT-NeoX has DeepSpeed's keys, too, but none of its trainings is without these.
  const bool fits = dialect.name != "neox" || std::any_of(keys.begin(), keys.end(), [](const ForeignKey& key) {
                      return key.name == "num_layers" || key.name == "hidden_size" || key.name == "train_iters";
                    });
  for (const OtherProgram& other : kOthers) {
    std::map<std::string, std::set<std::string_view>> found;  // patterns, by file
    for (const ForeignKey& key : keys) {
      if (key.from_command || (fits && knows(dialect, key, /*exact=*/false))) continue;
      for (const std::string_view pattern : other.keys)
        if (fits_pattern(pattern, key.name)) found[key.file].insert(pattern);
    }
    for (const auto& [file, patterns] : found) {
      if (patterns.size() < 2) continue;
      std::string folder = Path(file).parent_path().string(), fix(other.fix);
      if (const size_t at = fix.find("FOLDER"); at != std::string::npos && file != "stdin")
        fix.replace(at, 6, shell_word(folder.empty() ? "." : folder));
      throw user_error(fmt::format("{}: this looks like {}, which Hearth does not import", file, other.title),
                       fmt::format("there is {}", names_of(keys_of_file(keys, file))), fix);
    }
  }
}

// Refuses a run file of Hearth, which has more of Hearth's keys than of the dialect's. They are TOML: other trainers'
// YAML has names such as model.dim, too.
void refuse_own_files(std::span<const ForeignKey> keys, const Dialect& dialect) {
  std::set<std::string> files;
  for (const ForeignKey& key : keys) {
    const std::string end = Path(key.file).extension().string();
    if (!key.from_command && end != ".json" && end != ".yml" && end != ".yaml") files.insert(key.file);
  }
  for (const std::string& file : files) {
    const std::vector<ForeignKey> all = keys_of_file(keys, file);
    const auto ours =
        std::count_if(all.begin(), all.end(), [](const ForeignKey& key) { return field_of(key.name) != nullptr; });
    const auto theirs = std::count_if(all.begin(), all.end(),
                                      [&](const ForeignKey& key) { return knows(dialect, key, /*exact=*/false); });
    if (ours > theirs && 2 * ours >= std::ssize(all))
      throw user_error(fmt::format("{}: this is a run file of Hearth already", file), "it needs no import",
                       "give it to `hearth train` as it is");
  }
}

// A command tells which trainer it starts: one that has none of its options is out, whatever files stand beside it.
void keep_those_of_command(std::vector<Dialect>& all, std::span<const ForeignKey> keys) {
  std::set<std::string_view> titles;
  for (const Dialect& dialect : all) {
    for (const ForeignKey& key : keys) {
      if (key.from_command && !key.name.starts_with('$') && is_counted(key) && knows(dialect, key, /*exact=*/true))
        titles.insert(dialect.title);
    }
  }
  if (titles.empty()) return;
  std::erase_if(all, [&titles](const Dialect& dialect) { return !titles.contains(dialect.title); });
}

}  // namespace

std::vector<Dialect> dialects() {
  return {torchtitan_toml(), torchtitan_json(), neox(), transformers(), megatron(), trainium()};
}

Dialect choose_dialect(std::span<const ForeignKey> keys, std::string_view from, const std::string& title) {
  std::vector<Dialect> all = dialects();
  if (!from.empty()) {
    const auto named = std::find_if(all.begin(), all.end(), [from](const Dialect& d) { return d.name == from; });
    HEARTH_CHECK(named != all.end(), "{}", from);
    return *named;
  }
  const bool deepy = std::any_of(keys.begin(), keys.end(), [](const ForeignKey& key) {
    return key.name == "launch.program" && key.value.text().starts_with("deepy");
  });
  if (deepy) return neox();
  keep_those_of_command(all, keys);
  const auto count = [&keys, program = has_program(keys)](const Dialect& dialect, bool exact) {
    return std::count_if(keys.begin(), keys.end(),
                         [&](const ForeignKey& key) { return is_counted(key) && knows(dialect, key, exact, program); });
  };
  const auto best = std::max_element(
      all.begin(), all.end(), [&](const Dialect& a, const Dialect& b) { return count(a, true) < count(b, true); });
  const std::string give = fmt::format("give --from {}, if it is one of these files", join(dialect_names(), " or "));
  refuse_own_files(keys, *best);
  refuse_other_programs(keys, *best);
  if (count(*best, true) == 0)
    throw user_error(fmt::format("{}: no key is one of a trainer that Hearth imports from", title),
                     fmt::format("there is {}; {}", names_of(keys), examples()), give);
  const auto all_keys = std::count_if(
      keys.begin(), keys.end(), [](const ForeignKey& key) { return is_counted(key) && !key.name.starts_with('$'); });
  // A dialect that prepares its keys has rules for what becomes of them.
  if (best->prepare == nullptr && 2 * count(*best, false) < all_keys)
    throw user_error(fmt::format("{}: {} has {} of its {} keys, and no other trainer has more", title, best->title,
                                 count(*best, false), all_keys),
                     fmt::format("there is {}; {}", names_of(keys), examples()),
                     "write a run file by hand: `hearth config docs` lists every key");
  return *best;
}

void require_training(const Dialect& dialect, std::span<const ForeignKey> keys, std::span<const std::string> files,
                      std::vector<Problem>& problems) {
  for (const std::string& file : files) {
    const std::vector<ForeignKey> own = keys_of_file(keys, file);
    const bool known = std::any_of(own.begin(), own.end(), [&](const ForeignKey& key) {
      return (is_counted(key) && knows(dialect, key, false, has_program(keys))) || key.name == "launch.files" ||
             (!is_counted(key) && !key.name.starts_with("launch.") && has_rule(dialect.rules, key.name));
    });
    if (!known) {
      problems.push_back(
          problem_in(file, fmt::format("no key of {} is in this file", dialect.title), "give a file that has some"));
      problems.back().why = fmt::format("there is {}", names_of(own));
    }
  }
  if (!problems.empty()) return;
  const std::vector<std::string> core = split(dialect.core, ' ');
  const auto is_core = [&core](const ForeignKey& key) {
    const auto fits = [&key](std::string_view pattern) { return fits_pattern(pattern, key.name); };
    return !key.value.null() && std::any_of(core.begin(), core.end(), fits);
  };
  if (core.empty() || std::any_of(keys.begin(), keys.end(), is_core)) return;
  problems.push_back(problem_in({}, fmt::format("the files say nothing of a training with {}", dialect.title),
                                "give the file or command that does"));
  problems.back().why = fmt::format("none of {} is given; there is {}", join_first(core, kShown), names_of(keys));
}

void name_variables(const Dialect& dialect, std::vector<ForeignKey>& keys, std::vector<Problem>& problems) {
  if (has_program(keys)) return;
  std::vector<std::string> names;
  for (const ImportRule& rule : dialect.rules)
    if (!rule.name.ends_with('*')) names.emplace_back(rule.name.starts_with('$') ? rule.name.substr(1) : rule.name);
  for (ForeignKey& key : keys) {
    if (!key.name.starts_with('$') || has_rule(dialect.rules, key.name)) continue;
    const std::string written = key.name.substr(1), option = lower_text(written);
    if (dialect.commands && has_rule(dialect.rules, option)) {
      key.name = option;
      continue;
    }
    if (std::none_of(written.begin(), written.end(), [](char c) { return is_letter(c) && lower(c) == c; })) continue;
    const std::string meant = nearest(option, names);
    problems.push_back(problem_of(key, fmt::format("{} has no option {}", dialect.title, written),
                                  meant.empty() ? "remove it" : fmt::format("did you mean {}? Or remove it", meant)));
  }
}

void join_negations(const Dialect& dialect, std::vector<ForeignKey>& keys) {
  for (ForeignKey& key : keys) {
    std::string name = negated(dialect, key);
    if (name.empty()) continue;
    key.shown = "--" + name;
    key.name = std::move(name);
    key.value = {false};
  }
}

}  // namespace hearth::config
