// SPDX-License-Identifier: Apache-2.0
// A Python value that is no tensor, as torch.save writes it: a zip whose data.pkl is the value. Checkpoints of
// torch.distributed have such values for an optimizer's settings and a training's counters.
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
// Throws damaged() naming `origin` for bytes that torch.save did not write.
std::optional<double> read_number(const File& file, int64_t offset, int64_t length, const std::string& origin);

}  // namespace hearth::formats
