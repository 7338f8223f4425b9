// SPDX-License-Identifier: Apache-2.0
// Parts that all SVG pictures share.
#pragma once

#include <string>
#include <vector>

namespace hearth::report {

std::string escaped_for_svg(const std::string& text);

// The beginning of a picture: a white background, and the title (plain text) at `title_x`. Append "</svg>" to end it.
std::string svg_begin(double width, double height, double title_x, const std::string& title);

// Maps values to pixels.
struct PlotAxis {
  double low, high, first_pixel, last_pixel;
  double pixel(double value) const;  // a value outside is drawn at the nearest end
};

// Round values along the axis: about `count`, a multiple of 1, 2 or 5 times a power of ten.
std::vector<double> ticks(const PlotAxis& axis, double count);

}  // namespace hearth::report
