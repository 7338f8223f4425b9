// SPDX-License-Identifier: Apache-2.0
// .metadata: what parse_metadata lets through is safe to compute with.
#include "checkpoint/example.h"
#include "formats/dcp.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  accepted([&] {
    const formats::Metadata metadata = formats::parse_metadata(std::as_bytes(std::span(input)), "fuzz");
    for (const formats::StoredTensor& tensor : metadata.tensors) {
      for (const formats::Item& item : tensor.items) {
        require(item.box.numel() >= 0, "a box with a negative size");
        require(item.box.sizes.size() == tensor.info.shape.size(), "a box of other dimensions than its tensor");
        require(item.file.find('/') == std::string::npos, "an item outside of the folder");
      }
      accepted([&] { formats::check_coverage(tensor, checkpoint::whole_box(tensor.info.shape), "fuzz"); });
    }
    formats::format_metadata(metadata);
  });
}

std::vector<std::string> seeds() {
  using namespace checkpoint;
  std::vector<std::string> found;
  for (const int64_t ranks : {1, 3})
    found.push_back(read_file(save_example(scratch(), example_tensors(), ranks, ranks) / kMetadataFile));
  found.push_back(
      read_file(save_example(scratch(), {example_tensor("w", DType::kFloat32, {6, 5})}, 9, 1) / kMetadataFile));
  return found;
}

}  // namespace hearth::fuzz
