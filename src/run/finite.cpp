// SPDX-License-Identifier: Apache-2.0
#include "run/finite.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "base/text.h"
#include "ops/tensor.h"
#include "parallel/shard_pieces.h"
#include "plan/tensor_names.h"

namespace hearth::run {
namespace {

constexpr size_t kNonfiniteNamed = 8;
constexpr int64_t kAtATime = int64_t{1} << 22;  // elements read at once

// The exponent of a NaN or an infinity is all ones.
template <class Bits>
bool all_finite(std::span<const std::byte> bytes, Bits exponent) {
  const auto* values = reinterpret_cast<const Bits*>(bytes.data());
  const std::span<const Bits> all(values, bytes.size() / sizeof(Bits));
  return std::ranges::all_of(all, [exponent](Bits value) { return (value & exponent) != exponent; });
}

// True for types that are not floating-point: another check reports them.
bool all_finite(std::span<const std::byte> bytes, DType dtype) {
  if (dtype == DType::kFloat32) return all_finite(bytes, uint32_t{0x7F80'0000});
  if (dtype == DType::kFloat64) return all_finite(bytes, uint64_t{0x7FF0'0000'0000'0000});
  if (dtype == DType::kBFloat16) return all_finite(bytes, uint16_t{0x7F80});
  return dtype != DType::kFloat16 || all_finite(bytes, uint16_t{0x7C00});
}

bool all_finite(checkpoint::Reader& reader, const mesh::TensorInfo& tensor) {
  const int64_t numel = mesh::Box{{}, tensor.shape}.numel();
  std::vector<std::byte> bytes;
  for (int64_t begin = 0; begin < numel; begin += kAtATime) {
    const int64_t end = std::min(begin + kAtATime, numel);
    for (const mesh::Box& box : mesh::boxes_of_flat_range(tensor.shape, begin, end)) {
      bytes.resize(static_cast<size_t>(box.numel() * dtype_size(tensor.dtype)));
      reader.read(tensor.name, box, bytes);
      if (!all_finite(bytes, tensor.dtype)) return false;
    }
  }
  return true;
}

void require_none(const std::vector<std::string>& names, const Path& from) {
  if (names.empty()) return;
  throw damaged(fmt::format("{} holds NaN or infinity", from.string()),
                fmt::format("in {}", join_first(names, kNonfiniteNamed)), "begin with an earlier checkpoint")
      .about("checkpoint.initial_load_path");
}

}  // namespace

void check_finite(const parallel::ShardedWeights& weights, const Path& from) {
  std::vector<std::string> names;
  for (const parallel::ShardPiece& piece : parallel::parameter_pieces(weights, parallel::PiecesFor::kLoading)) {
    const at::Tensor host = ops::on_host(piece.values);
    if (!all_finite(ops::bytes_of(host), piece.dtype)) names.push_back(piece.name);
  }
  require_none(names, from);
}

void check_finite(checkpoint::Reader& reader, const plan::ParameterPlan& plan, const std::vector<bool>& skip) {
  std::vector<std::string> names;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (!skip.empty() && skip[i]) continue;
    const std::string& name = plan.parameters[i].name;
    const mesh::TensorInfo* found = reader.find(plan::weight_name(name));
    if (found != nullptr && !all_finite(reader, *found)) names.push_back(name);
  }
  require_none(names, reader.folder());
}

}  // namespace hearth::run
