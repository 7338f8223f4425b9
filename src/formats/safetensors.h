// SPDX-License-Identifier: Apache-2.0
// Hugging Face's safetensors: a JSON header with names, types, shapes and byte ranges, then the bytes. A model may be
// cut into several files with an index. Source of the format: huggingface.co/docs/safetensors.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/direct_io.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/hash.h"
#include "formats/dcp.h"
#include "mesh/tensor_box.h"

namespace hearth::formats {

// A larger header is refused, as the format's own library does.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsTensor {
  mesh::TensorInfo info;
  int64_t offset = 0, length = 0;  // bytes in the file
};

struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  std::vector<OtherEntry> others;          // tensors of types that Hearth lacks: "tensor of F8_E4M3"
};

// Reads the header and trusts nothing in it: every range lies in the file and has the size of its type and shape, and
// every byte behind the header is one tensor's. Throws damaged() naming `origin`.
SafetensorsFile read_safetensors(const File& file, const std::string& origin);

// The names of the files by tensor, of model.safetensors.index.json. Throws damaged() naming `origin`; a file name with
// a folder in it is refused.
std::map<std::string, std::string> parse_safetensors_index(std::string_view text, const std::string& origin);
// `total_bytes`: of all tensors.
std::string format_safetensors_index(const std::map<std::string, std::string>& files, int64_t total_bytes);

// Writes a file: the header first, then the tensors' bytes in the order of `tensors`. An object of a store is read
// back.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const Path& path, std::span<const mesh::TensorInfo> tensors);
  void write(std::span<const std::byte> bytes);
  void finish();  // fsyncs; all bytes must have been written

 private:
  void write_now(std::span<const std::byte> bytes);
  DirectWriter writer_;
  StreamingHash hash_;   // of an object
  int64_t missing_ = 0;  // bytes
};

}  // namespace hearth::formats
