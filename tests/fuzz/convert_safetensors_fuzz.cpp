// SPDX-License-Identifier: Apache-2.0
// The header of safetensors: every range that is accepted can be read, and has the size of its tensor.
#include "formats/safetensors.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const File file = File::open_read(write_scratch("x.safetensors", input));
  accepted([&] { formats::parse_safetensors_index(input, "fuzz"); });
  accepted([&] {
    int64_t end = 0;
    for (const formats::SafetensorsTensor& tensor : formats::read_safetensors(file, "fuzz").tensors) {
      require(tensor.length == mesh::Box{{}, tensor.info.shape}.numel() * dtype_size(tensor.info.dtype),
              "a wrong size");
      require(tensor.length == 0 || tensor.offset >= end, "two tensors share bytes");
      end = std::max(end, tensor.offset + tensor.length);
      std::vector<std::byte> bytes(static_cast<size_t>(tensor.length));
      file.read_at(tensor.offset, bytes);
    }
  });
}

std::vector<std::string> seeds() {
  const std::vector<mesh::TensorInfo> infos = {
      {"model.embed_tokens.weight", DType::kBFloat16, {3, 4}}, {"b", DType::kFloat32, {}}, {"c", DType::kInt8, {0, 2}}};
  formats::SafetensorsWriter writer(scratch() / "seed", infos);
  writer.write(std::vector<std::byte>(28));
  writer.finish();
  return {read_file(scratch() / "seed"), formats::format_safetensors_index({{"a", "x"}, {"b", "y"}}, 28)};
}

}  // namespace hearth::fuzz
