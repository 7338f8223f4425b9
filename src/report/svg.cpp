#include "report/svg.h"

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

double Axis::pixel(double value) const {
  const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
  return first_pixel + share * (last_pixel - first_pixel);
}

std::vector<double> ticks(const Axis& axis, double count) {
  const double distance = tick_distance(axis.high - axis.low, count);
  std::vector<double> found;
  for (double k = std::ceil(axis.low / distance); k * distance <= axis.high * (1 + 1e-12); ++k)
    found.push_back(k * distance);
  return found;
}

std::string escaped_for_svg(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace hearth::report
