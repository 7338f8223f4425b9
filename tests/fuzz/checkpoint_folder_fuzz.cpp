// SPDX-License-Identifier: Apache-2.0
// A whole checkpoint in which one file is the input: its first byte picks which, and whether hearth.json is there (with
// it, nothing passes the checksums; without, as PyTorch writes checkpoints, everything reaches the readers).
#include "checkpoint/example.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

using namespace checkpoint;

constexpr uint8_t kWithManifest = 128;

struct Good {
  Path folder = save_example(scratch(), example_tensors(), 1, 2);
  std::vector<std::string> names = list_folder(folder), contents;
  Good() {
    for (const std::string& name : names) contents.push_back(read_file(folder / name));
  }
};
const Good& good() {
  static const Good it;
  return it;
}

void read_all(const Path& folder) {
  Reader reader = Reader::open(folder);
  for (const mesh::TensorInfo& info : reader.tensors()) {
    if (numel_of(info.shape) > 10000) continue;
    std::vector<std::byte> out(static_cast<size_t>(numel_of(info.shape) * dtype_size(info.dtype)));
    accepted([&] { reader.read(info.name, whole_box(info.shape), out); });
  }
  for (const formats::StoredTensor& tensor : reader.metadata().tensors) {
    for (const formats::Item& item : tensor.items) accepted([&] { reader.check(tensor, item); });
  }
}

}  // namespace

void run(std::string_view input) {
  if (input.empty()) return;
  const auto choice = static_cast<uint8_t>(input[0]);
  const size_t changed = choice % kWithManifest % good().names.size();
  for (size_t i = 0; i < good().names.size(); ++i) {
    const std::string name = "changed/" + good().names[i];
    make_folders(scratch() / "changed");
    if (good().names[i] == kManifestFile && choice < kWithManifest)
      remove_file(scratch() / name);
    else
      write_scratch(name, i == changed ? input.substr(1) : good().contents[i]);
  }
  accepted([&] { read_all(scratch() / "changed"); });
}

std::vector<std::string> seeds() {
  std::vector<std::string> found;
  for (size_t i = 0; i < good().names.size(); ++i) {
    for (const size_t manifest : {size_t{0}, size_t{kWithManifest}})
      found.push_back(static_cast<char>(i + manifest) + good().contents[i]);
  }
  return found;
}

}  // namespace hearth::fuzz
