// SPDX-License-Identifier: Apache-2.0
#include "report/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "report/svg.h"

namespace hearth::report {
namespace {

struct Point {
  double step, loss;
};

struct Lines {
  std::string name;
  std::vector<Point> training, validation;
};

// The picture's size and the margins around the axes, in pixels.
constexpr double kWidth = 760, kHeight = 400, kLeft = 56, kRight = 20, kTop = 44, kBottom = 44;
constexpr std::array<const char*, 6> kColours = {"#2563eb", "#dc2626", "#059669", "#9333ea", "#d97706", "#475569"};

Lines lines_of(const Curve& curve) {
  Lines lines{.name = curve.name, .training = {}, .validation = {}};
  for (const metrics::StepRecord& record : curve.records) {
    const auto step = static_cast<double>(record.step);
    if (record.loss && std::isfinite(*record.loss)) lines.training.push_back({step, *record.loss});
    if (record.validation_loss && std::isfinite(*record.validation_loss))
      lines.validation.push_back({step, *record.validation_loss});
  }
  return lines;
}

// Means of `size / kMostPoints` neighbours each.
std::vector<Point> thinned(const std::vector<Point>& points) {
  const size_t group = (points.size() + kMostPoints - 1) / kMostPoints;
  if (group <= 1) return points;
  std::vector<Point> result;
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t end = std::min(begin + group, points.size());
    Point mean{0, 0};
    for (size_t i = begin; i < end; ++i) mean = {mean.step + points[i].step, mean.loss + points[i].loss};
    const auto count = static_cast<double>(end - begin);
    result.push_back({mean.step / count, mean.loss / count});
  }
  return result;
}

std::pair<PlotAxis, PlotAxis> axes_of(const std::vector<Lines>& all) {
  std::vector<double> losses;
  double last_step = 1, first_validation = 0;
  for (const Lines& lines : all) {
    for (const auto* points : {&lines.training, &lines.validation}) {
      for (const Point& point : *points) {
        losses.push_back(point.loss);
        last_step = std::max(last_step, point.step);
      }
    }
    if (!lines.validation.empty()) first_validation = std::max(first_validation, lines.validation.front().loss);
  }
  if (losses.empty())
    throw user_error("there is no loss to draw", "no step has been logged yet", "train for some steps first");
  std::sort(losses.begin(), losses.end());
  const double most = losses[static_cast<size_t>(0.99 * static_cast<double>(losses.size() - 1))];
  const double low = losses.front(), high = std::max({most, first_validation, low + 1e-3});
  const double room = 0.05 * (high - low);
  return {{0, last_step, kLeft, kWidth - kRight}, {low - room, high + room, kHeight - kBottom, kTop}};
}

std::string polyline(const std::vector<Point>& points, const PlotAxis& x, const PlotAxis& y, const char* kind,
                     const std::string& style) {
  std::string text = fmt::format("<polyline class=\"{}\" fill=\"none\" {} points=\"", kind, style);
  for (const Point& point : points) text += fmt::format("{:.2f},{:.2f} ", x.pixel(point.step), y.pixel(point.loss));
  text.back() = '"';
  return text + "/>\n";
}

std::string drawn_axes(const PlotAxis& x, const PlotAxis& y) {
  std::string text;
  for (const double value : ticks(y, 6)) {
    text +=
        fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.2f}\" y2=\"{2:.2f}\" stroke=\"#e5e7eb\"/>\n",
                    kLeft, kWidth - kRight, y.pixel(value));
    text += fmt::format("<text class=\"loss\" x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">{:.4g}</text>\n", kLeft - 8,
                        y.pixel(value) + 4, value);
  }
  for (const double value : ticks(x, 8)) {
    if (std::abs(value - std::round(value)) > 1e-9) continue;  // within a step of a short run
    text += fmt::format("<text class=\"step\" x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{:.7g}</text>\n",
                        x.pixel(value), kHeight - kBottom + 18, value);
  }
  return text + fmt::format(
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n"
                    "<text x=\"14\" y=\"{}\" text-anchor=\"middle\" "
                    "transform=\"rotate(-90 14 {})\">loss, nats per token</text>\n",
                    (kLeft + kWidth - kRight) / 2, kHeight - 8, kHeight / 2, kHeight / 2);
}

}  // namespace

std::string loss_curves_svg(const std::vector<Curve>& curves, const std::string& title) {
  std::vector<Lines> all;
  for (const Curve& curve : curves) all.push_back(lines_of(curve));
  const auto [x, y] = axes_of(all);
  std::string text = svg_begin(kWidth, kHeight, kLeft, title) + drawn_axes(x, y);
  double legend = kTop + 12;
  const auto entry = [&](const std::string& name, const std::string& style) {
    text += fmt::format("<line x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\" {3}/>\n", kWidth - 236, kWidth - 212,
                        legend - 4, style);
    text += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kWidth - 204, legend, escaped_for_svg(name));
    legend += 18;
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    const std::string thin = fmt::format("stroke=\"{}\" stroke-width=\"1\" opacity=\"0.55\"", colour);
    const std::string thick = fmt::format("stroke=\"{}\" stroke-width=\"2.5\"", colour);
    const std::string name = all[i].name.empty() ? "" : all[i].name + ", ";
    if (!all[i].training.empty()) {
      text += polyline(thinned(all[i].training), x, y, "training", thin);
      entry(name + "training", thin);
    }
    if (!all[i].validation.empty()) {
      text += polyline(all[i].validation, x, y, "validation", thick);
      for (const Point& point : all[i].validation)
        text += fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.5\" fill=\"{}\"/>\n", x.pixel(point.step),
                            y.pixel(point.loss), colour);
      entry(name + "held-out text", thick);
    }
  }
  return text + "</svg>\n";
}

}  // namespace hearth::report
