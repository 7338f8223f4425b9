// SPDX-License-Identifier: Apache-2.0
#include "convert/training_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

constexpr std::string_view kOptimizerState = "optimizer.state.";

}  // namespace

TrainingState training_of(const checkpoint::Manifest& manifest) {
  return {manifest.step, manifest.tokens_seen, manifest.step - manifest.optimizer_start};
}

bool has_moments(const checkpoint::Reader& reader) { return !moments_of(reader).empty(); }

std::vector<Transfer> moments_of(const checkpoint::Reader& reader) {
  std::vector<Transfer> moments;
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    if (tensor.name.starts_with(kOptimizerState) && !tensor.shape.empty()) moments.push_back({tensor.name, tensor});
  }
  return moments;
}

int64_t counted(double number, const std::string& what) {
  constexpr double kMost = 9007199254740992;  // every whole number up to here is a double
  if (!(number >= 0 && number <= kMost && number == std::floor(number)))
    throw damaged(fmt::format("{} is {}", what, number), "it is a count, from 0", "take another checkpoint");
  return static_cast<int64_t>(number);
}

int64_t updates_of(checkpoint::Reader& reader, const TrainingState& training, const std::string& parameter) {
  const std::string name = plan::adam_step_name(parameter);
  if (reader.find(name) == nullptr) return training.updates;
  reader.require(name, DType::kFloat32, {});
  std::array<std::byte, 4> bytes{};
  reader.read(name, {}, bytes);
  return counted(std::bit_cast<float>(bytes), fmt::format("{}: {}", reader.folder().string(), name));
}

}  // namespace hearth::convert
