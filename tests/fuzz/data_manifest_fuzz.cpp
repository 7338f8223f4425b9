// SPDX-License-Identifier: Apache-2.0
// A dataset's manifest.json, as it is and with its checksum made right.
#include "base/hash.h"
#include "data/corpus_folder.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

constexpr std::string_view kChecksum = ",\n  \"checksum\": \"";

std::string signed_again(std::string text) {
  const size_t end = text.rfind(kChecksum);
  if (end == std::string::npos || text.size() < end + kChecksum.size() + 16) return text;
  return text.replace(end + kChecksum.size(), 16, to_hex64(xxh3_64(text.substr(0, end))));
}

void parse(const std::string& text) {
  accepted([&] {
    const std::string again = manifest_text(data::parse_manifest(text, "fuzz"));
    require(manifest_text(data::parse_manifest(again, "fuzz")) == again, "not the same after a round trip");
  });
}

}  // namespace

void run(std::string_view input) {
  parse(std::string(input));
  parse(signed_again(std::string(input)));
}

std::vector<std::string> seeds() {
  data::write_corpus(scratch() / "text", 5);
  data::BuildRules rules;
  rules.validation = 0.3;
  rules.shard_tokens = 500;
  const data::DatasetManifest built = data::build(scratch() / "data", {scratch() / "text"}, rules).manifest;
  data::DatasetManifest joined = built;
  joined.merged.resize(2, {built.identity, built.build, 2, rules});
  joined.splits[0].shards.back().first_source = 2;
  joined.splits[0].shards.back().tokens_in = 3;
  joined.sources[3].size_bytes = 1 << 20;
  data::DatasetManifest weighted = built;
  weighted.splits[0].shards.front().weights = data::WeightTotals{false, 3, 1.5};
  weighted.rules.read.loss_keys = {"text"};
  weighted.rules.read.weights_key = "w";
  weighted.sources[0].label_file = "/labels.bin";
  return {manifest_text(data::DatasetManifest{}), manifest_text(built), manifest_text(joined), manifest_text(weighted)};
}

}  // namespace hearth::fuzz
