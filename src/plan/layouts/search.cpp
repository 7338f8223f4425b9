// SPDX-License-Identifier: Apache-2.0
#include "plan/layouts/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

#include "base/quantity.h"
#include "base/text.h"
#include "config/derived.h"
#include "plan/context_parallel.h"
#include "plan/layouts/memory.h"
#include "plan/muon.h"
#include "plan/pipeline_plan.h"

namespace hearth::plan {
namespace {

using config::Parallelism;
using config::PipelineSchedule;

// More micro-batches in a pass gain little, and their simulation takes time.
constexpr int64_t kMostMicroBatches = 64, kMostStages = 16, kMostSequences = 16;

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    result.push_back(d);
    if (d * d != n) result.push_back(n / d);
  }
  std::sort(result.begin(), result.end());
  return result;
}

// What a layout changes in a run.
struct Choice {
  Parallelism parallelism;
  int64_t local_batch_size;
  double cost = 0;                                 // a lower bound before the memory is known
  std::optional<std::vector<Recompute>> levels{};  // estimated
  std::optional<MemoryPlan> memory{};              // exact

  bool operator>(const Choice& other) const { return cost > other.cost; }
};

// A layout that sends less is better than one that takes as long: in fact computation does not hide all traffic.
double cost_of(const StepParts& parts) { return parts.total() + 0.01 * parts.hidden; }

class Search {
 public:
  Search(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes, int64_t steps, const Speed& speed)
      : config_(config),
        run_(run),
        memory_bytes_(memory_bytes),
        steps_(steps),
        speed_(speed),
        counts_(unit_counts(run.parameters)),
        sequences_(config::global_batch_size(config)),
        none_(static_cast<size_t>(run.model.L())),
        memory_(run) {
    config_.training.global_batch_size = sequences_;
    config_.memory.recompute = config::RecomputeChoice::kAuto;
    if (config.optimizer.name == config::OptimizerName::kMuon)
      muon_flops_ = newton_schulz_flops(config, run.parameters);
  }

  std::vector<Layout> best(int64_t count) {
    std::vector<Layout> layouts;
    std::set<std::tuple<int64_t, int64_t, int64_t>> seen;  // degrees of pp, cp and tp
    add_all();
    // A layout is looked at three times: by its time without recomputation, by that with an estimate of what it
    // recomputes, and by that with its exact memory. So the first that is taken exactly is the best that is left.
    while (!choices_.empty() && std::ssize(layouts) < count) {
      Choice choice = choices_.top();
      choices_.pop();
      const Parallelism& p = choice.parallelism;
      const std::tuple mesh(p.pipeline_parallel_degree, p.context_parallel_degree, p.tensor_parallel_degree);
      if (seen.contains(mesh)) continue;
      if (choice.memory) {
        seen.insert(mesh);
        layouts.push_back(layout_of(choice));
        continue;
      }
      if (choice.levels ? measure(choice) : estimate(choice, limit_of(choice))) choices_.push(std::move(choice));
    }
    return layouts;
  }

  std::string why_none() {
    add_all();
    if (choices_.empty()) {
      std::vector<std::string> ranks;
      for (const int64_t count : refused_) ranks.push_back(fmt::format("{}", count));
      if (ranks.empty()) return "no degrees of parallelism multiply to this number and fit the model";
      return fmt::format(
          "training.global_batch_size = {} is no multiple of the data-parallel ranks that any mesh leaves: {}",
          sequences_, join_first(ranks, 8));
    }
    std::optional<Choice> smallest;
    double fewest_bytes = 0;
    for (; !choices_.empty(); choices_.pop()) {
      const Choice& choice = choices_.top();
      const double bytes = memory_.least(with(choice), pipeline_of(choice)) - limit_of(choice);
      if (smallest && bytes >= fewest_bytes) continue;
      smallest = choice;
      fewest_bytes = bytes;
    }
    const MemoryPlan memory = memory_plan(with(*smallest), run_, memory_bytes_);
    return fmt::format("the one that needs least, {} with zero_stage = {} and local_batch_size = {}, needs {} of {}",
                       format_mesh(smallest->parallelism), smallest->parallelism.zero_stage, smallest->local_batch_size,
                       format_bytes(memory.total_bytes), format_bytes(memory.limit_bytes / memory.ranks_here));
  }

 private:
  // The plan of the run that has the layout, as `hearth plan` makes it from the keys alone.
  Layout layout_of(const Choice& choice) {
    MemoryPlan memory = memory_plan(with(choice), run_, memory_bytes_);
    const StepTime time = step_time(config_, run_.model, memory.recompute, steps_, speed_);
    return {config_, std::move(memory), time, bubble_of(choice)};
  }

  // A rank's memory for tensors.
  double limit_of(const Choice& choice) {
    const config::Parallelism& p = with(choice).parallelism;
    const bool on_cpu = config_.training.device == config::DeviceKind::kCpu;
    const ModelShape part = first_part(run_.model, p);
    int64_t bytes = memory_bytes_;
    for (const MemoryItem& item : beside_tensors(config_, part)) bytes -= item.bytes;
    if (const auto limit = parse_bytes(config_.memory.limit)) bytes = std::min(bytes, *limit);
    return static_cast<double>(bytes) / static_cast<double>(on_cpu ? speed_.devices : 1);
  }

  const config::RunConfig& with(const Choice& choice) {
    config_.parallelism = choice.parallelism;
    config_.training.local_batch_size = choice.local_batch_size;
    return config_;
  }

  PipelinePlan pipeline_of(const Choice& choice) { return pipeline_plan(with(choice), run_.model.L()); }

  void add_all() {
    const ModelShape& s = run_.model;
    const bool graph = config_.training.cuda_graph;  // has data-parallel ranks of stage 1 alone
    for (const int64_t tp : divisors(speed_.devices)) {
      if (tp > speed_.per_node || s.H % tp != 0 || s.G % tp != 0 || tp > s.V || !divides(tp, Of::kDense)) continue;
      for (const int64_t cp : divisors(speed_.devices / tp)) {
        const int64_t key_ranks = key_ranks_of(cp, s.H / tp, s.G / tp), S = config_.training.seq_len;
        if (!divides_sequence({0, cp, key_ranks}, S) || S / cp % tp != 0) continue;
        for (const int64_t pp : divisors(speed_.devices / tp / cp)) {
          if (pp > std::min(s.L(), kMostStages) || (graph && tp * cp * pp > 1)) continue;
          const int64_t dp = speed_.devices / tp / cp / pp;
          const int64_t sums = dp * cp;  // ranks that add gradients
          if (sequences_ % dp != 0) refused_.insert(dp);
          if (sequences_ % dp != 0 || (config_.numerics.reproducible && (sums & (sums - 1)) != 0)) continue;
          for (const int64_t shard : divisors(dp)) {
            Parallelism p;
            p.data_parallel_replicate_degree = dp / shard;
            p.data_parallel_shard_degree = shard;
            p.context_parallel_degree = cp;
            p.tensor_parallel_degree = tp;
            p.pipeline_parallel_degree = pp;
            for (const auto& [stage, once] : {std::pair(1, false), {2, false}, {3, false}, {3, true}}) {
              if (stage > 1 && (shard * cp == 1 || graph)) continue;
              if (once && config_.numerics.reproducible) continue;
              p.zero_stage = stage;
              p.reduce_once_per_step = once;
              for (const int64_t ep : expert_degrees(shard * cp * tp)) {
                if (ep == 1 && !divides(tp, Of::kExperts)) continue;
                p.expert_parallel_degree = ep;
                pp == 1 ? add_batches(p, sequences_ / dp) : add_pipelines(p, sequences_ / dp);
              }
            }
          }
        }
      }
    }
  }

  // Whether tensor-parallel ranks can cut the feed-forwards of these layers.
  enum class Of { kDense, kExperts };
  bool divides(int64_t tp, Of of) const {
    const std::vector<models::Layer>& layers = run_.model.layers;
    return std::all_of(layers.begin(), layers.end(), [&](const models::Layer& layer) {
      return (layer.experts > 0) != (of == Of::kExperts) || layer.F % tp == 0;
    });
  }

  // Degrees for the ranks of a replica: none, the most that stay in a node, and the most.
  std::vector<int64_t> expert_degrees(int64_t ranks) const {
    std::vector<int64_t> degrees = {1};
    const int64_t experts = run_.model.layers.back().experts;
    if (experts == 0 || config_.numerics.reproducible) return degrees;
    for (const int64_t most : {std::min(ranks, speed_.per_node), ranks}) {
      int64_t degree = most;
      while (ranks % degree != 0 || experts % degree != 0) --degree;
      if (degree > degrees.back()) degrees.push_back(degree);
    }
    return degrees;
  }

  void add_batches(const Parallelism& p, int64_t of_rank) {
    for (int64_t batch = 1; batch <= std::min(of_rank, kMostSequences); batch *= 2)
      if (of_rank % batch == 0) add({p, batch});
  }

  // One sequence is a micro-batch. As many as possible pass through together.
  void add_pipelines(Parallelism p, int64_t of_rank) {
    int64_t together = std::min(of_rank, kMostMicroBatches);
    while (of_rank % together != 0) --together;
    if (together < p.pipeline_parallel_degree) return;
    for (const auto schedule :
         {PipelineSchedule::k1F1B, PipelineSchedule::kInterleaved1F1B, PipelineSchedule::kInterleavedZeroBubble}) {
      const int64_t stages = schedule == PipelineSchedule::k1F1B ? 1 : 2;
      if (p.pipeline_parallel_degree * stages > run_.model.L()) continue;
      if (schedule == PipelineSchedule::kInterleavedZeroBubble && p.zero_stage != 1) continue;
      p.pipeline_parallel_schedule = schedule;
      add({p, together});
    }
  }

  void add(Choice choice) {
    // Without an accumulation it is as without the key.
    if (choice.parallelism.reduce_once_per_step && config::accumulation_steps(with(choice)) == 1) return;
    choice.cost = cost_of(time_of(choice, none_).parts);
    choices_.push(std::move(choice));
  }

  StepTime time_of(const Choice& choice, std::span<const Recompute> recompute) {
    return step_time(with(choice), run_.model, recompute, steps_, speed_, counts_, run_.precision, pipeline_of(choice),
                     bubble_of(choice), muon_flops_);
  }

  double bubble_of(const Choice& choice) {
    const Parallelism& p = choice.parallelism;
    if (p.pipeline_parallel_degree == 1) return 0;
    const auto [bubble, is_new] =
        bubbles_.try_emplace({p.pipeline_parallel_degree, p.pipeline_parallel_schedule, choice.local_batch_size});
    if (is_new) bubble->second = pipeline_bubble(pipeline_of(choice), run_.model, config_.training.seq_len);
    return bubble->second;
  }

  // Finds what layers recompute if the estimate may be `limit_bytes`. False: nothing fits.
  bool estimate(Choice& choice, double limit_bytes) {
    choice.levels = memory_.cheapest(with(choice), pipeline_of(choice), limit_bytes);
    if (choice.levels) choice.cost = cost_of(time_of(choice, *choice.levels).parts);
    return choice.levels.has_value();
  }

  // Plans the memory. Where it is more than there is, estimates again with as much less.
  bool measure(Choice& choice) {
    const double most_bytes = limit_of(choice);
    double limit_bytes = most_bytes;
    for (int tries = 0; tries < 4; ++tries) {
      MemoryPlan memory = memory_plan(with(choice), run_, memory_bytes_, *choice.levels);
      if (memory.fits()) {
        choice.cost = cost_of(time_of(choice, *choice.levels).parts);
        choice.memory = std::move(memory);
        return true;
      }
      limit_bytes -= static_cast<double>(memory.total_bytes) - most_bytes + 0.005 * most_bytes;
      if (!estimate(choice, limit_bytes)) return false;
    }
    return false;
  }

  config::RunConfig config_;
  const RunShape& run_;
  const int64_t memory_bytes_, steps_;
  const Speed& speed_;
  const UnitCounts counts_;
  const int64_t sequences_;  // of a step
  const std::vector<Recompute> none_;
  LayoutMemory memory_;
  double muon_flops_ = 0;
  std::set<int64_t> refused_;  // numbers of data-parallel ranks that do not share the batch
  std::priority_queue<Choice, std::vector<Choice>, std::greater<>> choices_;
  std::map<std::tuple<int64_t, PipelineSchedule, int64_t>, double> bubbles_;
};

// For a column.
std::string_view short_name(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::kInterleaved1F1B         ? "interleaved"
         : schedule == PipelineSchedule::kInterleavedZeroBubble ? "zero bubble"
                                                                : config::name_of(schedule);
}

}  // namespace

std::vector<Layout> search_layouts(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                                   int64_t steps, const Speed& speed, int64_t count) {
  return Search(config, run, memory_bytes, steps, speed).best(count);
}

std::string why_no_layout(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                          const Speed& speed) {
  return Search(config, run, memory_bytes, 1, speed).why_none();
}

std::string format_mesh(const Parallelism& p) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, int64_t degree) {
    if (degree > 1) parts.push_back(fmt::format("{} {}", name, degree));
  };
  add("pp", p.pipeline_parallel_degree);
  add("dp_replicate", p.data_parallel_replicate_degree);
  add("dp_shard", p.data_parallel_shard_degree);
  add("cp", p.context_parallel_degree);
  add("tp", p.tensor_parallel_degree);
  add("ep", p.expert_parallel_degree);
  return parts.empty() ? "one device" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string list_layouts(const std::vector<Layout>& layouts) {
  std::vector<std::string> words;
  for (const Layout& l : layouts)
    words.push_back(fmt::format("{} with zero_stage = {}{} and local_batch_size = {}",
                                format_mesh(l.config.parallelism), l.config.parallelism.zero_stage,
                                l.config.parallelism.reduce_once_per_step ? ", reduce_once_per_step = true" : "",
                                l.config.training.local_batch_size));
  return fmt::format("{}", fmt::join(words, "; "));
}

std::string format_layouts(const std::vector<Layout>& layouts, const ModelShape& shape) {
  if (layouts.empty()) return "";
  constexpr const char* kRow = "  {:<44} {:<6} {:>6} {:>9} {:>5} {:>9} {:>8} {:>6}  {}\n";
  std::string text = fmt::format(fmt::runtime(kRow), "mesh", "ZeRO", "local", "tokens/s", "mfu", "memory", "exposed",
                                 "waits", "recomputed");
  text += fmt::format(fmt::runtime(kRow), "", "", "batch", "a device", "", "", "traffic", "", "");
  for (const Layout& l : layouts) {
    const StepTime& t = l.time;
    const double per_device = t.tokens / t.step_s / static_cast<double>(t.speed.devices);
    const double useful = flops_per_token(shape, l.config.training.seq_len) * per_device / t.speed.gemm_flops;
    const double exposed = (t.parts.tensor + t.parts.context + t.parts.experts + t.parts.shard) / t.step_s;
    const Parallelism& p = l.config.parallelism;
    const auto percent = [](double share) { return fmt::format("{:.0f} %", 100 * share); };
    std::string mesh = format_mesh(p);
    if (p.pipeline_parallel_degree > 1) mesh += fmt::format(", {}", short_name(p.pipeline_parallel_schedule));
    const std::string stage = fmt::format("{}{}", p.zero_stage, p.reduce_once_per_step ? " once" : "");
    text += fmt::format(fmt::runtime(kRow), mesh, stage, l.config.training.local_batch_size, format_count(per_device),
                        percent(useful), format_bytes(l.memory.total_bytes), percent(exposed),
                        percent(t.parts.wait / t.step_s), describe(l.memory.recompute));
  }
  const config::RunConfig& best = layouts.front().config;
  const Parallelism& p = best.parallelism;
  text += fmt::format(
      "\nThe first one in a run file:\n\n[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\n\n[parallelism]\n"
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\nzero_stage = {}\n"
      "context_parallel_degree = {}\ntensor_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      best.training.local_batch_size, best.training.global_batch_size, p.data_parallel_replicate_degree,
      p.data_parallel_shard_degree, p.zero_stage, p.context_parallel_degree, p.tensor_parallel_degree,
      p.pipeline_parallel_degree);
  if (p.expert_parallel_degree > 1) text += fmt::format("expert_parallel_degree = {}\n", p.expert_parallel_degree);
  if (p.reduce_once_per_step) text += "reduce_once_per_step = true\n";
  if (p.pipeline_parallel_degree > 1)
    text += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = 1\n",
                        config::name_of(p.pipeline_parallel_schedule));
  return text + "\n[memory]\nrecompute = \"auto\"\n";
}

}  // namespace hearth::plan
