// SPDX-License-Identifier: Apache-2.0
// `hearth config docs`: writes docs/config.md from the table of fields and the table of flavors, or a section in short.
#include "cluster/cluster_file.h"
#include "commands/commands.h"
#include "commands/run_file.h"
#include "config/families.h"
#include "config/fields.h"
#include "config/toml_text.h"
#include "plan/parameters.h"

namespace hearth::commands {
namespace {

constexpr const char* kIntroduction = R"(# The run file

A run is one TOML file, and for a single run `--set section.key=value`. Sections and keys are those of torchtitan (2025)
where it has them. What is not given has its default. An unknown key, a wrong type or a value out of range is an error;
all errors of a file are reported at once, with file and line, before anything is touched. Paths are relative to the
folder of the TOML file.

`hearth config check RUN.toml` looks for errors, also in the weights that the run begins with.
`hearth config show RUN.toml` prints every key with its value and where that comes from. A run's start prints the keys that somebody chose, and with `--verbose` all of them. `config.toml` in the run
folder has every key with its value, as the newest start found it, and is itself a run file that goes on with the run; every
checkpoint stores the values that it was made with.

This page is made from the table of fields: `hearth config docs > docs/config.md`.

## Rules between keys

- Exactly one of `training.steps`, `training.tokens` and `training.epochs` is given.
- `training.global_batch_size` is a multiple of `training.local_batch_size` times the number of ranks; how often
  gradients accumulate follows. It stays the same whatever the number of ranks.
- `model.n_heads` divides `model.dim` unless `model.head_dim` is given. The head width is even and at most 256, and
  `model.n_kv_heads` divides `model.n_heads`.
- `model.qk_norm` needs `model.norm_type = "rmsnorm"` or `"rmsnorm_1p"`.
- `model.layer_types` has one entry for each layer. It or `model.full_attention_interval`, not both.
- `model.hidden_dim` or `model.ffn_dim_multiplier`, not both.
- `lr_scheduler.warmup_steps` or `lr_scheduler.warmup_fraction`, not both. A warm-up that is given is not longer than the
  training; the default is cut to it.
- `data.path` or `[[data.source]]` is given, not both, and names datasets.
- A key that nothing would read is an error: the column "applies when" says which values of other keys it needs. Its
  default is allowed everywhere.

## Lists

`[[data.source]]` stands once for each source, and its tables count from 0: `--set data.source.0.weight=2` changes the
first, and a number one past the last adds a table.

## A mixture of sources

    [[data.source]]
    path = "data/web"
    weight = 4

    [[data.source]]
    path = "data/books"
    weight = 1
    epochs_max = 4

    [[data.segment]]          # the last fifth: books only
    from_tokens = 8e9
    weights = [0, 1]

- Weights are shares of tokens. Any stretch of the training holds each source's share to within one sequence, rounded to
  1 in 65,536. A weight of documents counts a source's documents instead: its tokens' share is its weight times the
  tokens of its average document.
- Each source is read without repetition, each pass in another order; `epochs_max` refuses a run that is too long, before
  it starts. `training.epochs` counts all tokens of all sources, whatever the weights.
- The sources need the same tokenizer. A dataset may be a source once.
- Weights, segments and the order of sources may change at a resume, and sources may be added: what was trained stays in
  the checkpoint, and the file holds from the next step on. A source that is no longer wanted gets weight 0.
- What each token weighs in the loss may stand in the data (`hearth data build --loss-key`, `--labels-key`, `--weights-key`,
  `--labels`; see "Weights" in `data_format.md`). There is no key for it: training, validation and `hearth eval` obey it,
  and `training.token_weights` is multiplied with. A training says at its start which share of the tokens counts.
- `data.on_damage = "substitute"` takes, for a sequence with a damaged block, the first whole one of those 1, 2, 4, 8, ...
  further in the same source; each is logged and counted (`substituted` in metrics.jsonl). Validation always stops.
- Without `[[validation.set]]`, all held-out documents of all sources are measured together. With it, each set has a loss
  of its own, `validation_loss.NAME`; `validation_loss` is the mean over the tokens of all of them.

## At a resume

`hearth train RUN.toml` goes on from the newest good checkpoint, which stores the configuration it was made with. The
start prints every key that has another value now. The last column below says what comes of it:

- *may change*: obeyed from the next step on. A longer training prolongs a linear or cosine decay.
- *no effect*: only the start of a run reads it.
- *refused*: it would no longer be the same training. Set it back, or start a new run: another `job.dump_folder`, or
  `--restart`.

The tokenizer and the content of the dataset may not change either; their hashes are in the checkpoint. Nor may the file of
`training.token_weights` be edited; other weights have another name.
)";

std::string_view at_resume_text(config::AtResume at_resume) {
  return at_resume == config::AtResume::kMayChange  ? "may change"
         : at_resume == config::AtResume::kNoEffect ? "no effect"
                                                    : "refused";
}

std::string conditions_text(const config::AppliesWhen& conditions) {
  std::string text;
  for (const config::Condition& condition : conditions) text += (text.empty() ? "" : ", and ") + condition.text();
  return text;
}

std::string key_rows(std::span<const config::Field> fields, std::string_view section) {
  std::string text =
      "| key | default | unit | allowed | what it is | applies when | at a resume |\n|---|---|---|---|---|---|---|\n";
  for (const config::Field& field : fields) {
    if (field.section != section) continue;
    const std::string allowed = field.limits.text();
    text += fmt::format("| `{}` | `{}` | {} | {} | {} | {} | {} |\n", field.key,
                        config::to_toml_value(field.default_value()), field.unit,
                        allowed.empty() ? std::string(field.type()) : allowed, field.help,
                        conditions_text(field.applies_when), at_resume_text(field.at_resume));
  }
  return text;
}

// A section with its lists.
std::string section_table(std::string_view section) {
  std::string text = fmt::format("\n## [{}]\n\n{}\n\n", section, config::section_help(section));
  text += key_rows(config::fields(), section);
  for (const config::List& list : config::lists()) {
    if (list.section() == section)
      text += fmt::format("\n### [[{}]]\n\n{}{}\n\n{}", list.name, list.help,
                          list.applies_when.empty() ? "" : " Applies when: " + conditions_text(list.applies_when) + ".",
                          key_rows(config::list_fields(), list.name));
  }
  return text;
}

std::string flavor_table() {
  std::string text =
      "\n## Flavors\n\n`model.flavor`, one of those of `model.name`, fills the keys of `[model]` that are not given. "
      "Parameters are counted\nwith the vocabulary in the table; `vocab_size` itself is the tokenizer's.\n\n"
      "| name | flavor | dim | n_layers | n_heads | n_kv_heads | hidden_dim | rope_theta | scaling | tied | vocabulary "
      "| parameters |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const config::Flavor& flavor : config::flavors()) {
    const config::Model model = model_of(flavor);
    const plan::ModelShape shape = plan::model_shape(model, flavor.vocabulary);
    text += fmt::format("| `{}` | `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", flavor.model_name,
                        flavor.name, shape.D, shape.L(), shape.H, shape.G, shape.F(), model.rope_theta,
                        model.rope_scaling_factor, model.enable_weight_tying ? "yes" : "", flavor.vocabulary,
                        plan::parameter_plan(shape).num_parameters);
  }
  return text;
}

// The keys of cluster files, which are files of their own.
std::string cluster_tables() {
  std::string text =
      "\n## Cluster files\n\n`hearth submit RUN.toml --cluster NAME` reads a second file, which says how jobs run on "
      "one cluster. Hearth comes\nwith those of `configs/clusters`: copy one, change it, and name it by its path. "
      "[clusters.md](clusters.md) has the\nwhole way. A run file has none of these keys.\n";
  for (const cluster::ClusterSection& section : cluster::cluster_sections()) {
    text += fmt::format("\n### [{}] of a cluster file\n\n{}\n", section.name, section.help);
    bool first = true;
    for (const cluster::ClusterKey& key : cluster::cluster_keys()) {
      if (key.section != section.name) continue;
      if (std::exchange(first, false))
        text += "\n| key | default | unit | allowed | what it is |\n|---|---|---|---|---|\n";
      const std::string allowed = key.limits.text();
      text += fmt::format("| `{}` | `{}` | {} | {} | {} |\n", key.key, config::to_toml_value(key.default_value()),
                          key.unit, allowed.empty() ? config::type_text(key.default_value()) : allowed, key.help);
    }
  }
  return text;
}

}  // namespace

int config_docs(CommandLine& line) {
  std::string only;
  line.positional("SECTION", &only, "list the keys of this section in short; none given: the whole manual").optional();
  if (!line.parse()) return 0;
  if (!only.empty()) {
    fmt::print("{}", section_keys(only));
    return 0;
  }
  std::string text = kIntroduction;
  for (const std::string& section : config::section_names()) text += section_table(section);
  text += flavor_table();
  text += cluster_tables();
  fmt::print("{}", text);
  return 0;
}

}  // namespace hearth::commands
