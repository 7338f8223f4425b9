// SPDX-License-Identifier: Apache-2.0
// `hearth convert --verify`: both sides of a conversion compute the logits of the same random tokens.
//
// Each side is read by the reader of its own kind, and computed with its own files' row order of queries and keys. So
// the proof covers names, orders, joined matrices and the description of the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/convert.h"

namespace hearth::infer {

// The lengths of the sequences; the model's longest position limits them.
inline constexpr int64_t kProofLengths[] = {1, 7, 32, 128};
inline constexpr uint64_t kProofSeed = 1;  // of the tokens

struct Proof {
  // For one sequence. The source's weights are rounded to the target's type first, where the conversion rounds.
  struct Sequence {
    int64_t tokens;
    double largest_in, largest_out;  // absolute logits
    double difference;               // the largest
    double rounding;                 // the largest difference that rounding alone makes
  };
  std::vector<Sequence> sequences;
  bool same_order = true;      // both sides add in one order, so all bits must be equal
  double tolerance = 0;        // relative to the largest logit; 0: none
  std::optional<DType> dtype;  // that weights are rounded to; empty: none changes

  // NaN is never equal.
  bool holds() const;
  double difference() const;     // the largest of all sequences
  std::string table() const;     // a line for each sequence
  std::string sentence() const;  // for the model card
};

// The difference that another order of rows may make, because it changes the order of a sum over a head's elements in
// each layer; or that the sum over a token's equal experts makes (convert::Upcycling).
double proof_tolerance(int64_t layers, DType compute);

// Compares the source of a conversion with what was written. Computes on the CPU in float32, or in float64 if a weight
// has that type. Only one side's weights are in memory at a time. Throws the errors of opening both sides.
Proof compare_logits(const convert::Options& options, const convert::Written& written);

// For convert::Options::prove: prints the table and returns the sentence. Throws damaged() unless the proof holds.
std::string prove_conversion(const convert::Options& options, const convert::Written& written);

}  // namespace hearth::infer
