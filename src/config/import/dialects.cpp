// SPDX-License-Identifier: Apache-2.0
#include "config/import/dialects.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hearth::config {
namespace {

constexpr int64_t kMostRanks = 1 << 24;

// What launchers and Slurm call their numbers.
constexpr std::string_view kNodes[] = {"launch.nnodes", "launch.num_nodes"};
constexpr std::string_view kOfEachNode[] = {"launch.nproc_per_node", "launch.num_gpus"};
constexpr std::string_view kAllTasks[] = {"launch.ntasks", "launch.n", "launch.np", "$SLURM_NTASKS"};
constexpr std::string_view kSlurmNodes[] = {"launch.nodes", "launch.N", "$SLURM_NNODES"};
constexpr std::string_view kTasksOfNode[] = {"launch.ntasks_per_node", "$SLURM_NTASKS_PER_NODE"};

}  // namespace

std::string foreign_name(std::string_view foreign) {
  while (foreign.ends_with('/')) foreign.remove_suffix(1);
  std::string name(base_name(foreign));
  for (const std::string_view end : {"_text_document", "_document", ".jsonl", ".json", ".bin"}) {
    if (name.ends_with(end)) name.erase(name.size() - end.size());
  }
  for (char& c : name) {
    if (!is_word(c) && c != '.') c = '-';
  }
  return name.empty() || name == "." || name == ".." ? "text" : name;
}

std::string new_name(const std::string& name, const std::vector<std::string>& taken) {
  std::string own = name;
  for (int number = 2; std::find(taken.begin(), taken.end(), own) != taken.end(); ++number)
    own = fmt::format("{}-{}", name, number);
  return own;
}

std::string build_command(const std::string& folder, const std::string& foreign) {
  // The usual end of token files: NAME_text_document.bin and .idx.
  return fmt::format("hearth data build --out {}{}", folder,
                     foreign.ends_with("_document") ? " " + shell_word(foreign + ".bin") : "");
}

void set_source(Draft& draft, int64_t index, const std::string& foreign, const ForeignKey* from) {
  std::vector<std::string> others;
  for (int64_t i = 0; i < index; ++i) {
    if (const auto* other = draft.value<std::string>(fmt::format("data.source.{}.path", i))) others.push_back(*other);
  }
  const std::string folder = new_name("data/" + foreign_name(foreign), others);
  const std::string key = index < 0 ? "data.path" : fmt::format("data.source.{}.path", index);
  draft.set(key, folder, from, build_command(folder, foreign));
}

void set_run_folder(Draft& draft, std::string_view name) {
  const auto folder = draft.text(name);
  if (folder && !folder->empty()) draft.set("job.dump_folder", "runs/" + foreign_name(*folder), draft.find(name));
}

const ForeignKey* foreign_variable(const Draft& draft, std::string_view name) {
  return draft.first_of({fmt::format("env.{}", name), fmt::format("${}", name)});
}

int64_t bounded_product(std::initializer_list<int64_t> factors) {
  constexpr int64_t kMost = int64_t{1} << 62;
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product) || product > kMost) return kMost;
  }
  return product;
}

std::string text_or_no(Draft& draft, std::string_view name, std::string_view standard) {
  return draft.text_is(name, "false") ? "no" : draft.text(name).value_or(std::string(standard));
}

void take_given_ranks(Draft& draft, std::initializer_list<std::string_view> names) {
  const bool by_user = draft.options().ranks > 0;
  for (const std::string_view name : names) {
    const auto ranks = by_user ? draft.known_whole(name) : draft.whole(name);
    if (!ranks || *ranks == -1) continue;  // accelerate's "not given"
    if (*ranks >= 1 && *ranks <= kMostRanks) return draft.take_ranks(*ranks);
    if (!by_user) draft.refuse(name, "not a number of ranks");
  }
}

void take_launched_ranks(Draft& draft) {
  const auto of = [&draft](std::span<const std::string_view> names) -> std::optional<int64_t> {
    for (const std::string_view name : names) {
      if (const auto value = draft.known_whole(name); value && *value > 0 && *value <= kMostRanks) return value;
    }
    return std::nullopt;
  };
  const auto any = [&draft](std::span<const std::string_view> names) {
    return std::any_of(names.begin(), names.end(), [&draft](std::string_view name) { return draft.has(name); });
  };
  const auto nodes = of(kNodes), each = of(kOfEachNode);
  if (each && (nodes || !any(kNodes))) return draft.take_ranks(*each * nodes.value_or(1));
  if (any(kOfEachNode)) return;  // it says, but not to us
  if (const auto all = of(kAllTasks)) return draft.take_ranks(*all);
  const auto slurm_nodes = of(kSlurmNodes), tasks = of(kTasksOfNode);
  if (slurm_nodes && tasks) draft.take_ranks(*slurm_nodes * *tasks);
}

std::vector<ImportRule> with_launched_ranks(std::span<const ImportRule> rows) {
  std::vector<ImportRule> all = one_by_one(rows);
  using LaunchNames = std::span<const std::string_view>;
  for (const LaunchNames names : {LaunchNames(kNodes), LaunchNames(kOfEachNode), LaunchNames(kAllTasks),
                                  LaunchNames(kSlurmNodes), LaunchNames(kTasksOfNode)})
    for (const std::string_view name : names) all.push_back(read(name));
  return all;
}

void need_value(Draft& draft, std::string_view name, std::initializer_list<std::string_view> values,
                std::string_view standard, std::string_view what, std::string_view shown) {
  const ForeignKey* key = draft.find(name);
  const std::string value = key == nullptr ? std::string(standard) : key->value.text();
  if (std::find(values.begin(), values.end(), value) != values.end()) return;
  const std::string_view wanted = *values.begin();
  if (key != nullptr) return draft.refuse(*key, fmt::format("{} ({}: {})", what, name, wanted));
  const std::string written = shown.empty()      ? fmt::format("{}: {}", name, wanted)
                              : wanted == "true" ? std::string(shown)
                                                 : fmt::format("{} {}", shown, wanted);
  draft.problem(fmt::format("{} is not given, and {}'s default is {}: {}", shown.empty() ? name : shown,
                            draft.program(), standard, what),
                fmt::format("if the training had it, give a further file with {}", written));
}

void refuse_other_number(Draft& draft, std::string_view first, std::string_view second) {
  const ForeignKey* key = draft.find(first);
  const auto one = draft.number(first), other = draft.number(second);
  if (one && other && *one != *other)
    draft.refuse(second, fmt::format("{} of {} is given, too, and both are one setting", key->called(), key->where()),
                 "keep one of the two");
}

ForeignDegree foreign_degree(Draft& draft, std::initializer_list<std::string_view> names, bool rest) {
  for (const std::string_view name : names) {
    const auto value = draft.whole(name);
    if (!value) continue;
    const ForeignKey* from = draft.find(name);
    if (rest && *value == -1) return {0, from};
    if (is_count(*value)) return {*value, from};
    draft.refuse(*from, "not a degree of parallelism");
    return {1, from};
  }
  return {rest ? 0 : 1, nullptr};
}

bool resolve_layout(Draft& draft, ForeignLayout& layout, std::string_view asked_by) {
  const int64_t ranks = draft.options().ranks;
  const int64_t others =
      bounded_product({layout.replicate.value, layout.context.value, layout.tensor.value, layout.pipeline.value});
  if (layout.shard.value == 0 && ranks == 0) {
    draft.problem(fmt::format("the number of ranks is not in the file, and {} needs it", asked_by),
                  "give it: --ranks N, the number of GPUs that the training ran on");
    return false;
  }
  if (layout.shard.value == 0 && ranks % others != 0) {
    draft.problem(
        fmt::format("{} ranks are not a multiple of {}, the product of the degrees in the file", ranks, others),
        "give the number of GPUs that the training ran on");
    return false;
  }
  if (layout.shard.value > 0 && ranks > 0 && ranks != layout.ranks()) {
    draft.problem(fmt::format("{} ranks are given, and the degrees in the file make {}", ranks, layout.ranks()),
                  "leave --ranks out, or mend the degrees or the launcher's numbers in a copy of the file");
    return false;
  }
  if (layout.shard.value == 0) layout.shard.value = ranks / others;
  return true;
}

void set_layout(Draft& draft, const ForeignLayout& layout, int64_t local_batch_size, const ForeignKey* from) {
  if (!draft.options().layout) {
    draft.note("The layout of the ranks is left out (--no-layout). `hearth plan RUN.toml --search` proposes one.");
    draft.set("training.local_batch_size", 1, nullptr, "as in `hearth plan --search`");
    return;
  }
  draft.set("training.local_batch_size", local_batch_size, from);
  const auto degree = [&draft](std::string_view key, const ForeignDegree& degree) {
    if (degree.value != 1) draft.set(key, degree.value, degree.from);
  };
  degree("parallelism.data_parallel_replicate_degree", layout.replicate);
  degree("parallelism.data_parallel_shard_degree", layout.shard);
  degree("parallelism.context_parallel_degree", layout.context);
  degree("parallelism.tensor_parallel_degree", layout.tensor);
  degree("parallelism.pipeline_parallel_degree", layout.pipeline);
  if (layout.zero_stage != 1 && !draft.is_set("parallelism.zero_stage"))
    draft.set("parallelism.zero_stage", layout.zero_stage, nullptr);
  draft.note(fmt::format("The layout is that of {} rank{}, and the run needs as many. --no-layout leaves it out.",
                         layout.ranks(), layout.ranks() == 1 ? "" : "s"));
}

}  // namespace hearth::config
