// SPDX-License-Identifier: Apache-2.0
// Both directions against PyTorch itself: it reads what we write, we read what it writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sstream>

#include "base/error.h"
#include "checkpoint/verify.h"
#include "example.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

// Loads the checkpoint argv[1] into a plain state dict of zeros and compares it with the raw bytes in argv[2].
constexpr const char* kLoadScript = R"(
import pathlib, sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
for folder, raw, scratch in zip(*[iter(sys.argv[1:])] * 3):
    metadata = dcp.FileSystemReader(folder).read_metadata()
    state = {k: torch.zeros(v.size, dtype=v.properties.dtype) for k, v in metadata.state_dict_metadata.items()}
    dcp.load(state, checkpoint_id=folder)

    def same(name, tensor):
        data = bytearray(pathlib.Path(raw, name + '.bin').read_bytes())
        return torch.equal(torch.frombuffer(data, dtype=tensor.dtype).reshape(tensor.shape), tensor)

    assert {p.name[:-4] for p in pathlib.Path(raw).iterdir()} == set(state), sorted(state)
    for name, tensor in state.items():
        assert same(name, tensor), name
        assert metadata.planner_data[name] == (('optimizer', name[10:]) if name.startswith('optimizer.') else (name,))

    # Nested as torchtitan nests it, and through PyTorch's own converter.
    nested = {'optimizer': {'state.norm.weight.exp_avg': torch.zeros(11)}}
    dcp.load(nested, checkpoint_id=folder)
    assert same('optimizer.state.norm.weight.exp_avg', nested['optimizer']['state.norm.weight.exp_avg'])
    dcp_to_torch_save(folder, scratch + '/all.pth')
    whole = torch.load(scratch + '/all.pth', weights_only=True)
    assert same('cube', whole['cube']) and same('optimizer.state.norm.weight.step', whole['optimizer']['state.norm.weight.step'])

    # One item alone is a torch.save file.
    index, info = next((i, s) for i, s in metadata.storage_data.items() if i.fqn == 'norm.weight')
    with open(folder + '/' + info.relative_path, 'rb') as f:
        f.seek(info.offset)
        item = f.read(info.length)
    open(scratch + '/item.pt', 'wb').write(item)
    tensor = torch.load(scratch + '/item.pt', weights_only=True)
    assert tensor.dtype == torch.bfloat16 and tensor.dim() == 1
    print(len(state), len(metadata.storage_data))
)";

TEST(TorchReads, WhatOneAndFourRanksSavedIntoAPlainStateDictWithEqualTensors) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch, one, four;
  const std::vector<ExampleTensor> tensors = example_tensors();
  write_raw(scratch / "raw", tensors);
  std::string arguments;  // one start of Python for both
  for (const auto& [folder, ranks] : {std::pair(&one, 1), std::pair(&four, 4)})
    arguments += fmt::format("{} {} {} ", save_example(*folder, tensors, 100, ranks).string(),
                             (scratch / "raw").string(), folder->path().string());
  run_python(scratch, kLoadScript, arguments);
}

// What torch.distributed.checkpoint.save makes of a state dict like torchtitan's, and of tensors of every kind; the raw
// bytes go to argv[2]/NAME.bin.
constexpr const char* kSaveScript = R"(
import pathlib, sys, torch
import torch.distributed.checkpoint as dcp
folder, raw = sys.argv[1:3]
torch.manual_seed(1)
tensors = {
    'model.tok_embeddings.weight': torch.randn(7, 5),
    'model.norm.weight': torch.nn.Parameter(torch.randn(5)),
    'transposed': torch.randn(4, 6).t(),
    'view': torch.randn(10, 10)[2:5, 1:9:3],
    'expanded': torch.randn(3, 1).expand(3, 4),
    'permuted': torch.randn(2, 3, 4).permute(2, 0, 1),
    'empty': torch.zeros(0, 3),
    'scalar': torch.tensor(2.5),
    'float64': torch.randn(3, dtype=torch.float64),
    'bfloat16': torch.randn(3, 3).bfloat16(),
    'float16': torch.randn(3).half(),
    'int64': torch.tensor([-1, 2**40]),
    'int32': torch.arange(5, dtype=torch.int32),
    'int16': torch.arange(5, dtype=torch.int16),
    'int8': torch.tensor([-128, 127], dtype=torch.int8),
    'uint8': torch.tensor([0, 255], dtype=torch.uint8),
    'bool': torch.tensor([True, False, True]),
}
state = {'model': {k[6:]: v for k, v in tensors.items() if k.startswith('model.')},
         **{k: v for k, v in tensors.items() if not k.startswith('model.')},
         'float8': torch.ones(4).to(torch.float8_e4m3fn),
         'complex': torch.ones(2, dtype=torch.complex64),
         'train_state': {'step': torch.tensor(3, dtype=torch.int32), 'names': ['a', {'b': 1.5}], 'none': None},
         'dataloader': {'rank_0': b'bytes' * 10}}
dcp.save(state, checkpoint_id=folder)
tensors['train_state.step'] = state['train_state']['step']
pathlib.Path(raw).mkdir()
for name, tensor in tensors.items():
    pathlib.Path(raw, name + '.bin').write_bytes(bytes(tensor.detach().contiguous().untyped_storage()) if tensor.numel() else b'')
    print(name, str(tensor.dtype)[6:], *tensor.shape)
)";

TEST(TorchWrites, WhatWeReadWithEqualTensorsOfEveryTypeAndStride) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const Path folder = scratch / "saved";
  std::istringstream lines(run_python(scratch, kSaveScript, folder.string() + " " + (scratch / "raw").string()));
  Reader reader = Reader::open(folder);
  EXPECT_FALSE(reader.has_manifest());
  size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    std::istringstream words(line);
    std::string name, dtype;
    words >> name >> dtype;
    std::vector<int64_t> shape;
    for (int64_t n; words >> n;) shape.push_back(n);
    const mesh::TensorInfo* info = reader.find(name);
    ASSERT_NE(info, nullptr) << name;
    EXPECT_EQ(dtype_name(info->dtype), dtype) << name;
    EXPECT_EQ(info->shape, shape) << name;
    const std::string raw = read_file(scratch / "raw" / (name + ".bin"));
    std::string out(raw.size(), '?');
    reader.read(name, whole_box(shape), std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(out, raw) << name;
  }
  EXPECT_EQ(count, 18u);
  EXPECT_EQ(reader.tensors().size(), count);
  // A weight is found without the prefix under which older torchtitan saved it.
  EXPECT_EQ(reader.require("tok_embeddings.weight", DType::kFloat32, {7, 5}).name, "model.tok_embeddings.weight");
  // What we cannot read is listed, and asking for it says what it is.
  std::map<std::string, std::string> others;
  for (const formats::OtherEntry& other : reader.metadata().others) others[other.name] = other.what;
  EXPECT_EQ(others.at("float8"), "tensor of torch.float8_e4m3fn");
  EXPECT_EQ(others.at("complex"), "tensor of torch.complex64");
  EXPECT_EQ(others.at("dataloader.rank_0"), "bytes");
  try {
    reader.require("float8", DType::kFloat32, {4});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.why(), HasSubstr("found tensor of torch.float8_e4m3fn")) << e.what();
  }
  const Verification found = verify_checkpoint(folder);
  EXPECT_TRUE(found.problems.empty()) << found.problems[0];
  EXPECT_FALSE(found.has_manifest);
}

}  // namespace
}  // namespace hearth::checkpoint
