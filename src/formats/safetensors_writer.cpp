// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/copy_tree.h"
#include "base/error.h"
#include "base/quantity.h"
#include "formats/safetensors.h"
#include "formats/type_names.h"

namespace hearth::formats {

using OrderedJson = nlohmann::ordered_json;

SafetensorsWriter::SafetensorsWriter(const Path& path, std::span<const mesh::TensorInfo> tensors)
    : writer_(File::create(path)) {
  OrderedJson header = {{"__metadata__", {{"format", "pt"}}}};
  for (const mesh::TensorInfo& info : tensors) {
    const int64_t bytes = mesh::Box{{}, info.shape}.numel() * dtype_size(info.dtype);
    header[info.name] = {
        {"dtype", safetensors_name(info.dtype)}, {"shape", info.shape}, {"data_offsets", {missing_, missing_ + bytes}}};
    missing_ += bytes;
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(round_up(static_cast<int64_t>(text.size()), 8)), ' ');
  std::string length;
  for (size_t i = 0; i < 8; ++i) length.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  const std::string head = length + text;
  write_now(std::as_bytes(std::span(head)));
}

void SafetensorsWriter::write_now(std::span<const std::byte> bytes) {
  if (is_object(writer_.file().path())) hash_.update(bytes);
  writer_.write(bytes);
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  missing_ -= static_cast<int64_t>(bytes.size());
  HEARTH_CHECK(missing_ >= 0, "{}: more bytes than its header says", writer_.file().path().string());
  write_now(bytes);
}

void SafetensorsWriter::finish() {
  HEARTH_CHECK(missing_ == 0, "{}: {} bytes are missing", writer_.file().path().string(), missing_);
  writer_.flush();
  writer_.file().sync();
  writer_.file().close();
  if (is_object(writer_.file().path())) require_content(writer_.file().path(), hash_.digest_128_hex());
}

std::string format_safetensors_index(const std::map<std::string, std::string>& files, int64_t total_bytes) {
  const OrderedJson index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", files}};
  return index.dump(2) + "\n";
}

}  // namespace hearth::formats
