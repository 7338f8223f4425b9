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
    int64_t key_ranks = 1;  // key ranks of context parallel (plan/context_parallel.h); divides its degree
  };

  // `world`: all ranks, as many as the degrees multiply to; must outlive this. Collective.
  MeshGroups(Group& world, const mesh::Degrees& degrees, const OfModel& model);

  Group& world() const { return world_; }
  const mesh::Coordinates& place() const { return place_; }
  // Ranks that sum gradients, losses and counts: mesh::kLossAxes. The shards of a replica are neighbours.
  Group& loss() const { return loss_ ? *loss_ : world_; }  // null: the world
  // Ranks that share every sequence. heads() exchange heads, keys() gather keys. null: one rank.
  Group* heads() const { return heads_.get(); }
  Group* keys() const { return keys_.get(); }
  // Ranks that have different experts, and ranks that have the same ones, the shards of a replica next to each other.
  // null: all ranks have all experts.
  Group* experts() const { return experts_.get(); }
  Group* same_experts() const { return same_experts_.get(); }
  // Ranks that share every layer; null: one rank.
  Group* tensor() const { return tensor_.get(); }
  // Ranks that have different layers; their group has a stream of its own. null: one rank.
  Group* pipeline() const { return pipeline_.get(); }
  // On the first and the last rank of the pipeline: the group of these two. null: nothing is tied, or this is a rank
  // between them.
  Group* embedding() const { return embedding_.get(); }

 private:
  Group& world_;
  mesh::Coordinates place_;
  std::unique_ptr<Group> loss_, heads_, keys_, tensor_, experts_, same_experts_, pipeline_, embedding_;
};

}  // namespace hearth::comm
