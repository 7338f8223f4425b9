#include <algorithm>
#include <thread>

#include "config/rules.h"

namespace hearth::config {

void check_neox_schedule(Rules& rules, const LrScheduler& s) {
  const bool neox = s.rule != "torchtitan";
  const std::string rule = fmt::format("lr_scheduler.rule = \"{}\"", s.rule);
  rules.require(neox || s.end_step == 0, {"lr_scheduler.end_step", "lr_scheduler.rule"},
                fmt::format("lr_scheduler.end_step = {} has no effect with {}", s.end_step, rule),
                "remove it, or give rule = \"neox\"");
  rules.require(!neox || s.decay_ratio < 0, {"lr_scheduler.decay_ratio", "lr_scheduler.rule"},
                fmt::format("lr_scheduler.decay_ratio = {} does not go with {}", s.decay_ratio, rule),
                "give lr_scheduler.end_step, or rule = \"torchtitan\"");
  rules.require(neox ? s.decay_type != "sqrt" : s.decay_type != "exponential",
                {"lr_scheduler.decay_type", "lr_scheduler.rule"},
                fmt::format("lr_scheduler.decay_type = \"{}\" does not go with {}", s.decay_type, rule),
                neox ? "use \"linear\", \"cosine\", \"exponential\" or \"constant\""
                     : "use \"linear\", \"cosine\", \"sqrt\" or \"constant\"");
}

namespace {

void check_update(Rules& rules, const Optimizer& o) {
  rules.require(o.form == "torch" || o.name == "AdamW", {"optimizer.form", "optimizer.name"},
                fmt::format("optimizer.form = \"{}\" does not go with optimizer.name = \"{}\"", o.form, o.name),
                "use \"AdamW\", or leave form out");
  for (size_t i = 0; i < o.group.size(); ++i) {
    const std::string name = fmt::format("optimizer.group.{}", i);
    rules.require(!o.group[i].pattern.empty(), {name + ".pattern", name}, fmt::format("{}.pattern is not given", name),
                  "give a pattern of parameter names, such as \"*norm*\"");
    rules.require(o.group[i].lr_factor != 1 || o.group[i].weight_decay >= 0, {name + ".pattern", name},
                  fmt::format("{} changes nothing", name), "give it an lr_factor or a weight_decay");
  }
}

void check_precision(Rules& rules, const RunConfig& c) {
  const Training& t = c.training;
  const std::string dtype = fmt::format("training.dtype = \"{}\"", t.dtype);
  rules.require(
      t.dtype != "float64" || t.mixed_precision_param == "float32",
      {"training.mixed_precision_param", "training.dtype"},
      fmt::format("training.mixed_precision_param = \"{}\" does not go with {}", t.mixed_precision_param, dtype),
      "remove one of them: float64 is computed in float64");
  rules.require(t.dtype != "bfloat16" || t.mixed_precision_param == "bfloat16",
                {"training.dtype", "training.mixed_precision_param"},
                fmt::format("{} needs training.mixed_precision_param = \"bfloat16\"", dtype),
                "give it: weights in bfloat16 are computed with as they are; or keep them in float32");
  rules.require(t.dtype != "float64" || c.optimizer.moments_dtype == "float32",
                {"optimizer.moments_dtype", "training.dtype"},
                fmt::format("optimizer.moments_dtype = \"{}\" does not go with {}", c.optimizer.moments_dtype, dtype),
                "remove one of them: with float64 all is float64");
  rules.require(t.dtype == "bfloat16" || !c.numerics.stochastic_rounding,
                {"numerics.stochastic_rounding", "training.dtype"},
                fmt::format("numerics.stochastic_rounding has no effect with {}", dtype),
                "remove it, or keep the weights in bfloat16");
}

void check_device(Rules& rules, const RunConfig& c) {
  const Training& t = c.training;
  const bool gpu = t.device == "cuda";
  rules.require(!c.numerics.fp8 || (gpu && t.mixed_precision_param == "bfloat16"),
                {"numerics.fp8", "training.device", "training.mixed_precision_param"},
                "numerics.fp8 needs a GPU that computes in bfloat16",
                "remove it, or set training.device = \"cuda\" and training.mixed_precision_param = \"bfloat16\"");
  rules.require(!t.cuda_graph || gpu, {"training.cuda_graph", "training.device"},
                "training.cuda_graph has no effect on a CPU", "remove it, or set training.device = \"cuda\"");
  rules.require(!t.cuda_graph || (c.objective.kind != "masked_lm" && c.model.attention_scope == "window"),
                {"training.cuda_graph", "objective.kind", "model.attention_scope"},
                "training.cuda_graph needs steps of one shape: hidden tokens and documents differ from batch to batch",
                "remove it, or train causally over whole windows");
  rules.require(!gpu || t.dtype != "float64", {"training.dtype", "training.device"},
                "training.dtype = \"float64\" does not go with training.device = \"cuda\"",
                "remove one of them: float64 is for tests, on a CPU");
  rules.require(!gpu || c.parallelism.data_parallel_shard_degree == 1,
                {"parallelism.data_parallel_shard_degree", "training.device"},
                fmt::format("parallelism.data_parallel_shard_degree = {} does not go with training.device = \"cuda\"",
                            c.parallelism.data_parallel_shard_degree),
                "remove it: a training uses one GPU, and gradients accumulate up to training.global_batch_size");
}

void check_policies(Rules& rules, const Numerics& n) {
  const Numerics none;
  const auto needs = [&](bool holds, std::string_view key, bool is_default, std::string_view condition) {
    rules.require(holds || is_default, {key}, fmt::format("{} has no effect without {}", key, condition),
                  "remove it, or choose the policy");
  };
  const bool spikes = n.spike_policy != "off";
  const bool skips = n.nan_policy == "skip" || n.spike_policy == "skip";
  const bool rewinds = n.nan_policy == "rewind" || n.spike_policy == "rewind";
  needs(spikes, "numerics.spike_deviations", n.spike_deviations == none.spike_deviations, "a numerics.spike_policy");
  needs(spikes, "numerics.spike_window", n.spike_window == none.spike_window, "a numerics.spike_policy");
  needs(skips, "numerics.skip_limit", n.skip_limit == none.skip_limit, "a policy that is \"skip\"");
  needs(rewinds, "numerics.rewind_limit", n.rewind_limit == none.rewind_limit, "a policy that is \"rewind\"");
}

void check_reproducible(Rules& rules, const RunConfig& c) {
  if (!c.numerics.reproducible) return;
  const int64_t ranks = c.parallelism.data_parallel_shard_degree, threads = c.training.threads;
  rules.require((ranks & (ranks - 1)) == 0, {"parallelism.data_parallel_shard_degree", "numerics.reproducible"},
                fmt::format("numerics.reproducible does not go with {} ranks", ranks), "give 1, 2, 4, 8, ...");
  const int64_t wanted = threads > 0 ? threads : int64_t{std::max(1U, std::thread::hardware_concurrency())};
  rules.require(threads > 0 && threads % ranks == 0, {"training.threads", "numerics.reproducible"},
                fmt::format("numerics.reproducible with training.threads = {} on {} ranks", threads, ranks),
                fmt::format("give training.threads = {}: as many for each rank, and a number that stays, for products "
                            "depend on it",
                            (wanted + ranks - 1) / ranks * ranks));
}

}  // namespace

void check_optimizer(Rules& rules, const RunConfig& c) {
  check_update(rules, c.optimizer);
  check_device(rules, c);
  check_precision(rules, c);
  check_policies(rules, c.numerics);
  check_reproducible(rules, c);
}

}  // namespace hearth::config
