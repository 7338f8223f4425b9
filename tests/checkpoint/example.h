// SPDX-License-Identifier: Apache-2.0
// Small checkpoints for the tests of this folder.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/hash.h"
#include "base/quantity.h"
#include "base/random.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "support/environment.h"
#include "support/python.h"

namespace hearth::checkpoint {

struct ExampleTensor {
  mesh::TensorInfo info;
  std::vector<std::byte> bytes;
};

inline int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}
inline mesh::Box whole_box(const std::vector<int64_t>& shape) { return {std::vector<int64_t>(shape.size(), 0), shape}; }

// Random bytes of a type. Floats are made from small numbers, so that none is a NaN, which never equals itself.
inline ExampleTensor example_tensor(const std::string& name, DType dtype, const std::vector<int64_t>& shape) {
  ExampleTensor tensor{{name, dtype, shape}, {}};
  const int64_t n = numel_of(shape);
  tensor.bytes.resize(static_cast<size_t>(n * dtype_size(dtype)));
  const RandomKey key = random_key(7, name);
  for (int64_t i = 0; i < n; ++i) {
    const double value = random_normal(key, static_cast<uint64_t>(i));
    std::byte* at = tensor.bytes.data() + i * dtype_size(dtype);
    if (dtype == DType::kFloat64) {
      std::memcpy(at, &value, 8);
    } else if (dtype == DType::kFloat32) {
      const float narrow = static_cast<float>(value);
      std::memcpy(at, &narrow, 4);
    } else if (dtype == DType::kBFloat16) {
      const float narrow = static_cast<float>(value);
      std::memcpy(at, reinterpret_cast<const char*>(&narrow) + 2, 2);
    } else {
      const int64_t integer = static_cast<int64_t>(value * 1e6);
      std::memcpy(at, &integer, static_cast<size_t>(dtype_size(dtype)));
    }
  }
  return tensor;
}

inline std::vector<ExampleTensor> example_tensors() {
  return {
      example_tensor("tok_embeddings.weight", DType::kFloat32, {13, 7}),
      example_tensor("layers.2.attention.wq.weight", DType::kFloat32, {6, 5}),
      example_tensor("layers.10.attention.wq.weight", DType::kFloat64, {4, 3}),
      example_tensor("norm.weight", DType::kBFloat16, {11}),
      example_tensor("cube", DType::kInt64, {3, 4, 5}),
      example_tensor("optimizer.state.norm.weight.exp_avg", DType::kFloat32, {11}),
      example_tensor("optimizer.state.norm.weight.step", DType::kFloat32, {}),
  };
}

// Rank `rank`'s pieces when every tensor is cut into `ranks` flat ranges of nearly equal length.
inline std::vector<mesh::TensorPiece> flat_pieces(const std::vector<ExampleTensor>& tensors, int64_t rank,
                                                  int64_t ranks) {
  std::vector<mesh::TensorPiece> pieces;
  for (const ExampleTensor& tensor : tensors) {
    const int64_t n = numel_of(tensor.info.shape), slice = div_ceil(n, ranks);
    int64_t at = std::min(n, rank * slice);
    const int64_t element = dtype_size(tensor.info.dtype);
    for (const mesh::Box& box : mesh::boxes_of_flat_range(tensor.info.shape, at, std::min(n, at + slice))) {
      const std::span<const std::byte> bytes(tensor.bytes);
      pieces.push_back({tensor.info, box,
                        bytes.subspan(static_cast<size_t>(at * element), static_cast<size_t>(box.numel() * element))});
      at += box.numel();
    }
  }
  return pieces;
}

inline Manifest example_manifest(int64_t step, int64_t ranks) {
  Manifest m;
  m.step = step;
  m.tokens_seen = 1000 * step;
  m.states["data"] = fmt::format("{{\"seed\":18446744073709551615,\"next_sample\":{},\"order_version\":1}}", 8 * step);
  m.tokenizer = "bytes";
  m.tokenizer_hash = "t0";
  m.dataset_hash = "d0";
  m.config_toml = "[training]\nsteps = 100 # \"quoted\" \xc3\xa9\n";
  m.libtorch_version = "2.11.0";
  m.ranks = ranks;
  m.parent = "step-00000001";
  m.metrics = {{"loss", 0.1 + 0.2}, {"validation_loss", 1e300}};
  stamp(m);
  return m;
}

// Saves as `ranks` ranks would, one after the other.
inline Path save_example(const Path& checkpoints, const std::vector<ExampleTensor>& tensors, int64_t step,
                         int64_t ranks, const std::optional<std::map<std::string, double>>& metrics = {}) {
  const Path temporary = temporary_folder(checkpoints, step);
  begin_save(temporary);
  std::vector<std::string> items;
  for (int64_t rank = 0; rank < ranks; ++rank)
    items.push_back(write_rank_file(temporary, rank, flat_pieces(tensors, rank, ranks)));
  const Path folder = step_folder(checkpoints, step);
  Manifest manifest = example_manifest(step, ranks);
  if (metrics) manifest.metrics = *metrics;
  commit(temporary, folder, items, manifest);
  return folder;
}

inline std::vector<std::byte> read_whole(Reader& reader, const ExampleTensor& tensor) {
  std::vector<std::byte> out(tensor.bytes.size());
  reader.read(tensor.info.name, whole_box(tensor.info.shape), out);
  return out;
}

// Writes every tensor's bytes to FOLDER/NAME.bin, for a Python script to compare.
inline void write_raw(const Path& folder, const std::vector<ExampleTensor>& tensors) {
  make_folders(folder);
  for (const ExampleTensor& tensor : tensors) {
    File file = File::create(folder / (tensor.info.name + ".bin"));
    file.write(tensor.bytes);
    file.close();
  }
}

// A manifest's text, edited, with its checksum made right again as docs/checkpoint_format.md says.
inline std::string signed_again(std::string text) {
  const auto digits = text.begin() + static_cast<ptrdiff_t>(text.find("\"checksum\": \"") + 13);
  std::fill(digits, digits + 16, '0');
  const std::string checksum = to_hex64(xxh3_64(text));
  std::copy(checksum.begin(), checksum.end(), digits);
  return text;
}
inline std::string with_format_version(std::string text, char version) {
  text[text.find("\"format_version\": 1") + 18] = version;
  return signed_again(text);
}

// Changes bytes of a file in place.
inline void overwrite(const Path& path, size_t at, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "r+b");
  ASSERT_NE(file, nullptr);
  std::fseek(file, static_cast<long>(at), SEEK_SET);
  std::fwrite(bytes.data(), 1, bytes.size(), file);
  std::fclose(file);
}

// Runs a Python script with the oracle's interpreter; returns its output, and fails the test unless it exits with 0.
inline std::string run_python(const test::ScratchFolder& scratch, const std::string& script,
                              const std::string& arguments) {
  const Path path = scratch / "script.py";
  File file = File::create(path);
  file.write(script);
  file.close();
  const test::CommandResult result = test::run_python(path.string() + " " + arguments);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

}  // namespace hearth::checkpoint
