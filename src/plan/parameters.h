// SPDX-License-Identifier: Apache-2.0
// Every parameter of the model: its name and shape on disk, its unit, and its place in the unit's flat buffer. A unit
// is gathered as a whole. Pure arithmetic: model, parallel, optim, checkpoint and `hearth inspect` all use this table.
//
// Units, in forward order: the token embedding, each block, and the final norm with the output matrix. A layer with
// experts has a second unit for them, behind its block's: other ranks may have them (mesh/mesh.h). With tied weights
// the last unit holds the norm only and the loss head uses unit 0.
//
// The blocks say what each parameter is, and how tensor-parallel ranks cut it (models/llama/block.cpp); models/shape.h
// has the sizes of a part.
//
// Pipeline parallel: ranks may have different layers (plan/pipeline_stages.h). A rank's plan names all units and
// parameters of the model; those of other ranks are empty there. Tied weights are on two ranks, the first and the last.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "mesh/tensor_box.h"
#include "models/parameter_list.h"
#include "models/shape.h"
#include "plan/pipeline_stages.h"

namespace hearth::plan {

using models::Activation;
using models::adds_one;
using models::ExpertPart;
using models::has_weight;
using models::Init;
using models::Initialization;
using models::is_centred;
using models::ModelShape;
using models::Norm;
using models::NormType;
using models::Rope;
using models::StagePart;
using models::TensorPart;
using models::VocabularyPart;

// The width of a feed-forward without experts. If no key says it, Meta's rule: two thirds of 4 D, times a factor,
// rounded up.
int64_t feed_forward_width(const config::Model& model);

// The shape that [model] alone describes; plan/run_shape.h adds the rest of the run. `tokenizer_vocab_size` replaces
// model.vocab_size = 0. Throws user_error if a size does not divide.
ModelShape model_shape(const config::Model& model, int64_t tokenizer_vocab_size);

// The part of a whole model that one of the ranks has. The vocabulary need not divide: the first ranks have one id
// more. `context`: ranks that share every sequence. Throws user_error about parallelism.tensor_parallel_degree if the
// ranks do not divide H, G or F, or exceed V; and about parallelism.expert_parallel_degree if its ranks do not divide
// the experts.
ModelShape model_part(const ModelShape& whole, TensorPart part, int64_t context = 1, ExpertPart experts = {});

// The part of the first of a training's ranks, which has most.
ModelShape first_part(const ModelShape& whole, const config::Parallelism& parallelism);

// A stage of a model, or of a part of it.
ModelShape stage_part(const ModelShape& shape, const StageLayers& layers);

struct Parameter {
  std::string name;            // torchtitan's: "layers.0.attention.wq.weight"
  std::vector<int64_t> shape;  // of the whole, row-major, [out, in] for matrices
  mesh::Box part;              // what this rank has of it; empty if another rank has its layer
  int64_t numel;               // of the part
  int64_t unit;
  int64_t offset;  // elements from the start of the unit's flat buffer
  Init init;
  double init_std;    // kNormal, kTruncatedNormal
  double init_bound;  // kTruncatedNormal: truncated at +-init_bound (absolute)
  bool is_shared;     // cut over tensor-parallel ranks; else each has all of it
  // Whether this rank saves its part and counts it in norms. If several ranks have the same part, only the first does.
  bool counts = true;
  bool is_balanced = false;  // models::ParameterSpec

  bool is_whole() const { return part.sizes == shape; }
};

// Elements of a part that follow each other in the whole tensor, too: [begin, begin + numel) and [whole, whole +
// numel).
struct FlatRun {
  int64_t begin, whole, numel;
};
// The elements [begin, end) of a parameter's part as the fewest runs, in order.
std::vector<FlatRun> flat_runs(const Parameter& parameter, int64_t begin, int64_t end);

struct Unit {
  int64_t numel;  // of the flat buffer, with padding; a multiple of kUnitAlignment
  int64_t first_parameter, num_parameters;
  bool is_here;             // false: another rank of a pipeline has it, and it is empty here
  bool of_experts = false;  // its shards are on the ranks that have the same experts
};

// The units of a layer.
struct LayerUnits {
  int64_t block, experts = -1;
  bool has_experts() const { return experts >= 0; }
};

// Groups that share one GEMM have no gap (wq|wk|wv and w1|w3). Every group starts at a multiple of this many elements:
// it is 64-byte aligned in float32 and float64, as is any slice at such a multiple. In a part of a model, groups start
// at multiples of kSliceAlignment, so that no block of a reproducible sum has elements of two.
inline constexpr int64_t kUnitAlignment = 16;
// A slice begins at a multiple of this, so that the blocks of a reproducible sum (ops/reduce.h) are the same for any
// number of ranks.
inline constexpr int64_t kSliceAlignment = 256;

struct ParameterPlan {
  std::vector<Parameter> parameters;  // in disk order
  std::vector<Unit> units;
  int64_t num_parameters = 0;  // elements of the whole model, without padding; tied weights once
  int64_t num_active = 0;      // of them, what a token uses: all, without experts
  TensorPart tensor = {};
  std::vector<LayerUnits> layers;

  const LayerUnits& units_of(int64_t layer) const { return layers[static_cast<size_t>(layer)]; }

  int64_t find(const std::string& name) const;  // index into parameters, or -1
};

// `whole`: the whole model's shape. `stages`: the stages of this rank; empty: all layers. Throws as model_part does.
ParameterPlan parameter_plan(const ModelShape& whole, TensorPart part = {}, const std::vector<StageLayers>& stages = {},
                             ExpertPart experts = {});

// Slice of a unit that rank `rank` of `ranks` owns: [begin, end) in elements of the flat buffer. All slices except the
// last have the same size, a multiple of kSliceAlignment; trailing ranks of a small unit may own nothing.
struct Slice {
  int64_t begin, end;
  int64_t numel() const { return end - begin; }
};
// The size of a full slice. Collectives need a gathered buffer of ranks * slice_numel >= unit.numel elements.
int64_t slice_numel(const Unit& unit, int64_t ranks);
Slice unit_slice(const Unit& unit, int64_t rank, int64_t ranks);

// Forward and backward FLOPs per token: 6 * (elements of matrices that it uses, embedding not counted) + 12 * H * K * S
// for each layer, halved for a causal mask, less with a window; where values are narrower than keys, K is the mean of
// both widths. Source: PaLM (arXiv 2204.02311) appendix B. Shorter
// documents count as whole windows.
double flops_per_token(const ModelShape& shape, int64_t seq_len);
// As above, without the output matrix at positions that do not count: the basis of mfu and of a step's time.
double computed_flops_per_token(const ModelShape& shape, int64_t seq_len);

}  // namespace hearth::plan
