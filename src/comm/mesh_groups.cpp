#include "comm/mesh_groups.h"

#include "base/error.h"

namespace hearth::comm {

MeshGroups::MeshGroups(Group& world, const mesh::Degrees& degrees) : world_(world) {
  const mesh::Mesh mesh(degrees);
  HEARTH_CHECK(mesh.size() == world.size(), "{} ranks for a mesh of {}", world.size(), mesh.size());
  place_ = mesh.coordinates(world.rank());
  if (mesh.group_size(mesh::kLossAxes) < mesh.size()) loss_ = world.split(mesh.group(world.rank(), mesh::kLossAxes));
  if (degrees.cp > 1) context_ = world.split(mesh.group(world.rank(), {mesh::Axis::kCp}));
  if (degrees.tp > 1) tensor_ = world.split(mesh.group(world.rank(), {mesh::Axis::kTp}));
}

}  // namespace hearth::comm
