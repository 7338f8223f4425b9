// SPDX-License-Identifier: Apache-2.0
// The ranks of a training along the axes of a mesh: which ranks shard weights, add gradients or count a loss together.
//
// This is arithmetic without communication. All calls are Local, and a plan can make them without a training.
//
// The ranks stand in a row-major array [pp, dp_replicate, dp_shard, cp, tp], as in torchtitan. tp communicates most and
// varies fastest: the ranks of a tp group are neighbours and mostly share a node. pp communicates least and varies
// slowest.
//
// The experts of a model have a mesh of their own over the same ranks, [pp, dp_replicate, expert_shard, ep]: a
// replica's dp_shard x cp x tp ranks, cut otherwise (torchtitan's sparse mesh, Megatron's folding, arXiv 2504.14960).
// Ranks of an ep group have different experts. Ranks with the same place on ep have the same experts, and shard them.
// Only an ep above 1 makes this mesh.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace hearth::mesh {

// The number of ranks along each axis. torchtitan's keys are in resolve().
struct Degrees {
  int64_t dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1, pp = 1;
  int64_t ep = 1;  // ranks with different experts; divides dp_shard * cp * tp
  bool operator==(const Degrees&) const = default;
  // The number of ranks: the product without ep.
  int64_t size() const;
  // The ranks of a replica that have the same experts, if ep is above 1. Otherwise experts are as all other weights.
  int64_t expert_shards() const { return dp_shard * cp * tp / ep; }
};

// Degrees whose product is `world`, the number of ranks (at least 1). A dp_shard of -1 becomes the ranks that the other
// degrees leave. Throws user errors that name torchtitan's keys (parallelism.tensor_parallel_degree):
//   - a degree below 1; all such degrees are reported at once
//   - degrees that do not multiply to `world`
//   - a dp_shard of -1 where the other degrees do not divide `world`
//   - an ep that does not divide dp_shard * cp * tp
Degrees resolve(Degrees given, int64_t world);

// Slowest first. A mesh has some of them.
enum class Axis { kPp, kDpReplicate, kDpShard, kCp, kTp, kExpertShard, kEp };
inline constexpr size_t kNumAxes = 7;

// A set of axes. The order in which they are written has no meaning.
class Axes {
 public:
  constexpr Axes(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) has_[static_cast<size_t>(axis)] = true;
  }
  constexpr bool has(Axis axis) const { return has_[static_cast<size_t>(axis)]; }
  bool operator==(const Axes&) const = default;

 private:
  std::array<bool, kNumAxes> has_ = {};
};

// dp: ranks with different places on these axes read different sequences. The place is the rank in the order of the
// data.
inline constexpr Axes kDataAxes = {Axis::kDpReplicate, Axis::kDpShard};
// Each weight is cut into shards over these ranks. Gradients are reduced over them first, each rank to its own shard.
inline constexpr Axes kShardAxes = {Axis::kDpShard, Axis::kCp};
// These ranks hold the same shard. Its gradient is reduced over them afterwards, so only shards cross this axis.
inline constexpr Axes kReplicaAxes = {Axis::kDpReplicate};
// dp x cp: losses and counts of tokens are added over these ranks. With pp, that happens on the last stage.
inline constexpr Axes kLossAxes = {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp};

// A rank's index along each axis of the mesh of all weights, from 0.
struct Coordinates {
  int64_t pp = 0, dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0;
  bool operator==(const Coordinates&) const = default;
};

// A rank's group along a set of axes holds the rank itself and all ranks with the same coordinates on the other axes.
// Its ranks ascend, as in a DeviceMesh that PyTorch flattens. With an empty set of axes, each rank is a group.
class Mesh {
 public:
  // [pp, dp_replicate, dp_shard, cp, tp]. Each degree is at least 1; resolve() checks a user's.
  explicit Mesh(const Degrees& degrees);
  // [pp, dp_replicate, expert_shard, ep]
  static Mesh of_experts(const Degrees& degrees);

  int64_t size() const { return size_; }
  // Only in a mesh of all weights.
  Coordinates coordinates(int64_t rank) const;
  int64_t rank(const Coordinates& coordinates) const;

  // The number of ranks in each group along `axes`.
  int64_t group_size(const Axes& axes) const;
  // The group of `rank`.
  std::vector<int64_t> group(int64_t rank, const Axes& axes) const;
  // The index of `rank` in group(rank, axes): comm::Group's rank() there.
  int64_t rank_in_group(int64_t rank, const Axes& axes) const;
  // Every group, in the order of their first ranks. Each rank is in exactly one of them.
  std::vector<std::vector<int64_t>> groups(const Axes& axes) const;

  // Whether a group has ranks on two nodes, where each node holds `ranks_per_node` consecutive ranks (at least 1). The
  // last node may hold fewer.
  bool crosses_nodes(const Axes& axes, int64_t ranks_per_node) const;

 private:
  // Axes with their degrees, slowest first. The mesh has no other axes: their degree is 1.
  explicit Mesh(std::initializer_list<std::pair<Axis, int64_t>> axes);
  int64_t coordinate(int64_t rank, Axis axis) const { return coordinate(rank, static_cast<size_t>(axis)); }
  int64_t coordinate(int64_t rank, size_t axis) const { return rank / strides_[axis] % degrees_[axis]; }

  std::array<int64_t, kNumAxes> degrees_, strides_;  // by Axis; a stride is the distance of neighbours along the axis
  int64_t size_ = 1;
};

}  // namespace hearth::mesh
