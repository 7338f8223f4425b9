// SPDX-License-Identifier: Apache-2.0
// The buffers of a program (models/program.h) as tensors over one arena, allocated once, at the places of
// plan/activations.h. Only where more rows of experts arrive from other ranks than usual, a buffer for them is
// allocated in addition.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "comm/group.h"
#include "config/choices.h"
#include "models/program.h"
#include "ops/readback.h"
#include "ops/rope.h"
#include "ops/tensor.h"
#include "plan/activations.h"
#include "plan/context_parallel.h"
#include "plan/pipeline_plan.h"

namespace hearth::model {

// The groups of ranks that share the sequences (plan/context_parallel.h). Null: one rank.
struct ContextRanks {
  comm::Group* heads = nullptr;
  comm::Group* keys = nullptr;
};

// Options of a model's computation.
struct ComputeOptions {
  DType dtype = DType::kFloat32;                      // of activations
  int64_t loss_chunk_tokens = 1024;                   // number of positions whose logits exist at a time
  bool training = false;                              // keeps the values that backward needs
  std::span<const models::Recompute> recompute = {};  // what backward recomputes, for each layer; empty: nothing
  at::Device device = at::kCPU;
  std::optional<config::Fp8Recipe> float8 = {};  // linear layers multiply in float8 (ops/float8.h)
  // The ranks that share the layers; ModelShape::tensor must have this group's size and rank. Null: one rank.
  comm::Group* tensor = nullptr;
  ContextRanks context = {};
  // The ranks that have different experts. Null: one rank.
  comm::Group* experts = nullptr;
  // The ranks that have different layers, as `pipeline_plan` says. The group has a stream of its own. Null: one rank.
  comm::Group* pipeline = nullptr;
  plan::PipelinePlan pipeline_plan = {};
};

// ops::rope_tables of positions 0..S-1, for ModelShape::rope and for local_rope. `local` is `main` if no layer has it.
struct ModelRopes {
  ops::RopeTables main, local;
};
ModelRopes model_ropes(const plan::ModelShape& shape, int64_t S, int64_t length, DType dtype, at::Device device);
int64_t bytes_of(const ModelRopes& ropes);

// The memory that all stages use in turn (plan::ActivationPlan's shared_bytes), and the memory of one stage's slots
// (num_slots times slot_bytes).
struct ActivationMemory {
  at::Tensor shared, slots;  // uint8
  ModelRopes ropes;
};

// The rows that a layer's experts get from other ranks, and that this rank sends.
struct ExpertRows {
  int64_t arriving = 0;
  std::vector<int64_t> to, from;  // [ranks]: that arrive from each rank, and that go to it
  // [2, E] int64, of each expert: sent and received, copied to the host.
  std::shared_ptr<ops::Readback> counts{};
};

class Activations {
 public:
  // `plan`: for a stage's program.
  Activations(plan::ActivationPlan plan, const ComputeOptions& options, const ActivationMemory& memory);
  // Allocates the memory of a whole model.
  Activations(plan::ActivationPlan plan, const ComputeOptions& options);

  // A buffer of the program, or some of its columns; undefined if `ref` names no buffer.
  at::Tensor operator()(const models::Ref& ref) const;
  // The same seen as heads: [B, positions, heads, K].
  at::Tensor heads(const models::Ref& ref) const;
  // From now on all buffers belong to the micro-batch in this slot.
  void use_slot(int64_t slot) { slot_ = static_cast<size_t>(slot); }
  // From now on the rows that arrive for experts are of this layer.
  void use_layer(int64_t layer) { layer_ = static_cast<size_t>(layer); }
  // Those rows, in this slot. Execution writes it, and buffers then have as many rows.
  ExpertRows& expert_rows() const { return expert_rows_[slot_][layer_]; }

  const models::Program& program() const { return plan_.program; }
  const plan::ModelShape& shape() const { return plan_.program.shape; }
  int64_t num_slots() const { return plan_.num_slots; }
  int64_t tokens() const { return plan_.program.tokens(); }  // of this rank
  int64_t B() const { return plan_.program.size.B; }         // whole sequences, also where ranks share them
  int64_t S() const { return plan_.program.size.S; }
  // This rank's part of every sequence, and the positions of queries in its attention.
  plan::SequencePart sequence_part() const;
  plan::Chunks queries() const { return plan::chunks_of(sequence_part(), S()); }
  at::Device device() const { return ropes.main.heads_SR.device(); }
  const std::optional<config::Fp8Recipe> float8;  // ComputeOptions::float8
  comm::Group* const tensor;                      // ComputeOptions::tensor
  comm::Group* const experts;                     // ComputeOptions::experts
  const ContextRanks context;                     // ComputeOptions::context
  const ModelRopes ropes;

 private:
  at::Tensor with_arrivals(const models::Ref& ref, const at::Tensor& usual) const;

  const plan::ActivationPlan plan_;
  std::vector<std::vector<at::Tensor>> tensors_;  // [slot][buffer]
  size_t slot_ = 0, layer_ = 0;
  // Like the tensors' elements, these change while the model computes.
  mutable std::vector<std::vector<ExpertRows>> expert_rows_;         // [slot][layer]
  mutable std::map<std::pair<size_t, int32_t>, at::Tensor> larger_;  // by slot and buffer
};

}  // namespace hearth::model
