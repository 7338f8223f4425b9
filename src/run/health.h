// SPDX-License-Identifier: Apache-2.0
// The history that a training's guard needs (train/guard.h), as a checkpoint stores it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::run {

// The name of this state in a checkpoint (checkpoint::Manifest::states). Stored on disk: never change.
inline constexpr const char* kHealthState = "health";

struct Health {
  std::vector<double> losses, grad_norms;  // of the last applied steps, the oldest first; only with spike detection
  int64_t skipped = 0;                     // all updates that were skipped
  int64_t skipped_in_a_row = 0;            // updates skipped since the last applied one
  int64_t rewinds = 0;
  bool operator==(const Health&) const = default;
};

// JSON and back. parse_health throws damaged(), which names `origin`, for a missing field or a wrong type.
std::string format_health(const Health& health);
Health parse_health(std::string_view json, const std::string& origin);

}  // namespace hearth::run
