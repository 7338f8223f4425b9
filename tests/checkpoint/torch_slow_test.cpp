// SPDX-License-Identifier: Apache-2.0
// PyTorch where it takes long: several processes, and more than 4 GiB in one tensor.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "checkpoint/verify.h"
#include "example.h"
#include "formats/item.h"

namespace hearth::checkpoint {
namespace {

constexpr const char* kShardedScript = R"(
import os, pathlib, sys, torch
import torch.distributed as dist, torch.multiprocessing as mp
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, Replicate, distribute_tensor

def run(rank, folder, raw, store):
    dist.init_process_group('gloo', init_method='file://' + store, rank=rank, world_size=4)
    mesh = init_device_mesh('cpu', (2, 2))
    torch.manual_seed(1)
    whole = {'rows': torch.randn(7, 3), 'columns': torch.randn(5, 9), 'both': torch.randn(6, 10), 'same': torch.randn(4)}
    placements = {'rows': [Shard(0), Shard(0)], 'columns': [Replicate(), Shard(1)], 'both': [Shard(0), Shard(1)],
                  'same': [Replicate(), Replicate()]}
    dcp.save({k: distribute_tensor(v, mesh, placements[k]) for k, v in whole.items()}, checkpoint_id=folder)
    if rank == 0:
        os.mkdir(raw)
        for k, v in whole.items():
            pathlib.Path(raw, k + '.bin').write_bytes(bytes(v.untyped_storage()))
    dist.barrier()
    dist.destroy_process_group()

if __name__ == '__main__':
    mp.spawn(run, sys.argv[1:4], nprocs=4)
)";

TEST(TorchSlow, ShardsOfDTensorsFromFourProcessesAreReadAsWholeTensors) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const Path folder = scratch / "saved";
  run_python(scratch, kShardedScript,
             folder.string() + " " + (scratch / "raw").string() + " " + (scratch / "store").string());
  Reader reader = Reader::open(folder);
  ASSERT_EQ(reader.tensors().size(), 4u);
  EXPECT_GT(list_folder(folder).size(), 3u);  // several ranks wrote
  for (const mesh::TensorInfo& info : reader.tensors()) {
    const std::string raw = read_file(scratch / "raw" / (info.name + ".bin"));
    std::string out(raw.size(), '?');
    reader.read(info.name, whole_box(info.shape), std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(out, raw) << info.name;
  }
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
}

// Zeros but for the ends: the file has holes, and takes no space on the disk.
TEST(TorchSlow, ATensorOfMoreThanFourGiBUsesZip64AndPyTorchReadsIt) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  constexpr int64_t kBytes = (int64_t{4} << 30) + 4096;
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<std::byte> bytes(static_cast<std::byte*>(memory), kBytes);
  bytes.front() = std::byte{1};
  bytes.back() = std::byte{2};
  formats::ZipWriter zip;
  formats::add_tensor(zip, DType::kUInt8, {kBytes}, bytes);
  const Path path = scratch / "big.pt";
  File file = File::create(path);
  int64_t at = 0;
  for (const std::span<const std::byte> part : zip.pieces()) {
    if (part.size() == static_cast<size_t>(kBytes)) {
      file.write_at(at, part.first(4096));
      file.write_at(at + kBytes - 4096, part.last(4096));
    } else {
      file.write_at(at, part);
    }
    at += static_cast<int64_t>(part.size());
  }
  ::munmap(memory, kBytes);
  formats::check_crc(file, 0, file.size_bytes(), "big.pt");
  const formats::TensorLayout layout = formats::read_tensor_layout(file, 0, file.size_bytes(), "big.pt");
  EXPECT_EQ(layout.sizes, std::vector<int64_t>{kBytes});
  run_python(scratch, R"(
import sys, torch, zipfile
assert zipfile.ZipFile(sys.argv[1]).testzip() is None
t = torch.load(sys.argv[1], weights_only=True, mmap=True)
assert t.shape == (2**32 + 4096,) and t[0] == 1 and t[-1] == 2 and t[2**31] == 0
)",
             path.string());
}

}  // namespace
}  // namespace hearth::checkpoint
