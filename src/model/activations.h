// SPDX-License-Identifier: Apache-2.0
// The buffers of a program (models/program.h) as tensors over one arena, allocated once, at the places of
// plan/activations.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "comm/group.h"
#include "config/choices.h"
#include "models/program.h"
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
  DType dtype = DType::kFloat32;                      // of activations
  int64_t loss_chunk_tokens = 1024;                   // number of positions whose logits exist at a time
  bool training = false;                              // keeps the values that backward needs
  std::span<const models::Recompute> recompute = {};  // what backward recomputes, for each layer; empty: nothing
  at::Device device = at::kCPU;
  std::optional<config::Fp8Recipe> float8 = {};  // linear layers multiply in float8 (ops/float8.h)
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

class Activations {
 public:
  // `plan`: of a stage's program.
  Activations(plan::ActivationPlan plan, const ComputeOptions& options, const ActivationMemory& memory);
  // Allocates the memory of a whole model.
  Activations(plan::ActivationPlan plan, const ComputeOptions& options);

  // A buffer of the program, or its columns; undefined for none.
  at::Tensor operator()(const models::Ref& ref) const;
  // The same as heads beside each other: [B, positions, heads of K, K].
  at::Tensor heads(const models::Ref& ref) const;
  // From now on the activations are those of the micro-batch in this slot.
  void use_slot(int64_t slot) { slot_ = static_cast<size_t>(slot); }

  const models::Program& program() const { return plan_.program; }
  const plan::ModelShape& shape() const { return plan_.program.shape; }
  int64_t num_slots() const { return plan_.num_slots; }
  int64_t tokens() const { return plan_.program.tokens(); }  // of this rank
  int64_t B() const { return plan_.program.size.B; }         // whole sequences, also where ranks share them
  int64_t S() const { return plan_.program.size.S; }
  // This rank's part of every sequence, and the positions of queries in its attention.
  plan::SequencePart sequence_part() const;
  plan::Chunks queries() const { return plan::chunks_of(sequence_part(), S()); }
  at::Device device() const { return rope_SK.device(); }
  const std::optional<config::Fp8Recipe> float8;  // ComputeOptions::float8
  comm::Group* const tensor;                      // ComputeOptions::tensor
  const ContextRanks context;                     // ComputeOptions::context
  const at::Tensor rope_SK;                       // ops::rope_table of positions 0..S-1

 private:
  const plan::ActivationPlan plan_;
  std::vector<std::vector<at::Tensor>> tensors_;  // [slot][buffer]
  size_t slot_ = 0;
};

}  // namespace hearth::model
