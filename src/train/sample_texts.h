// SPDX-License-Identifier: Apache-2.0
// The prompts of validation.generate: after a validation the model continues each of them, or fills in its masks. If
// the data are recordings, the prompts are recordings, too.
//
// A text depends on the weights, the prompt, the step and training.seed. `hearth generate` makes the same text from the
// checkpoint of that step with the record's seed, up to the rounding of logits. Nothing of the training changes.
//
// Any layout of ranks works. Each rank computes all prompts, and one rank chooses the tokens for all. Weights are
// gathered as in a validation. If ranks share the layers, or masks are filled in, there is no cache of keys and values,
// and each token costs a pass over its whole sequence (plan::samples_are_cached).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/mesh_groups.h"
#include "decode/rows.h"
#include "metrics/record.h"
#include "model/transformer.h"
#include "parallel/sharded_weights.h"
#include "recordings/prompt.h"
#include "run/run.h"
#include "tokenizer/tokenizer.h"

namespace hearth::train {

class SampleTexts {
 public:
  // Borrows its arguments. Does nothing for a run without prompts. Collective.
  SampleTexts(const run::Run& run, const plan::ParameterPlan& rank_plan, const comm::MeshGroups& groups,
              comm::Control& control);

  // A text for each prompt, the same on every rank. Collective.
  std::vector<metrics::SampleText> after(int64_t step, parallel::ShardedWeights& weights);

 private:
  // A prompt and what has been added to it.
  struct Row {
    size_t prompt;                 // its number
    uint64_t seed;                 // the seed of its text
    int64_t limit;                 // the number of tokens to choose, at most
    std::vector<int32_t> ids;      // the document so far
    size_t visible = 0;            // where the model's window begins in `ids`
    std::vector<int64_t> open{};   // masks that are not filled in
    std::vector<uint32_t> made{};  // tokens that were chosen; for a recording with BOS before each column
    bool ended = false;            // by EOS
  };
  // A chosen token: its id, and which of the asked positions it is for.
  struct Choice {
    int64_t asked, id;
  };

  bool masked() const { return run_.labels.masking.has_value(); }
  int64_t column_tokens(size_t prompt) const;  // number of tokens in a recording's column
  Row row_of(size_t prompt, int64_t step) const;
  bool is_done(const Row& row) const;
  bool all_done(const std::vector<Row>& rows) const;
  std::vector<int64_t> asked(const Row& row) const;
  metrics::SampleText record_of(const Row& row, int64_t step) const;
  void complete(std::vector<Row>& rows, parallel::ShardedWeights& weights);
  void complete(std::vector<Row>& rows, decode::ContextRows& contexts) const;
  void complete(std::vector<Row>& rows, model::Transformer& model, parallel::ShardedWeights& weights) const;
  at::Tensor logits(const std::vector<Row>& rows, model::Transformer& model, parallel::ShardedWeights& weights) const;
  Choice choose(const Row& row, const at::Tensor& logits_NV) const;
  std::vector<Choice> agree(const std::vector<Row>& rows, const at::Tensor& logits_NV) const;
  void take(Row& row, const Choice& choice) const;
  void take_all(std::vector<Row>& rows, const at::Tensor& logits_NV) const;

  const run::Run& run_;
  const plan::ParameterPlan& plan_;
  const comm::MeshGroups& groups_;
  comm::Control& control_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;  // null without prompts
  std::vector<recordings::ArrayPrompt> recordings_;  // one for each prompt; empty for text
  std::vector<bool> no_text_;                        // by id, for masks
};

}  // namespace hearth::train
