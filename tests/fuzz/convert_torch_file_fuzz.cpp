// SPDX-License-Identifier: Apache-2.0
// A state dict of torch.save, with references to other files: every tensor that is accepted lies in the file.
#include "checkpoint/example.h"
#include "formats/pickle.h"
#include "formats/torch_file.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const File file = File::open_read(write_scratch("x.pth", input));
  accepted([&] {
    for (const formats::TorchTensor& tensor : formats::read_torch_file(file, "fuzz").tensors) {
      const int64_t numel = checkpoint::numel_of(tensor.layout.sizes);
      if (numel > 10000)
        continue;  // strides of 0 make large tensors of few bytes; readers know the size that they want
      std::vector<std::byte> out(static_cast<size_t>(numel * dtype_size(tensor.layout.dtype)));
      const mesh::Box box = checkpoint::whole_box(tensor.layout.sizes);
      require(formats::copy_box(file, tensor.layout, box, box, out) == numel, "not every element was copied");
    }
  });
  accepted([&] { formats::read_torch_tensor(file, "fuzz"); });
}

// {"norm.weight": torch_xla's reference to tensor_7.pt}
std::string references() {
  formats::PickleWriter pickle;
  pickle.empty_dict();
  pickle.mark();
  pickle.string("norm.weight");
  pickle.global("torch_xla.utils.serialization", "TensorReference");
  pickle.empty_tuple();
  pickle.new_object();
  pickle.empty_dict();
  pickle.mark();
  pickle.string("tid");
  pickle.integer(7);
  pickle.set_items();
  pickle.build();
  pickle.set_items();
  formats::ZipFileWriter zip(scratch() / "references");
  zip.add("archive/data.pkl", pickle.finish());
  zip.finish();
  return read_file(scratch() / "references");
}

std::vector<std::string> seeds() {
  const std::vector<mesh::TensorInfo> infos = {{"norm.weight", DType::kBFloat16, {4}},
                                               {"layers.0.attention.wq.weight", DType::kFloat32, {3, 4}}};
  formats::TorchFileWriter writer(scratch() / "seed", infos);
  writer.write(std::vector<std::byte>(8));
  writer.write(std::vector<std::byte>(48));
  writer.finish();
  return {read_file(scratch() / "seed"), references()};
}

}  // namespace hearth::fuzz
