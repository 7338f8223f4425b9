// A grey picture as a PNG file. Source of the format: ISO/IEC 15948 (W3C PNG, second edition).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace hearth::report {

// The file's bytes. `pixels` [height, width], from 0 (black) to 255 (white); at least one.
std::string gray_png(std::span<const uint8_t> pixels, int64_t width, int64_t height);

}  // namespace hearth::report
