// SPDX-License-Identifier: Apache-2.0
// The run files of other trainers that `hearth config import` reads: one function each.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/import/draft.h"

namespace hearth::config {

// A kind of run file.
struct Dialect {
  std::string_view name;   // for --from: "torchtitan"
  std::string_view title;  // for messages: "GPT-NeoX"
  std::span<const ImportRule> rules;
  void (*import)(Draft& draft);  // after the rules: reads the keys of rules kRead and sets ours
  bool files = true;             // whether it has files of keys: TOML, YAML, JSON
  bool commands = false;         // whether it has options on a command line
  // A training has at least one of these keys, which have blanks between them: "learning_rate training.*". Empty:
  // `import` reports what is missing.
  std::string_view core{};
  bool options_win = false;  // whether an option takes the place of a file's key
  // Runs before the rules: merges keys with the same meaning, and renames keys to the names in the rules. May be null.
  void (*prepare)(std::vector<ForeignKey>& keys, std::vector<Problem>& problems) = nullptr;
};
Dialect torchtitan_toml();  // torchtitan 2024 and 2025, and its forks for recordings and for masked models
Dialect torchtitan_json();  // torchtitan 0.3 (2026): --debug.save_config_file
Dialect neox();             // GPT-NeoX, main (2026) and Llemma's branch (2023)
Dialect megatron();         // Megatron-LM's options (2026)
Dialect trainium();         // Arcee's program for AWS Trainium, with NxD's example of a training
Dialect transformers();     // Hugging Face's TrainingArguments and scripts, and accelerate

// Functions that several dialects use.

// The last part of a path that says something, as the name of a folder: ".../arxiv_text_document" is "arxiv".
std::string foreign_name(std::string_view path);

// `name`, or NAME-2, NAME-3, ... : the first that is not in `taken`.
std::string new_name(const std::string& name, const std::vector<std::string>& taken);

// The command that makes a dataset of what the other program reads at `foreign`, as far as it is known.
std::string build_command(const std::string& folder, const std::string& foreign);

// Adds a dataset of the training. Its folder becomes "data/NAME", where NAME is from the foreign path's last part.
// `index` is the number of [[data.source]], or -1 for data.path.
void set_source(Draft& draft, int64_t index, const std::string& foreign, const ForeignKey* from);

// Sets job.dump_folder to "runs/NAME". NAME is foreign_name() of the path at the foreign key `name`, if it is given.
void set_run_folder(Draft& draft, std::string_view name);

// For a key whose default Hearth does not support: it must be given, and have one of `values`. `standard`: its default,
// as text; `shown`: the key as the program's users write it.
void need_value(Draft& draft, std::string_view name, std::initializer_list<std::string_view> values,
                std::string_view standard, std::string_view what, std::string_view shown = {});

// Refuses the second of two keys of one setting, if both are given and their numbers differ.
void refuse_other_number(Draft& draft, std::string_view first, std::string_view second);

// The text of a key for which "no" means "nothing". Without quotes, YAML and this import read "no" as false.
std::string text_or_no(Draft& draft, std::string_view name, std::string_view standard);

// Takes the number of ranks from a launcher's options or Slurm's variables, unless it is known already. These are
// processes per node times nodes (torchrun, DeepSpeed), -n (mpirun, srun), and SLURM_NTASKS.
void take_launched_ranks(Draft& draft);
// The rules of a dialect that calls take_launched_ranks, one by one, with the keys that it reads.
std::vector<ImportRule> with_launched_ranks(std::span<const ImportRule> rows);
// Takes the number of ranks from the first of these keys that is given, unless it is known already. A number below 1 or
// too large is a problem.
void take_given_ranks(Draft& draft, std::initializer_list<std::string_view> names);

// A variable of the environment, or null: NAME=value in front of the command, else in a line of its own.
const ForeignKey* foreign_variable(const Draft& draft, std::string_view name);

// Whether a number can count sequences, micro-batches or ranks: from 1 to 2^20.
constexpr bool is_count(int64_t number) { return number >= 1 && number <= (1 << 20); }
// The product of whole numbers that are not negative, at most 2^62: no key of ours allows so much.
int64_t bounded_product(std::initializer_list<int64_t> factors);

// Degrees of parallelism of a foreign training.
struct ForeignDegree {
  int64_t value = 1;
  const ForeignKey* from = nullptr;
};
struct ForeignLayout {
  ForeignDegree replicate, shard{0}, context, tensor, pipeline;  // shard 0: what is left of the ranks
  int64_t zero_stage = 1;
  int64_t data() const { return bounded_product({replicate.value, shard.value}); }
  int64_t ranks() const { return bounded_product({data(), context.value, tensor.value, pipeline.value}); }
};
// The degree in the first of these keys that is given; 1 where no key is given. A degree below 1 is a problem. With
// `rest`, -1 or a missing key gives 0.
ForeignDegree foreign_degree(Draft& draft, std::initializer_list<std::string_view> names, bool rest = false);
// Computes `layout.shard` from --ranks if it is 0. If the number of ranks is missing or wrong, adds a problem to the
// draft and returns false. `asked_by` says what needs it.
bool resolve_layout(Draft& draft, ForeignLayout& layout, std::string_view asked_by);
// Sets parallelism.* and training.local_batch_size, or with --no-layout only a note and a micro-batch of 1.
void set_layout(Draft& draft, const ForeignLayout& layout, int64_t local_batch_size, const ForeignKey* from);

}  // namespace hearth::config
