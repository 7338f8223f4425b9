#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "convert/open.h"
#include "formats/lfs_pointer.h"
#include "formats/safetensors.h"
#include "formats/torch_file.h"

namespace hearth::convert {

WeightFile read_weight_file(const Path& folder, const std::string& name, const std::string& key) {
  const std::string origin = (folder / name).string();
  const File file = File::open_read(folder / name);
  WeightFile result;
  const auto add = [&](const mesh::TensorInfo& info, formats::TensorLayout layout) {
    const mesh::Box whole{std::vector<int64_t>(info.shape.size()), info.shape};
    result.tensors.push_back({info, {{whole, name, std::move(layout)}}});
  };
  formats::refuse_lfs_pointer(file, origin);
  result.is_zip = formats::is_zip(file);
  if (result.is_zip) {
    formats::TorchFile found = formats::read_torch_file(file, origin, key);
    for (formats::TorchTensor& tensor : found.tensors)
      add({tensor.name, tensor.layout.dtype, tensor.layout.sizes}, tensor.layout);
    result.others = std::move(found.others);
    return result;
  }
  if (!name.ends_with(".safetensors"))
    throw damaged(fmt::format("{}: not a torch.save file that can be read", origin),
                  "it is no zip file: it is damaged, or PyTorch before 1.6 wrote it",
                  "load it with torch.load(..., weights_only=True) and save it again");
  formats::SafetensorsFile found = formats::read_safetensors(file, origin);
  for (const formats::SafetensorsTensor& tensor : found.tensors) {
    std::vector<int64_t> strides(tensor.info.shape.size());
    int64_t stride = 1;
    for (size_t d = strides.size(); d-- > 0; stride *= std::max<int64_t>(tensor.info.shape[d], 1)) strides[d] = stride;
    add(tensor.info, {tensor.info.dtype, tensor.info.shape, std::move(strides), tensor.offset});
  }
  result.others = std::move(found.others);
  return result;
}

}  // namespace hearth::convert
