// SPDX-License-Identifier: Apache-2.0
#include "recordings/array_file.h"

#include <limits>

#include "base/error.h"
#include "formats/npy.h"

namespace hearth::recordings {

ReadArray read_array(std::span<const std::byte> file, int64_t most_cells) {
  const auto fail = [](ArrayFault fault, std::string why) { return ReadArray{{}, fault, std::move(why)}; };
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  const formats::NpyHeader header = formats::parse_npy_header(bytes, "it");
  if (header.descr != "|u1" && header.descr != "u1")
    return fail(ArrayFault::kWrongType, fmt::format("its elements are \"{}\", not uint8 (\"|u1\")", header.descr));
  if (header.shape.size() != 2)
    return fail(ArrayFault::kWrongType,
                fmt::format("it has {} dimensions, not the two of neurons and time bins", header.shape.size()));
  const ArrayShape shape{header.shape[0], header.shape[1]};
  const auto size = static_cast<int64_t>(bytes.size() - header.data_offset);
  if (shape.bins > 0 && shape.neurons > std::numeric_limits<int64_t>::max() / shape.bins)
    return fail(ArrayFault::kMalformed, fmt::format("its shape is ({}, {})", shape.neurons, shape.bins));
  if (shape.cells() > size)
    return fail(ArrayFault::kUnreadable, fmt::format("it is cut short: {} bytes of {}", size, shape.cells()));
  if (shape.cells() < size)
    return fail(ArrayFault::kMalformed, fmt::format("{} bytes follow its end", size - shape.cells()));
  if (shape.cells() > most_cells) return fail(ArrayFault::kTooLong, {});
  ReadArray result;
  result.array.shape = shape;
  const std::span counts(reinterpret_cast<const uint8_t*>(bytes.data()) + header.data_offset,
                         bytes.size() - header.data_offset);
  if (header.fortran_order)  // [neurons, bins] by columns is [bins, neurons] by rows
    result.array.counts.assign(counts.begin(), counts.end());
  else
    result.array.counts = time_major(counts, shape);
  return result;
}

}  // namespace hearth::recordings
