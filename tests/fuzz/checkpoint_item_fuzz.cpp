// SPDX-License-Identifier: Apache-2.0
// One stored tensor: the zip directory, the pickle in it, and copying out of it.
#include "checkpoint/example.h"
#include "formats/item.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("item", input);
  const File file = File::open_read(path);
  accepted([&] { formats::check_crc(file, 0, file.size_bytes(), "fuzz"); });
  accepted([&] {
    const formats::TensorLayout layout = formats::read_tensor_layout(file, 0, file.size_bytes(), "fuzz");
    const int64_t numel = checkpoint::numel_of(layout.sizes);
    if (numel > 10000) return;  // strides of 0 make large tensors of few bytes; readers know the size that they want
    std::vector<std::byte> out(static_cast<size_t>(numel * dtype_size(layout.dtype)));
    const mesh::Box box = checkpoint::whole_box(layout.sizes);
    require(formats::copy_box(file, layout, box, box, out) == numel, "not every element was copied");
  });
}

std::vector<std::string> seeds() {
  using namespace checkpoint;
  std::vector<std::string> found;
  int64_t step = 1;
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{6, 5}, {3, 2, 2}, {}}) {
    const Path folder = save_example(scratch(), {example_tensor("w", DType::kFloat32, shape)}, step++, 1);
    found.push_back(read_file(folder / "__R_0.distcp"));
  }
  return found;
}

}  // namespace hearth::fuzz
