// SPDX-License-Identifier: Apache-2.0
// hearth.json, as it is and with its checksum made right, so that the reader behind the checksum is reached.
#include "checkpoint/example.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

void parse(const std::string& text) {
  accepted([&] {
    const std::string again = format_manifest(checkpoint::parse_manifest(text, "fuzz"));
    require(format_manifest(checkpoint::parse_manifest(again, "fuzz")) == again, "not the same after a round trip");
  });
}

}  // namespace

void run(std::string_view input) {
  const std::string text(input);
  parse(text);
  const size_t checksum = text.find("\"checksum\": \"");
  if (checksum != std::string::npos && checksum + 13 + 16 <= text.size()) parse(checkpoint::signed_again(text));
}

std::vector<std::string> seeds() {
  using namespace checkpoint;
  std::vector<std::string> found;
  for (const int64_t ranks : {1, 2})
    found.push_back(read_file(save_example(scratch(), example_tensors(), ranks, ranks) / kManifestFile));
  found.push_back(format_manifest(example_manifest(3, 1)));
  return found;
}

}  // namespace hearth::fuzz
