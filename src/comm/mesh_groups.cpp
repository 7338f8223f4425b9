#include "comm/mesh_groups.h"

#include <utility>
#include <vector>

#include "base/error.h"

namespace hearth::comm {

MeshGroups::MeshGroups(Group& world, const mesh::Degrees& degrees, bool tied) : world_(world) {
  const mesh::Mesh mesh(degrees);
  HEARTH_CHECK(mesh.size() == world.size(), "{} ranks for a mesh of {}", world.size(), mesh.size());
  place_ = mesh.coordinates(world.rank());
  if (mesh.group_size(mesh::kLossAxes) < mesh.size()) loss_ = world.split(mesh.group(world.rank(), mesh::kLossAxes));
  if (degrees.cp > 1) context_ = world.split(mesh.group(world.rank(), {mesh::Axis::kCp}));
  if (degrees.tp > 1) tensor_ = world.split(mesh.group(world.rank(), {mesh::Axis::kTp}));
  if (degrees.pp == 1) return;
  const std::vector<int64_t> stages = mesh.group(world.rank(), {mesh::Axis::kPp});
  pipeline_ = world.split_apart(stages);
  if (!tied) return;
  const bool is_end = world.rank() == stages.front() || world.rank() == stages.back();
  auto ends = world.split(is_end ? std::vector{stages.front(), stages.back()} : std::vector{world.rank()});
  if (is_end) embedding_ = std::move(ends);
}

}  // namespace hearth::comm
