// SPDX-License-Identifier: Apache-2.0
#include "convert/neox/files.h"

#include "convert/names.h"

namespace hearth::convert {
namespace {

constexpr int64_t kMostNeoxNumber = 1'000'000;

}  // namespace

std::optional<NeoxFile> neox_file(std::string_view name) {
  using enum NeoxFile::Kind;
  if (const auto numbers = numbers_in("layer_*-model_*-model_states.pt", name, kMostNeoxNumber))
    return NeoxFile{.kind = kLayer, .rank = numbers->at(1), .layer = numbers->at(0)};
  if (const auto numbers = numbers_in("mp_rank_*_model_states.pt", name, kMostNeoxNumber))
    return NeoxFile{.kind = kRank, .rank = numbers->at(0)};
  if (name.starts_with("bf16_")) name.remove_prefix(5);
  if (const auto numbers = numbers_in("zero_pp_rank_*_mp_rank_*_optim_states.pt", name, kMostNeoxNumber))
    return NeoxFile{.kind = kOptimizer, .rank = numbers->at(1), .slice = numbers->at(0)};
  return std::nullopt;
}

std::optional<NeoxTensorName> neox_tensor_name(std::string_view name) {
  if (name.starts_with(kNeoxTied) && name.size() > kNeoxTied.size())
    return NeoxTensorName{0, std::string(name.substr(kNeoxTied.size()))};
  constexpr std::string_view kSequential = "sequential.";
  if (name.starts_with(kSequential)) name.remove_prefix(kSequential.size());
  const size_t dot = name.find('.');
  const auto layer = numbers_in("*", name.substr(0, dot), kMostNeoxNumber);
  if (!layer || dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  return NeoxTensorName{layer->front(), std::string(name.substr(dot + 1))};
}

}  // namespace hearth::convert
