// SPDX-License-Identifier: Apache-2.0
// The parameters of a block, or of another part of a model, in the order of their names on disk. plan/parameters.h
// gives them places in memory.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hearth::models {

enum class Init { kZeros, kOnes, kNormal, kTruncatedNormal };

// The law of a parameter's initial values. `bound` is for kTruncatedNormal: values are in [-bound, bound].
struct Law {
  Init init;
  double std = 0, bound = 0;
};

// What tensor-parallel ranks have of a parameter: all of it, or some of its rows or columns. The rows of a vector are
// its elements.
enum class Cut { kNothing, kRows, kColumns };

struct ParameterSpec {
  std::string name;            // within its block: "attention.wq.weight"
  std::vector<int64_t> shape;  // of the whole, row-major, [out, in] for matrices
  Cut cut = Cut::kNothing;
  Law law = {Init::kOnes};
  int64_t expert = -1;       // the expert of its layer that has it; -1: none. Parameters of experts are the last ones
  bool is_adjacent = false;  // begins where the one before it ends: both are rows of one matrix
  double used = 1;           // the share of tokens that it acts on
  bool is_balanced = false;  // it has no gradient, and follows the loads of the layer's experts (optim/expert_bias.h)
};

// Adjacent parameters of a list, which ops use as one matrix or vector. count = 0: the model lacks this weight.
struct Weight {
  int32_t first = 0, count = 0;
  bool exists() const { return count > 0; }
};

class ParameterList {
 public:
  // Adds parameters. The rows of each follow the rows of the one before, so that ops use them as one weight.
  Weight add(const std::vector<ParameterSpec>& specs) {
    const Weight added{static_cast<int32_t>(specs_.size()), static_cast<int32_t>(specs.size())};
    for (const ParameterSpec& spec : specs) {
      specs_.push_back(spec);
      specs_.back().is_adjacent = specs_.size() > static_cast<size_t>(added.first) + 1;
    }
    return added;
  }
  const std::vector<ParameterSpec>& specs() const { return specs_; }

 private:
  std::vector<ParameterSpec> specs_;
};

}  // namespace hearth::models
