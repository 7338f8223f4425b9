// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace hearth::report {
namespace {

double tick_distance(double range, double count) {
  const double least = range / count;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double PlotAxis::pixel(double value) const {
  const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
  return first_pixel + share * (last_pixel - first_pixel);
}

std::vector<double> ticks(const PlotAxis& axis, double count) {
  const double distance = tick_distance(axis.high - axis.low, count);
  std::vector<double> found;
  for (double k = std::ceil(axis.low / distance); k * distance <= axis.high * (1 + 1e-12); ++k)
    found.push_back(k * distance);
  return found;
}

std::string escaped_for_svg(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return result;
}

std::string svg_begin(double width, double height, double title_x, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#374151\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"{2}\" y=\"24\" font-size=\"15\">{3}</text>\n",
      width, height, title_x, escaped_for_svg(title));
}

}  // namespace hearth::report
