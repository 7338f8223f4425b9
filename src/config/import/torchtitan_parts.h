// SPDX-License-Identifier: Apache-2.0
// Parts that torchtitan's TOML files of 2024 and 2025 and its JSON files of 2026 have in common.
#pragma once

#include <string_view>

#include "config/import/dialects.h"

namespace hearth::config {

// A degree of [parallelism], or of the sections that older files have. `rest`: -1 means all ranks that are left.
ForeignDegree torchtitan_degree(Draft& draft, std::string_view key, bool rest = false);
ForeignLayout torchtitan_layout(Draft& draft);
// Sets the layout, with the sharding of parallelism.fsdp_reshard_after_forward. `layout` is resolved.
void set_torchtitan_layout(Draft& draft, ForeignLayout& layout, int64_t local_batch_size, const ForeignKey* from);
void import_torchtitan_metrics(Draft& draft);
// `section`: the section's name in the file. Keys that would have no effect are left out.
void import_torchtitan_profiling(Draft& draft, std::string_view section);
void import_torchtitan_pipeline(Draft& draft);
// Refuses lr_scheduler.total_steps, which differs from the training's steps.
void refuse_torchtitan_total(Draft& draft);
// Refuses training.max_norm = 0, which is no clipping in Hearth alone.
void refuse_torchtitan_no_norm(Draft& draft);
// When a file was written, as found from its keys. The program's defaults and formulas changed since.
enum class TorchtitanAge {
  k2024,        // until March 2025: torchtitan_2024
  kSpring2025,  // until June 2025: torchtitan_2025
  kNow
};
void import_torchtitan_checkpoint(Draft& draft, TorchtitanAge age);

}  // namespace hearth::config
