// SPDX-License-Identifier: Apache-2.0
// What two builds were made from, side by side: options and files.
#pragma once

#include <string>
#include <string_view>

#include "data/shard/manifest.h"

namespace hearth::data {

// The words for two manifests: "here", "in part 2".
struct TwoNames {
  std::string_view first, second;
};

// The first differences, one after the other; empty where nothing that manifests name differs. Options have their names
// ("--eos: document there, none here"). Sources are listed by kind of difference, with the first files of each ("input:
// a.txt and 3 more only here"). Files at another place count only where the shards refer to them
// (BuildRules::in_place).
std::string differences(const DatasetManifest& first, const DatasetManifest& second, TwoNames names);

}  // namespace hearth::data
