// SPDX-License-Identifier: Apache-2.0
// What a stage of a model does to a micro-batch: buffers, and the ops on them in order. The blocks of the model write
// it (models/block.h), the planner places its buffers (plan/activations.h), and model/stage.h computes it.
//
// Ops are in steps. Everything that a step reads or writes is in memory during the whole of it, so a step's ops may run
// at once. A buffer lives from the step that writes it to the last step that reads it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "models/ops.h"
#include "models/shape.h"

namespace hearth::models {

// Activations that a layer's forward does not keep and its backward computes again, with the same bits:
//   kNorms      outputs of norms and SwiGLU: no further matrix product
//   kAttention  also queries, keys, values and attention
//   kBlock      all except the block's input
enum class Recompute { kNone, kNorms, kAttention, kBlock };

// kInHalves: first the gradients of inputs; later the gradients of weights, which can fill a pipeline's bubble.
enum class Backward { kNone, kWhole, kInHalves };

// The parts of a micro-batch's work. In a pipeline other micro-batches come between them.
enum class Pass { kForward, kBackward, kWeightGradients };

// The parts of a stage. Ops of one part use the weights of one unit: of the embedding, a block, the final norm, or the
// output matrix (kLoss, kLossAndGradient).
enum class Section {
  kEmbedding,  // or what another stage has sent
  kForward,
  kFinalNorm,  // or what another stage will get
  kLoss,
  kLossAndGradient,
  kFinalNormGradient,
  kBackward,
  kWeightGradients,
  kEmbeddingGradient,
};

struct Buffer {
  std::string_view name;
  int64_t layer;  // of the stage; -1: one for all layers
  std::vector<int64_t> shape;
  DType dtype;
  // Its rows come from other ranks, and nobody knows how many before the step. `shape` has room for usual numbers; for
  // more rows a run allocates more memory (model/activations.h).
  bool varies = false;
};

struct Step {
  Pass pass;
  int64_t layer;  // -1: of no layer
  std::string_view name;
  bool is_repeated;  // computes again what forward has computed
  size_t first_op, num_ops;

  std::string full_name() const;  // "layer 3: w1 w3 again"
};

// Sequences of a micro-batch, and how they are computed. `loss_chunk_tokens`: the logits of this many positions exist
// at a time.
struct MicroBatchSize {
  int64_t B, S;
  DType dtype;
  int64_t loss_chunk_tokens;
};

class Program {
 public:
  // `shape`: this rank's part of a stage of the model. `uses_cache`: for generation, where the keys and values of
  // earlier tokens are cached.
  Program(const ModelShape& shape, const MicroBatchSize& size, Backward backward, bool uses_cache = false)
      : shape(shape), size(size), backward(backward), uses_cache(uses_cache) {}

  ModelShape shape;
  MicroBatchSize size;
  Backward backward;
  bool uses_cache;

  int64_t tokens() const { return size.B * size.S / shape.context; }  // of this rank
  int64_t rows() const { return tokens() / shape.tensor.size; }       // of the stream, between products
  bool in_halves() const { return backward == Backward::kInHalves; }
  // The type of row statistics and sums: float32 where activations are bfloat16.
  DType exact() const { return size.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

  const std::vector<Buffer>& buffers() const { return buffers_; }
  const Buffer& buffer(const Ref& ref) const { return buffers_[static_cast<size_t>(ref.buffer)]; }
  const std::vector<Step>& steps() const { return steps_; }
  std::span<const Op> ops_of(const Step& step) const { return std::span(ops_).subspan(step.first_op, step.num_ops); }
  // In their order. Empty if the stage has no such section.
  std::span<const Op> ops_of(Section section, int64_t layer = 0) const;

  // The functions below are for the parts of a model, which write the program.

  // add_buffer makes a new buffer of a layer. shared_buffer gives all layers that ask for the same name and shape one
  // buffer. The planner places buffers of equal size in the order in which their names came.
  Ref add_buffer(std::string_view name, int64_t layer, std::vector<int64_t> shape, DType dtype);
  Ref add_buffer(std::string_view name, int64_t layer, std::vector<int64_t> shape) {
    return add_buffer(name, layer, std::move(shape), size.dtype);
  }
  Ref shared_buffer(std::string_view name, std::vector<int64_t> shape, DType dtype);
  Ref shared_buffer(std::string_view name, std::vector<int64_t> shape) {
    return shared_buffer(name, std::move(shape), size.dtype);
  }
  // The same for rows that other ranks send; layer -1: shared.
  Ref varying_buffer(std::string_view name, int64_t layer, std::vector<int64_t> shape, DType dtype);
  // The next ops are of this section of this pass. A section that begins beside another one is an alternative to it: it
  // is not in the order of steps, and uses only buffers that the other one uses.
  void begin(Pass pass, Section section, int64_t layer = 0);
  void begin_beside(Section section);
  // The next ops are of this step.
  void step(std::string_view name, bool is_repeated = false);
  void add(Op op);

  // Adds the buffers that the three functions below need.
  void add_row_buffers();
  // All rows of the stream. With tensor parallel, gathers each rank's `own` rows into a buffer that is valid until the
  // next call; otherwise returns `own`.
  Ref all_rows(const Ref& own);
  // Where products write what becomes `own`. With tensor parallel a buffer of summands, which sum_rows adds up;
  // otherwise `own`.
  Ref summands(const Ref& own) const { return shape.tensor.size > 1 ? partial_rows : own; }
  void sum_rows(const Ref& own);
  // dx = dy w and dw += dy^T x, where out = x w^T with x = all_rows(own).
  void linear_gradients(const Ref& dx, const Ref& dy, const Ref& own, const Weight& weight);

  // The stage's ends, [rows, D]. `input`: the stream before the first block. `dstream`: the gradient of the stream
  // after the last block; it becomes the gradient of `input`. Before backward it holds the stream that the next stage
  // gets.
  Ref input, dstream;
  Ref final_input;  // [rows, D]: the normed stream, input of the output matrix
  // The output matrix, and the bias of the logits if the model has one, in the unit of the matrix.
  Weight output_matrix, logits_bias;
  Ref logits;  // [positions at a time, V]; become their gradient in place
  // [T, D], only with tensor parallel.
  Ref gathered_rows, partial_rows;

 private:
  std::vector<Buffer> buffers_;
  std::vector<Op> ops_;
  std::vector<Step> steps_;
  std::map<std::pair<Section, int64_t>, std::pair<size_t, size_t>> sections_;  // [first op, end)
  std::pair<Section, int64_t> section_{};
  Pass pass_ = Pass::kForward;
  bool is_beside_ = false;
};

Refs reads_of(const Op& op);
Refs writes_of(const Op& op);

}  // namespace hearth::models
