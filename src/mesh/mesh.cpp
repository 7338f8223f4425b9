// SPDX-License-Identifier: Apache-2.0
#include "mesh/mesh.h"

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/error_list.h"

namespace hearth::mesh {
namespace {

struct DegreeKey {
  std::string_view name;  // in [parallelism] of torchtitan's run files
  int64_t Degrees::*degree;
};

constexpr DegreeKey kDegreeKeys[] = {
    {"data_parallel_replicate_degree", &Degrees::dp_replicate},
    {"data_parallel_shard_degree", &Degrees::dp_shard},
    {"context_parallel_degree", &Degrees::cp},
    {"tensor_parallel_degree", &Degrees::tp},
    {"pipeline_parallel_degree", &Degrees::pp},
};

constexpr std::string_view kShardKey = "parallelism.data_parallel_shard_degree";

// Throws for degrees below 1, except a dp_shard of -1.
void check_each_degree(const Degrees& given) {
  ErrorList errors;
  for (const auto& [name, degree] : kDegreeKeys) {
    const int64_t value = given.*degree;
    const bool is_shard = degree == &Degrees::dp_shard;
    if (value >= 1 || (is_shard && value == -1)) continue;
    const std::string key = fmt::format("parallelism.{}", name);
    errors.attempt([&] {
      throw user_error(fmt::format("{} = {} is below 1", key, value), "a degree is the number of ranks along an axis",
                       is_shard ? "give at least 1, or -1 for the ranks that the other degrees leave"
                                : fmt::format("give at least 1: only {} may be -1", kShardKey))
          .about(key);
    });
  }
  errors.throw_if_any("[parallelism]");
}

// The ranks that the other degrees leave to dp_shard: 0 where they do not divide `world`. Divides one degree after
// another, because the product of a user's degrees may be too large for an integer.
int64_t ranks_left_to_shard(const Degrees& given, int64_t world) {
  int64_t left = world;
  for (const int64_t degree : {given.dp_replicate, given.cp, given.tp, given.pp}) {
    if (left % degree != 0) return 0;
    left /= degree;
  }
  return left;
}

// "data_parallel_shard_degree 2 x pipeline_parallel_degree 4". A dp_shard of -1, and other degrees of 1, are left out.
std::string product_text(const Degrees& given) {
  std::string text;
  for (const auto& [name, degree] : kDegreeKeys) {
    if (given.*degree == -1 || (given.*degree == 1 && degree != &Degrees::dp_shard)) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name, given.*degree);
  }
  return text;
}

}  // namespace

int64_t Degrees::size() const { return dp_replicate * dp_shard * cp * tp * pp; }

Degrees resolve(Degrees given, int64_t world) {
  HEARTH_CHECK(world >= 1, "{} ranks", world);
  check_each_degree(given);
  const int64_t left = ranks_left_to_shard(given, world);
  if (given.dp_shard == -1) {
    if (left == 0) {
      throw user_error(fmt::format("{} = -1 cannot be the rest of the number of ranks, {}", kShardKey, world),
                       fmt::format("{} does not divide {}", product_text(given), world),
                       fmt::format("give degrees whose product divides {}, or another number of ranks", world))
          .about(std::string(kShardKey));
    }
    given.dp_shard = left;
  }
  if (given.dp_shard != left) {
    throw user_error(fmt::format("the degrees of parallelism do not multiply to the number of ranks, {}", world),
                     fmt::format("{} is not {}", product_text(given), world),
                     left > 0 ? fmt::format("give {} = {}, or another number of ranks", kShardKey, left)
                              : fmt::format("give degrees whose product is {}, or another number of ranks", world))
        .about(std::string(kShardKey));
  }
  return given;
}

Mesh::Mesh(const Degrees& degrees)
    : degrees_{degrees.pp, degrees.dp_replicate, degrees.dp_shard, degrees.cp, degrees.tp} {
  for (size_t axis = kNumAxes; axis-- > 0;) {
    HEARTH_CHECK(degrees_[axis] >= 1, "degree {} of axis {}", degrees_[axis], axis);
    strides_[axis] = size_;
    size_ *= degrees_[axis];
  }
}

Coordinates Mesh::coordinates(int64_t rank) const {
  HEARTH_CHECK(0 <= rank && rank < size_, "rank {} of {}", rank, size_);
  return {coordinate(rank, 0), coordinate(rank, 1), coordinate(rank, 2), coordinate(rank, 3), coordinate(rank, 4)};
}

int64_t Mesh::rank(const Coordinates& coordinates) const {
  const auto& [pp, dp_replicate, dp_shard, cp, tp] = coordinates;
  const std::array<int64_t, kNumAxes> indices = {pp, dp_replicate, dp_shard, cp, tp};
  int64_t rank = 0;
  for (size_t axis = 0; axis < kNumAxes; ++axis) {
    HEARTH_CHECK(0 <= indices[axis] && indices[axis] < degrees_[axis], "coordinate {} of axis {} with degree {}",
                 indices[axis], axis, degrees_[axis]);
    rank += indices[axis] * strides_[axis];
  }
  return rank;
}

int64_t Mesh::group_size(const Axes& axes) const {
  int64_t size = 1;
  for (size_t axis = 0; axis < kNumAxes; ++axis) {
    if (axes.has(Axis(axis))) size *= degrees_[axis];
  }
  return size;
}

std::vector<int64_t> Mesh::group(int64_t rank, const Axes& axes) const {
  HEARTH_CHECK(0 <= rank && rank < size_, "rank {} of {}", rank, size_);
  int64_t first = rank;
  for (size_t axis = 0; axis < kNumAxes; ++axis) {
    if (axes.has(Axis(axis))) first -= coordinate(rank, axis) * strides_[axis];
  }
  std::vector<int64_t> ranks = {first}, longer;
  for (size_t axis = 0; axis < kNumAxes; ++axis) {
    if (!axes.has(Axis(axis))) continue;
    // Slower axes are in `ranks` already, so each of its ranks is followed by those that differ in this axis.
    longer.clear();
    for (const int64_t start : ranks) {
      for (int64_t i = 0; i < degrees_[axis]; ++i) longer.push_back(start + i * strides_[axis]);
    }
    ranks.swap(longer);
  }
  return ranks;
}

int64_t Mesh::rank_in_group(int64_t rank, const Axes& axes) const {
  HEARTH_CHECK(0 <= rank && rank < size_, "rank {} of {}", rank, size_);
  int64_t index = 0;
  for (size_t axis = 0; axis < kNumAxes; ++axis) {
    if (axes.has(Axis(axis))) index = index * degrees_[axis] + coordinate(rank, axis);
  }
  return index;
}

std::vector<std::vector<int64_t>> Mesh::groups(const Axes& axes) const {
  std::vector<std::vector<int64_t>> all;
  for (int64_t rank = 0; rank < size_; ++rank) {
    if (rank_in_group(rank, axes) == 0) all.push_back(group(rank, axes));
  }
  return all;
}

bool Mesh::crosses_nodes(const Axes& axes, int64_t ranks_per_node) const {
  HEARTH_CHECK(ranks_per_node >= 1, "{} ranks a node", ranks_per_node);
  for (const std::vector<int64_t>& group : groups(axes)) {
    // Ranks ascend, so a group is on one node if its first and its last rank are.
    if (group.front() / ranks_per_node != group.back() / ranks_per_node) return true;
  }
  return false;
}

}  // namespace hearth::mesh
