// SPDX-License-Identifier: Apache-2.0
// A value of Python that is no tensor, as torch.save writes it: a zip whose data.pkl is the value. torch.distributed's
// checkpoints have one for each setting of an optimizer and each count of a training.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/file.h"
#include "formats/zip.h"

namespace hearth::formats {

// None, bool, int, float, or a tuple of two floats.
using Scalar = std::variant<std::monostate, bool, int64_t, double, std::pair<double, double>>;

void add_scalar(ZipWriter& zip, const Scalar& value);

// Reads the value in bytes [offset, offset + length) of `file` if it is an int or a float; nullopt for any other value.
// Throws damaged() naming `origin` for bytes that are no such file.
std::optional<double> read_number(const File& file, int64_t offset, int64_t length, const std::string& origin);

}  // namespace hearth::formats
