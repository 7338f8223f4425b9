// SPDX-License-Identifier: Apache-2.0
#include "plan/parameters.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "models/flops.h"
#include "models/stage_program.h"
#include "plan/context_parallel.h"

namespace hearth::plan {

namespace {

// GPT-NeoX's named laws (its init_functions.py). small_init: arXiv 1910.05895; wang_init: mesh-transformer-jax.
double initial_std(config::InitLaw law, const config::Model& model) {
  const auto D = static_cast<double>(model.dim), L = static_cast<double>(model.n_layers);
  switch (law) {
    case config::InitLaw::kScaledNormal:
      return model.init_std / std::sqrt(2 * L);
    case config::InitLaw::kSmallInit:
      return std::sqrt(2 / (5 * D));
    case config::InitLaw::kWangInit:
      return 2 / (L * std::sqrt(D));
    case config::InitLaw::kNormal:
    case config::InitLaw::kTorchtitan:  // has laws of its own
      break;
  }
  return model.init_std;
}

// The part of `n` equal things that a rank has; the first ranks have one more if they do not divide.
Slice part_of(int64_t n, TensorPart part) {
  const auto begin = [&](int64_t rank) { return rank * (n / part.size) + std::min(rank, n % part.size); };
  return {begin(part.rank), begin(part.rank + 1)};
}

// Places parameters in units, one after the other.
class Layout {
 public:
  Layout(ParameterPlan& plan, ExpertPart experts, const ModelShape& whole)
      : plan_(plan),
        experts_(experts),
        whole_(whole),
        alignment_(plan.tensor.size > 1 ? kSliceAlignment : kUnitAlignment) {}

  // A unit that this rank has, or another one. `counts`: whether it is this rank that counts it.
  void begin_unit(const models::UnitSpec& spec, bool is_here, bool counts = true) {
    const int64_t unit = std::ssize(plan_.units);
    plan_.units.push_back({0, static_cast<int64_t>(plan_.parameters.size()), 0, is_here, spec.of_experts});
    if (spec.of_experts) {
      plan_.layers.back().experts = unit;
    } else if (spec.layer >= 0) {
      plan_.layers.push_back({unit});
    }
    counts_ = counts;
    end_ = 0;
  }

  void add(const std::string& prefix, const models::ParameterSpec& spec) {
    if (!spec.is_adjacent) end_ = round_up(plan_.units.back().numel, alignment_);
    mesh::Box part{std::vector<int64_t>(spec.shape.size()), spec.shape};
    plan_.num_parameters += part.numel();
    active_ += static_cast<double>(part.numel()) * spec.used;
    plan_.num_active = std::llround(active_);
    // Ranks with different experts have each of them as a whole.
    const bool is_apart = spec.expert >= 0 && experts_.size > 1;
    const bool is_shared = spec.cut != models::Cut::kNothing && !is_apart;
    if (is_shared) {
      const size_t dimension = spec.cut == models::Cut::kRows ? 0 : 1;
      const Slice mine = part_of(spec.shape[dimension], plan_.tensor);
      part.offsets[dimension] = mine.begin;
      part.sizes[dimension] = mine.numel();
    }
    const bool is_here = plan_.units.back().is_here && (!is_apart || has_expert(spec.expert));
    const bool counts = is_here && counts_ && (is_shared || is_apart || plan_.tensor.rank == 0);
    if (!is_here) std::fill(part.sizes.begin(), part.sizes.end(), 0);
    const int64_t numel = part.numel(), unit = std::ssize(plan_.units) - 1;
    plan_.parameters.push_back({prefix + spec.name, spec.shape, std::move(part), numel, unit, end_, spec.law.init,
                                spec.law.std, spec.law.bound, is_shared, counts, spec.is_balanced});
    end_ += numel;
    plan_.units.back().num_parameters += 1;
    plan_.units.back().numel = round_up(end_, alignment_);
  }

 private:
  // For the layer whose unit this is. The first ranks have the first experts.
  bool has_expert(int64_t expert) const {
    const models::Layer& layer = whole_.layers[plan_.layers.size() - 1];
    return expert / (layer.experts / experts_.size) == experts_.rank;
  }

  ParameterPlan& plan_;
  const ExpertPart experts_;
  const ModelShape& whole_;
  const int64_t alignment_;
  bool counts_ = true;
  int64_t end_ = 0;
  double active_ = 0;  // exact below 2^53
};

}  // namespace

int64_t feed_forward_width(const config::Model& model) {
  if (model.hidden_dim > 0) return model.hidden_dim;
  int64_t width = 2 * (4 * model.dim) / 3;
  if (model.ffn_dim_multiplier > 0) width = static_cast<int64_t>(model.ffn_dim_multiplier * static_cast<double>(width));
  return round_up(width, model.multiple_of);
}

ModelShape model_shape(const config::Model& model, int64_t tokenizer_vocab_size) {
  ModelShape s{};
  static_cast<config::BlockOptions&>(s) = model;
  s.D = model.dim;
  s.H = model.n_heads;
  s.G = model.n_kv_heads > 0 ? model.n_kv_heads : model.n_heads;
  const int64_t interval = model.no_rope_layer_interval;
  const auto has_experts = [&](int64_t layer) { return layer >= model.n_dense_layers && model.num_experts > 0; };
  const int64_t width = feed_forward_width(model);
  const int64_t expert_width = model.moe_hidden_dim > 0 ? model.moe_hidden_dim : width;
  for (int64_t layer = 0; layer < model.n_layers; ++layer)
    s.layers.push_back({.F = has_experts(layer) ? expert_width : width,
                        .experts = has_experts(layer) ? model.num_experts : 0,
                        .shared_F = has_experts(layer) ? model.num_shared_experts * expert_width : 0,
                        .rotates = interval == 0 || (layer + 1) % interval != 0,
                        .local_rope = model.rope_local_theta > 0 && config::window_of_layer(model, layer) > 0,
                        .window = config::window_of_layer(model, layer),
                        .norms_attention = layer > 0 || model.first_attention_norm});
  s.V = model.vocab_size > 0 ? model.vocab_size : tokenizer_vocab_size;
  s.norm = {model.norm_type, model.norm_eps};
  s.rope = models::rope_of(model);
  s.local_rope = models::local_rope_of(model);
  s.tied = model.enable_weight_tying;
  s.initialization = {model.init == config::InitLaw::kTorchtitan, model.depth_init, initial_std(model.init, model),
                      initial_std(model.output_init, model)};
  s.document_scope = model.attention_scope == config::AttentionScope::kDocument;
  if (model.head_dim == 0 && !model.has_latents() && s.D % s.H != 0)
    throw user_error(fmt::format("model.n_heads = {} does not divide model.dim = {}", s.H, s.D)).about("model.n_heads");
  if (s.H % s.G != 0)
    throw user_error(fmt::format("model.n_kv_heads = {} does not divide model.n_heads = {}", s.G, s.H))
        .about("model.n_kv_heads");
  s.K = config::head_width(model);
  if (s.K % 2 != 0) {
    throw user_error(model.head_dim > 0 ? fmt::format("model.head_dim = {} is odd", s.K)
                                        : fmt::format("the head width model.dim / model.n_heads = {} is odd", s.K),
                     "rotary embedding rotates pairs of elements")
        .about(model.head_dim > 0 ? "model.head_dim" : "model.n_heads");
  }
  if (const int64_t rotary = s.rope.rotary_width(s.K); !s.has_latents() && (rotary == 0 || rotary % 2 != 0))
    throw user_error(fmt::format("model.partial_rotary_factor = {} rotates {} of {} elements",
                                 model.partial_rotary_factor, rotary, s.K),
                     "rotary embedding rotates pairs of elements")
        .about("model.partial_rotary_factor");
  if (s.V < tokenizer_vocab_size) {
    throw user_error(fmt::format("model.vocab_size = {} is smaller than the tokenizer's {}", s.V, tokenizer_vocab_size),
                     {}, "leave it at 0 to use the tokenizer's size")
        .about("model.vocab_size");
  }
  return s;
}

int64_t ParameterPlan::find(const std::string& name) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].name == name) return static_cast<int64_t>(i);
  }
  return -1;
}

namespace {

ModelShape tensor_part(const ModelShape& whole, TensorPart part, ExpertPart experts) {
  if (part.size == 1) return whole;
  constexpr std::string_view kKey = "parallelism.tensor_parallel_degree";
  const auto parts = [&](int64_t n, std::string_view name) {
    if (n % part.size != 0)
      throw user_error(fmt::format("{} = {} does not divide the model's {} {}", kKey, part.size, n, name),
                       "each rank computes whole heads and an equal part of the feed-forward width",
                       "give a degree that divides them")
          .about(std::string(kKey));
    return n / part.size;
  };
  ModelShape s = whole;
  s.H = parts(whole.H, "heads (model.n_heads)");
  s.G = parts(whole.G, "heads of keys and values (model.n_kv_heads)");
  for (models::Layer& layer : s.layers) {
    layer.shared_F = parts(layer.shared_F, "columns of the shared experts (model.num_shared_experts)");
    if (layer.experts > 0 && experts.size > 1) continue;
    layer.F = parts(layer.F, layer.experts > 0 ? "columns of an expert (model.moe_hidden_dim)"
                                               : "columns of the feed-forward (model.hidden_dim)");
  }
  if (whole.V < part.size)
    throw user_error(fmt::format("{} = {} exceeds the vocabulary's {} ids", kKey, part.size, whole.V))
        .about(std::string(kKey));
  const Slice ids = part_of(whole.V, part);
  s.V = ids.numel();
  s.vocabulary = {ids.begin, whole.V};
  s.tensor = part;
  return s;
}

void check_experts(const ModelShape& whole, ExpertPart experts) {
  if (experts.size == 1) return;
  constexpr std::string_view kKey = "parallelism.expert_parallel_degree";
  const auto sparse =
      std::find_if(whole.layers.begin(), whole.layers.end(), [](const auto& l) { return l.experts > 0; });
  if (sparse == whole.layers.end())
    throw user_error(fmt::format("{} = {}, and the model has no experts", kKey, experts.size), {}, "remove the key")
        .about(std::string(kKey));
  if (sparse->experts % experts.size != 0)
    throw user_error(fmt::format("{} = {} does not divide model.num_experts = {}", kKey, experts.size, sparse->experts),
                     "each rank has equally many experts", "give a degree that divides them")
        .about(std::string(kKey));
}

}  // namespace

ModelShape model_part(const ModelShape& whole, TensorPart part, int64_t context, ExpertPart experts) {
  check_experts(whole, experts);
  ModelShape s = tensor_part(whole, part, experts);
  s.expert_part = experts;
  s.context = context;
  s.key_ranks = key_ranks_of(context, s.H, s.G);
  return s;
}

ModelShape first_part(const ModelShape& whole, const config::Parallelism& p) {
  return model_part(whole, {0, p.tensor_parallel_degree}, p.context_parallel_degree, {0, p.expert_parallel_degree});
}

ModelShape stage_part(const ModelShape& shape, const StageLayers& layers) {
  ModelShape stage = shape;
  stage.layers.assign(shape.layers.begin() + layers.begin, shape.layers.begin() + layers.end);
  stage.stage = {layers.begin, shape.L()};
  return stage;
}

std::vector<FlatRun> flat_runs(const Parameter& p, int64_t begin, int64_t end) {
  const int64_t columns = p.part.sizes.back(), whole_columns = p.shape.back();
  const int64_t first_row = p.shape.size() > 1 ? p.part.offsets[0] : 0, first_column = p.part.offsets.back();
  if (begin >= end) return {};
  if (columns == whole_columns) return {{begin, first_row * columns + begin, end - begin}};
  std::vector<FlatRun> runs;
  while (begin < end) {
    const int64_t row = begin / columns, column = begin % columns;
    const int64_t numel = std::min(columns - column, end - begin);
    runs.push_back({begin, (first_row + row) * whole_columns + first_column + column, numel});
    begin += numel;
  }
  return runs;
}

ParameterPlan parameter_plan(const ModelShape& s, TensorPart part, const std::vector<StageLayers>& stages,
                             ExpertPart experts) {
  model_part(s, part, 1, experts);  // throws if the ranks cannot share the layers or the experts
  const auto is_here = [&](int64_t layer) {
    return stages.empty() || std::any_of(stages.begin(), stages.end(), [layer](const StageLayers& of) {
             return of.begin <= layer && layer < of.end;
           });
  };
  const bool is_first = is_here(0), is_last = is_here(s.L() - 1);
  ParameterPlan plan;
  plan.tensor = part;
  Layout layout(plan, experts, s);
  const std::vector<models::UnitSpec> units = models::unit_specs(s);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const models::UnitSpec& spec = units[unit];
    if (unit == 0) {
      layout.begin_unit(spec, is_first || (s.tied && is_last), /*counts=*/is_first);
    } else {
      layout.begin_unit(spec, spec.layer < 0 ? is_last : is_here(spec.layer));
    }
    for (const models::ParameterSpec& parameter : spec.parameters) layout.add(spec.prefix, parameter);
  }
  return plan;
}

Slice unit_slice(const Unit& unit, int64_t rank, int64_t ranks) {
  const int64_t size = slice_numel(unit, ranks);
  return {std::min(rank * size, unit.numel), std::min((rank + 1) * size, unit.numel)};
}

int64_t slice_numel(const Unit& unit, int64_t ranks) { return round_up(div_ceil(unit.numel, ranks), kSliceAlignment); }

double flops_per_token(const ModelShape& s, int64_t seq_len) { return models::model_flops(s, seq_len).step(); }

double computed_flops_per_token(const ModelShape& s, int64_t seq_len) {
  return flops_per_token(s, seq_len) - models::model_flops(s, seq_len).output * (1 - s.counted);
}

}  // namespace hearth::plan
