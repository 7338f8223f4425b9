// The guard's memory (train/guard.h) as stored in a checkpoint.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::run {

// The name of this state in a checkpoint (checkpoint::Manifest::states). Stored on disk: never change.
inline constexpr const char* kHealthState = "health";

struct Health {
  std::vector<double> losses, grad_norms;  // of the last applied steps, the oldest first; only where spikes are watched
  int64_t skipped = 0;                     // updates left out, in all
  int64_t skipped_in_a_row = 0;            // and since the last that was applied
  int64_t rewinds = 0;
  bool operator==(const Health&) const = default;
};

// JSON and back. parse_health throws damaged() naming `origin` where something is missing or of another type.
std::string format_health(const Health& health);
Health parse_health(std::string_view json, const std::string& origin);

}  // namespace hearth::run
