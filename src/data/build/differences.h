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

// The first differences, one after the other. Empty if the manifests show no difference. An option is listed by its
// name ("--eos: document there, none here"). Sources are grouped by kind of difference, with the first files of a group
// ("input: a.txt and 3 more only here"). A file's place counts only if the shards refer to the file
// (BuildRules::in_place).
std::string differences(const DatasetManifest& first, const DatasetManifest& second, TwoNames names);

}  // namespace hearth::data
