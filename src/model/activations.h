// The activations of one micro-batch: the buffers of plan/activations.h as tensors over one arena, allocated once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "comm/group.h"
#include "ops/tensor.h"
#include "plan/activations.h"
#include "plan/context_parallel.h"
#include "plan/pipeline_plan.h"

namespace hearth::model {

// The ranks that share the sequences, as plan/context_parallel.h has them. Null: one.
struct ContextRanks {
  comm::Group* heads = nullptr;
  comm::Group* keys = nullptr;
};

// Options of a model's computation.
struct ComputeOptions {
  DType dtype = DType::kFloat32;                    // of activations
  int64_t loss_chunk_tokens = 1024;                 // number of positions whose logits exist at a time
  bool training = false;                            // keeps the values that backward needs
  std::span<const plan::Recompute> recompute = {};  // what backward recomputes, for each layer; empty: nothing
  at::Device device = at::kCPU;
  bool float8 = false;  // linear layers multiply in float8 (model/linear.h)
  // The ranks that share the layers; its size and this rank are those of ModelShape::tensor. Null: one.
  comm::Group* tensor = nullptr;
  ContextRanks context = {};
  // The ranks that have different layers, as `pipeline_plan` says, in a group with a stream of its own. Null: one.
  comm::Group* pipeline = nullptr;
  plan::PipelinePlan pipeline_plan = {};
};

// Memory that stages use in turn, and that of one stage's slots: plan::ActivationPlan's shared_bytes, and num_slots
// times slot_bytes.
struct ActivationMemory {
  at::Tensor shared, slots;  // uint8
  at::Tensor rope_SK;        // ops::rope_table of positions 0..S-1
};

// The shared data of all parts of the model, or of a stage: sizes, inputs and outputs, and the rotation table.
class Activations {
 public:
  // Allocates the memory of a whole model.
  Activations(const plan::ModelShape& shape, int64_t B, int64_t S, const ComputeOptions& options);
  // `plan`: of `shape`, which may be a stage's.
  Activations(const plan::ModelShape& shape, int64_t B, int64_t S, const ComputeOptions& options,
              plan::ActivationPlan plan, const ActivationMemory& memory);

  // The tensor of an activation. plan/activations.h and plan/micro_batch_ops.h give its shape and lifetime. `layer` is
  // for activations of a layer; the first layer here is 0.
  const at::Tensor& operator()(plan::Activation which, int64_t layer = 0) const {
    return tensors_[slot_][static_cast<size_t>(which)][static_cast<size_t>(layer)];
  }
  // From now on the activations are those of the micro-batch in this slot.
  void use_slot(int64_t slot) { slot_ = static_cast<size_t>(slot); }

  int64_t num_slots() const { return plan_.num_slots; }
  // Gradients of weights are computed later than those of inputs.
  bool in_halves() const { return plan_.backward == plan::Backward::kInHalves; }
  plan::Recompute recompute(int64_t layer) const { return plan_.recompute[static_cast<size_t>(layer)]; }
  int64_t tokens() const { return B * S / shape.context; }  // of this rank
  // This rank's part of every sequence, and the positions of queries in its attention.
  plan::SequencePart sequence_part() const;
  plan::Chunks queries() const { return plan::chunks_of(sequence_part(), S); }
  at::Device device() const { return rope_SK.device(); }
  const plan::ModelShape shape;
  const int64_t B, S;          // of whole sequences, also where ranks share them
  const bool float8;           // ComputeOptions::float8
  comm::Group* const tensor;   // ComputeOptions::tensor
  const ContextRanks context;  // ComputeOptions::context
  const at::Tensor rope_SK;    // ops::rope_table of positions 0..S-1

 private:
  const plan::ActivationPlan plan_;
  std::vector<std::vector<std::vector<at::Tensor>>> tensors_;  // [slot][which][layer]
  size_t slot_ = 0;
};

}  // namespace hearth::model
