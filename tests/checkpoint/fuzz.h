// Random damage, the same every time: what comes out may be anything but a crash, a hang or a large allocation.
#pragma once

#include <gtest/gtest.h>

#include <sys/resource.h>

#include "base/error.h"
#include "checkpoint/dcp.h"
#include "checkpoint/item.h"
#include "example.h"

namespace hearth::checkpoint {

// A copy of `good` with one to eight edits: a byte set, a bit flipped, an extreme number written, a piece removed,
// repeated or moved.
inline std::string mutate(const std::string& good, uint64_t seed) {
  const RandomKey key = random_key(seed, "fuzz");
  uint64_t draws = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(random_u64(key, draws++) % std::max<size_t>(n, 1)); };
  std::string bytes = good;
  const size_t edits = 1 + below(8);
  for (size_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    const size_t at = below(bytes.size()), length = std::min(1 + below(24), bytes.size() - at);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2: {
        const uint64_t extremes[] = {0, ~uint64_t{0}, uint64_t{1} << 63, 0x7fffffffffffffff, 0xffffffff, 0x80000000};
        const uint64_t value = extremes[below(6)];
        for (size_t i = 0; i < std::min<size_t>(length, 8); ++i)
          bytes[at + i] = static_cast<char>(value >> (8 * i) & 0xff);
        break;
      }
      case 3:
        bytes.erase(at, length);
        break;
      case 4:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      default: {
        const std::string piece = bytes.substr(at, length);
        const size_t to = below(bytes.size() - length + 1);
        std::copy(piece.begin(), piece.end(), bytes.begin() + static_cast<ptrdiff_t>(to));
      }
    }
  }
  return bytes;
}

// True if it was accepted; anything thrown must be an Error about damage or the user's file.
template <typename Body>
bool accepted(Body body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == ExitCode::kDamaged || e.code() == ExitCode::kUser) << e.what();
    return false;
  }
}

// Of this process; nothing under the address sanitizer, which keeps freed memory to find its use.
inline int64_t peak_memory_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return 0;
#endif
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Parses mutations `first` to `last` of a real .metadata.
inline void fuzz_metadata(uint64_t first, uint64_t last) {
  const test::ScratchFolder scratch;
  const std::string good = read_file(save_example(scratch, example_tensors(), 1, 3) / kMetadataFile);
  int64_t good_ones = 0;
  for (uint64_t seed = first; seed < last; ++seed) {
    const std::string bytes = mutate(good, seed);
    good_ones += accepted([&] {
      const Metadata metadata = parse_metadata(std::as_bytes(std::span(bytes)), "fuzz");
      // What parse_metadata lets through must be safe to compute with.
      for (const StoredTensor& tensor : metadata.tensors) {
        for (const Item& item : tensor.items) {
          ASSERT_GE(item.box.numel(), 0);
          ASSERT_EQ(item.box.sizes.size(), tensor.info.shape.size());
          ASSERT_EQ(item.file.find('/'), std::string::npos);
        }
        accepted([&] { check_coverage(tensor, whole_box(tensor.info.shape), "fuzz"); });
      }
    });
  }
  EXPECT_LT(good_ones, static_cast<int64_t>(last - first));
  EXPECT_LT(peak_memory_bytes(), int64_t{300} << 20);
}

// Reads mutations of one stored tensor.
inline void fuzz_item(uint64_t first, uint64_t last) {
  const test::ScratchFolder scratch;
  const ExampleTensor tensor = example_tensor("w", DType::kFloat32, {6, 5});
  const std::string good = read_file(save_example(scratch, {tensor}, 1, 1) / "__R_0.distcp");
  const Path path = scratch / "item";
  for (uint64_t seed = first; seed < last; ++seed) {
    const std::string bytes = mutate(good, seed);
    File file = File::create(path);
    file.write(bytes);
    accepted([&] {
      const TensorLayout layout = read_tensor_layout(file, 0, file.size_bytes(), "fuzz");
      accepted([&] { check_crc(file, 0, file.size_bytes(), "fuzz"); });
      if (layout.sizes != tensor.info.shape || layout.dtype != tensor.info.dtype) return;
      std::vector<std::byte> out(tensor.bytes.size());
      ASSERT_EQ(copy_box(file, layout, whole_box({6, 5}), whole_box({6, 5}), out), 30);
    });
  }
  EXPECT_LT(peak_memory_bytes(), int64_t{300} << 20);
}

// Opens and reads whole folders in PyTorch's form (no checksums to hide behind) with one mutated file.
inline void fuzz_folder(uint64_t first, uint64_t last) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, example_tensors(), 1, 2);
  remove_file(folder / kManifestFile);
  const std::vector<std::string> names = list_folder(folder);
  for (uint64_t seed = first; seed < last; ++seed) {
    const std::string name = names[seed % names.size()];
    const std::string good = read_file(folder / name);
    File bad = File::create(folder / name);
    bad.write(mutate(good, seed));
    bad.close();
    accepted([&] {
      Reader reader = Reader::open(folder);
      for (const TensorInfo& info : reader.tensors()) {
        if (numel_of(info.shape) > 10000) continue;
        std::vector<std::byte> out(static_cast<size_t>(numel_of(info.shape) * dtype_size(info.dtype)));
        accepted([&] { reader.read(info.name, whole_box(info.shape), out); });
      }
    });
    File restored = File::create(folder / name);
    restored.write(good);
    restored.close();
  }
  EXPECT_LT(peak_memory_bytes(), int64_t{300} << 20);
}

}  // namespace hearth::checkpoint
