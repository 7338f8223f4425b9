// SPDX-License-Identifier: Apache-2.0
// A rank's groups along the axes of the mesh (mesh/mesh.h).
#pragma once

#include <memory>

#include "comm/group.h"
#include "mesh/mesh.h"

namespace hearth::comm {

class MeshGroups {
 public:
  // What the model adds to the mesh.
  struct OfModel {
    bool tied = false;      // the first and the last stage of a pipeline have weights in common
    int64_t key_ranks = 1;  // of context parallel (plan/context_parallel.h); divides the degree
  };

  // `world`: all ranks, as many as the degrees multiply to; must outlive this. Collective.
  MeshGroups(Group& world, const mesh::Degrees& degrees, const OfModel& model);

  Group& world() const { return world_; }
  const mesh::Coordinates& place() const { return place_; }
  // Ranks that add gradients, losses and counts, the shards of a replica next to each other: mesh::kLossAxes.
  Group& loss() const { return loss_ ? *loss_ : world_; }
  // Ranks that share every sequence: those that exchange heads, and those that gather keys. null: one.
  Group* heads() const { return heads_.get(); }
  Group* keys() const { return keys_.get(); }
  // Ranks that share every layer; null: one.
  Group* tensor() const { return tensor_.get(); }
  // Ranks that have different layers, with a stream of their own; null: one.
  Group* pipeline() const { return pipeline_.get(); }
  // The first and the last of these, on them; null: nothing is tied, or a rank between.
  Group* embedding() const { return embedding_.get(); }

 private:
  Group& world_;
  mesh::Coordinates place_;
  std::unique_ptr<Group> loss_, heads_, keys_, tensor_, pipeline_, embedding_;  // loss_ null: the world
};

}  // namespace hearth::comm
