// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files. Source of the format: numpy/lib/format.py, versions 1.0 to 3.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::formats {

struct NpyHeader {
  std::string descr;  // "|u1", "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data_offset = 0;
};

bool looks_like_npy(std::string_view first_bytes);

// Reads the header from a file's bytes. Throws damaged() if they end inside the header, user_error if they are no array
// of numbers. `what` names the file in errors.
NpyHeader parse_npy_header(std::string_view file, const std::string& what);

// A header of version 1.0, as numpy.save writes it before the data. Row-major; `descr` and `shape` as in NpyHeader.
std::string npy_header(std::string_view descr, std::span<const int64_t> shape);

// Reads a vector of float32, or of float64, which is rounded; values beyond float32's range become infinite. Throws
// user_error for other content, damaged() for a file that is cut short.
std::vector<float> read_npy_vector(const Path& path);
void write_npy_vector(const Path& path, std::span<const float> values);

}  // namespace hearth::formats
