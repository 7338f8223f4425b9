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

// Without ep, which is not a factor of the number of ranks.
constexpr DegreeKey kDegreeKeys[] = {
    {"data_parallel_replicate_degree", &Degrees::dp_replicate},
    {"data_parallel_shard_degree", &Degrees::dp_shard},
    {"context_parallel_degree", &Degrees::cp},
    {"tensor_parallel_degree", &Degrees::tp},
    {"pipeline_parallel_degree", &Degrees::pp},
};

constexpr std::string_view kShardKey = "parallelism.data_parallel_shard_degree";

constexpr DegreeKey kExpertKey = {"expert_parallel_degree", &Degrees::ep};

// Throws for degrees below 1, except a dp_shard of -1.
void check_each_degree(const Degrees& given) {
  ErrorList errors;
  const auto check = [&](const DegreeKey& of) {
    const int64_t value = given.*of.degree;
    const bool is_shard = of.degree == &Degrees::dp_shard;
    if (value >= 1 || (is_shard && value == -1)) return;
    const std::string key = fmt::format("parallelism.{}", of.name);
    errors.attempt([&] {
      throw user_error(fmt::format("{} = {} is below 1", key, value), "a degree is the number of ranks along an axis",
                       is_shard ? "give at least 1, or -1 for the ranks that the other degrees leave"
                                : fmt::format("give at least 1: only {} may be -1", kShardKey))
          .about(key);
    });
  };
  for (const DegreeKey& of : kDegreeKeys) check(of);
  check(kExpertKey);
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
  if (const int64_t ranks = given.dp_shard * given.cp * given.tp; ranks % given.ep != 0) {
    throw user_error(fmt::format("parallelism.{} = {} does not divide {} ranks", kExpertKey.name, given.ep, ranks),
                     fmt::format("the experts of a copy of the model are shared by its data_parallel_shard_degree {} x "
                                 "context_parallel_degree {} x tensor_parallel_degree {} ranks",
                                 given.dp_shard, given.cp, given.tp),
                     "give a degree that divides them")
        .about(fmt::format("parallelism.{}", kExpertKey.name));
  }
  return given;
}

Mesh::Mesh(const Degrees& d)
    : Mesh({{Axis::kPp, d.pp},
            {Axis::kDpReplicate, d.dp_replicate},
            {Axis::kDpShard, d.dp_shard},
            {Axis::kCp, d.cp},
            {Axis::kTp, d.tp}}) {}

Mesh Mesh::of_experts(const Degrees& d) {
  return Mesh({{Axis::kPp, d.pp},
               {Axis::kDpReplicate, d.dp_replicate},
               {Axis::kExpertShard, d.expert_shards()},
               {Axis::kEp, d.ep}});
}

Mesh::Mesh(std::initializer_list<std::pair<Axis, int64_t>> axes) {
  degrees_.fill(1);
  strides_.fill(1);
  for (auto it = axes.end(); it != axes.begin();) {
    const auto& [axis, degree] = *--it;
    HEARTH_CHECK(degree >= 1, "degree {} of axis {}", degree, static_cast<int>(axis));
    degrees_[static_cast<size_t>(axis)] = degree;
    strides_[static_cast<size_t>(axis)] = size_;
    size_ *= degree;
  }
}

Coordinates Mesh::coordinates(int64_t rank) const {
  HEARTH_CHECK(0 <= rank && rank < size_, "rank {} of {}", rank, size_);
  return {coordinate(rank, Axis::kPp), coordinate(rank, Axis::kDpReplicate), coordinate(rank, Axis::kDpShard),
          coordinate(rank, Axis::kCp), coordinate(rank, Axis::kTp)};
}

int64_t Mesh::rank(const Coordinates& coordinates) const {
  const auto& [pp, dp_replicate, dp_shard, cp, tp] = coordinates;
  const std::array<int64_t, 5> indices = {pp, dp_replicate, dp_shard, cp, tp};  // in the order of Axis
  int64_t rank = 0;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
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
