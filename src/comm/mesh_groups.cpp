// SPDX-License-Identifier: Apache-2.0
#include "comm/mesh_groups.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace hearth::comm {

namespace {

// Every `step`-th of the ranks from `first` on: `count` of them.
std::vector<int64_t> some_of(const std::vector<int64_t>& ranks, int64_t first, int64_t step, int64_t count) {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(ranks[static_cast<size_t>(first + i * step)]);
  return result;
}

}  // namespace

MeshGroups::MeshGroups(Group& world, const mesh::Degrees& degrees, const OfModel& model) : world_(world) {
  const mesh::Mesh mesh(degrees);
  HEARTH_CHECK(mesh.size() == world.size(), "{} ranks for a mesh of {}", world.size(), mesh.size());
  place_ = mesh.coordinates(world.rank());
  if (mesh.group_size(mesh::kLossAxes) < mesh.size()) loss_ = world.split(mesh.group(world.rank(), mesh::kLossAxes));
  if (degrees.cp > 1) {
    const std::vector<int64_t> context = mesh.group(world.rank(), {mesh::Axis::kCp});
    const int64_t heads = degrees.cp / model.key_ranks, head = place_.cp % heads;
    if (heads > 1) heads_ = world.split(some_of(context, place_.cp - head, 1, heads));
    if (model.key_ranks > 1) keys_ = world.split(some_of(context, head, heads, model.key_ranks));
  }
  if (degrees.tp > 1) tensor_ = world.split(mesh.group(world.rank(), {mesh::Axis::kTp}));
  if (degrees.ep > 1) {
    const mesh::Mesh experts = mesh::Mesh::of_experts(degrees);
    experts_ = world.split(experts.group(world.rank(), {mesh::Axis::kEp}));
    same_experts_ = world.split(experts.group(world.rank(), {mesh::Axis::kDpReplicate, mesh::Axis::kExpertShard}));
  }
  if (degrees.pp == 1) return;
  const std::vector<int64_t> stages = mesh.group(world.rank(), {mesh::Axis::kPp});
  pipeline_ = world.split_apart(stages);
  if (!model.tied) return;
  const bool is_end = world.rank() == stages.front() || world.rank() == stages.back();
  auto ends = world.split(is_end ? std::vector{stages.front(), stages.back()} : std::vector{world.rank()});
  if (is_end) embedding_ = std::move(ends);
}

}  // namespace hearth::comm
