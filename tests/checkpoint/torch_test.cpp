// Both directions against PyTorch itself: it reads what we write, we read what it writes.
#include <gtest/gtest.h>

#include "example.h"

namespace hearth::checkpoint {
namespace {

// Loads the checkpoint argv[1] into a plain state dict of zeros and compares it with the raw bytes in argv[2].
constexpr const char* kLoadScript = R"(
import pathlib, sys, torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
folder, raw, scratch = sys.argv[1:4]
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

class TorchReads : public testing::TestWithParam<int> {};

TEST_P(TorchReads, IntoAPlainStateDictWithEqualTensors) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::vector<ExampleTensor> tensors = example_tensors();
  const Path folder = save_example(scratch, tensors, 100, GetParam());
  write_raw(scratch / "raw", tensors);
  run_python(scratch, kLoadScript, folder.string() + " " + (scratch / "raw").string() + " " + scratch.path().string());
}
INSTANTIATE_TEST_SUITE_P(Ranks, TorchReads, testing::Values(1, 4));

}  // namespace
}  // namespace hearth::checkpoint
