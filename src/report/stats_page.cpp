// SPDX-License-Identifier: Apache-2.0
#include "report/stats_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "data/formats/utf8.h"
#include "report/svg.h"

namespace hearth::report {
namespace {

using data::SplitStats;

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{0}</title>
<style>
:root {{ color-scheme: light dark; --bar: #3b6ea8; --line: #b4562c; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.3em; overflow-wrap: anywhere; }} h2 {{ margin-top: 2em; }} h3 {{ font-size: 1em; margin-bottom: 0; }}
table {{ border-collapse: collapse; }} td, th {{ padding: 0 1em 0 0; text-align: left; font-weight: normal; }}
td {{ font-variant-numeric: tabular-nums; }} small {{ opacity: 0.7; }}
svg {{ width: 100%; height: auto; }} svg text {{ font: 12px system-ui, sans-serif; fill: currentColor; }}
.bar {{ fill: var(--bar); }} .curve {{ fill: none; stroke: var(--line); stroke-width: 2; }}
.axis {{ stroke: currentColor; opacity: 0.3; }}
</style></head><body>
<h1>{0}</h1>
<p><small>identity {1}</small></p>
)";

std::string escaped_for_html(std::string_view text) {
  const bool is_utf8 = data::count_invalid_utf8(text) == 0;  // a token may be part of a character
  std::string result;
  for (const char c : text) {
    if (!is_utf8 && static_cast<unsigned char>(c) >= 0x80)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c == '>' ? "&gt;" : c == '"' ? "&quot;" : escaped_for_svg(std::string(1, c));
  }
  return result;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

struct Bar {
  std::string label;
  int64_t value = 0;
};

// Horizontal bars, one per row; the longest has the picture's width. Next to each are its value and its share of
// `whole`.
std::string bars(const std::string& title, const std::vector<Bar>& rows, int64_t whole) {
  constexpr int kRow = 20, kLabel = 150, kWidth = 800, kValue = 170;
  int64_t most = 1;
  for (const Bar& row : rows) most = std::max(most, row.value);
  std::string svg = fmt::format("<h3>{}</h3>\n<svg role=\"img\" viewBox=\"0 0 {} {}\">\n", title, kWidth,
                                kRow * static_cast<int>(rows.size()));
  int y = 0;
  for (const Bar& row : rows) {
    const double width = share(row.value, most) * (kWidth - kLabel - kValue);
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<rect class=\"bar\" x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{} ({:.2f} %)</text>\n",
        kLabel - 8, y + 14, escaped_for_html(row.label), kLabel, y + 3, width, kRow - 6, kLabel + width + 6, y + 14,
        row.value, 100 * share(row.value, whole));
    y += kRow;
  }
  return svg + "</svg>\n";
}

// The counts of tokens by rank of frequency; both axes are logarithmic.
std::string frequency_curve(const SplitStats& s) {
  constexpr double kLeft = 60, kTop = 10, kWidth = 720, kHeight = 240;
  std::vector<int64_t> counts(s.token_counts.begin(), s.token_counts.end());
  std::erase_if(counts, [](int64_t count) { return count <= 0; });
  if (counts.size() < 2) return {};
  std::sort(counts.begin(), counts.end(), std::greater<>());
  const double ranks = std::log10(static_cast<double>(counts.size()));
  const double most = std::max(1.0, std::log10(static_cast<double>(counts.front())));
  const auto x_of = [&](double rank) { return kLeft + kWidth * std::log10(rank) / ranks; };
  const auto y_of = [&](double count) { return kTop + kHeight * (1 - std::log10(count) / most); };
  std::string svg = "<h3>frequency of tokens by rank</h3>\n<svg role=\"img\" viewBox=\"0 0 800 285\">\n";
  for (double power = 1; power <= static_cast<double>(counts.size()); power *= 10)
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\">{4}</text>\n",
        x_of(power), kTop, kTop + kHeight, kTop + kHeight + 18, format_count(power));
  for (double power = 1; power <= static_cast<double>(counts.front()); power *= 10)
    svg += fmt::format(
        "<line class=\"axis\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, y_of(power), kLeft + kWidth, kLeft - 6, y_of(power) + 4, format_count(power));
  svg += "<polyline class=\"curve\" points=\"";
  // As many points as are visible: ranks a hundredth of the axis apart.
  double next = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double x = x_of(static_cast<double>(i + 1));
    if (x < next && i + 1 < counts.size()) continue;
    svg += fmt::format("{:.1f},{:.1f} ", x, y_of(static_cast<double>(counts[i])));
    next = x + kWidth / 400;
  }
  return svg + "\"/>\n</svg>\n";
}

std::string numbers(const SplitStats& s) {
  std::string table = "<table>\n";
  const auto row = [&table](const char* name, const std::string& value) {
    table += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, value);
  };
  row("documents", fmt::format("{}, of {} to {} tokens, {:.1f} on average", s.documents, s.shortest, s.longest,
                               static_cast<double>(s.tokens) / static_cast<double>(s.documents)));
  row("tokens", fmt::format("{}", s.tokens));
  if (s.text_bytes > 0) row("text", fmt::format("{} bytes, {:.3f} a token", s.text_bytes, s.bytes_per_token()));
  row("ids", fmt::format("{} of {} occur", s.used_tokens(), s.token_counts.size()));
  if (s.weights) row("in the loss", data::describe_weights(*s.weights, s.tokens));
  row("duplicates", fmt::format("{} equal to an earlier one: {:.2f} % of the tokens", counted(s.duplicates, "document"),
                                100 * share(s.duplicate_tokens, s.tokens)));
  if (s.in_earlier_splits > 0)
    row("overlap", fmt::format("{} also in a split before this one", counted(s.in_earlier_splits, "document")));
  return table + "</table>\n";
}

}  // namespace

std::string stats_page(const StatsPage& page, const std::vector<SplitStats>& splits) {
  std::string html = fmt::format(fmt::runtime(kHead), escaped_for_html(page.title), escaped_for_html(page.identity));
  for (const SplitStats& s : splits) {
    html += fmt::format("<h2>{}</h2>\n{}", escaped_for_html(s.name), numbers(s));
    std::vector<Bar> documents, tokens, frequent;
    for (const data::LengthBin& bin : s.lengths) {
      const std::string label =
          bin.least == bin.most ? fmt::format("{}", bin.least) : fmt::format("{} to {}", bin.least, bin.most);
      documents.push_back({label, bin.documents});
      tokens.push_back({label, bin.tokens});
    }
    for (const int64_t id : s.most_frequent(page.top))
      frequent.push_back({page.token_text(id), s.token_counts[static_cast<size_t>(id)]});
    html += bars("documents, by their length in tokens", documents, s.documents);
    html += bars("tokens, by the length of their document", tokens, s.tokens);
    if (!frequent.empty()) html += bars("most frequent tokens", frequent, s.tokens);
    html += frequency_curve(s);
  }
  return html + "</body></html>\n";
}

}  // namespace hearth::report
