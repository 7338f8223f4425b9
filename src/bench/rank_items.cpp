// SPDX-License-Identifier: Apache-2.0
#include "bench/rank_items.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "checkpoint/save.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::bench {
namespace {

constexpr int64_t kBytesAroundAnItem = 960;  // of a zip: about what an item has besides its elements

plan::ParameterPlan llama3_8b() {
  config::Model model;
  model.dim = 4096;
  model.n_layers = 32;
  model.n_heads = 32;
  model.n_kv_heads = 8;
  model.hidden_dim = 14336;
  return plan::parameter_plan(plan::model_shape(model, 128256));
}

}  // namespace

std::string write_empty_items(const Path& folder, int64_t rank, int64_t ranks) {
  static const plan::ParameterPlan plan = llama3_8b();
  const std::string file = checkpoint::rank_file_name(rank);
  std::vector<checkpoint::ItemOf> items;
  int64_t end = 0;
  for (const auto& name_of : {plan::weight_name, plan::exp_avg_name, plan::exp_avg_sq_name}) {
    for (const plan::Parameter& p : plan.parameters) {
      const plan::Slice slice = plan::unit_slice(plan.units[static_cast<size_t>(p.unit)], rank, ranks);
      const int64_t first = std::max(slice.begin, p.offset), last = std::min(slice.end, p.offset + p.numel);
      if (first >= last) continue;
      for (const mesh::Box& box : mesh::boxes_of_flat_range(p.shape, first - p.offset, last - p.offset)) {
        const mesh::TensorInfo info{name_of(p.name), DType::kFloat32, p.shape};
        const int64_t length = kBytesAroundAnItem + 4 * box.numel();
        items.push_back({info, {info.name, box, file, end, length, xxh3_64(info.name) + static_cast<uint64_t>(end)}});
        end += length;
      }
    }
  }
  if (!items.empty()) {
    const File made = File::create(folder / file);
    if (::ftruncate(made.descriptor(), end) != 0) throw system_error("cannot lengthen " + made.path().string(), errno);
  }
  return checkpoint::list_of_items(file, items);
}

}  // namespace hearth::bench
