// SPDX-License-Identifier: Apache-2.0
#include "bench/node_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/quantity.h"
#include "base/text.h"

namespace hearth::bench {
namespace {

using Outcome = CheckRow::Outcome;
using Facts = std::span<const RankFacts>;

// Nodes of one size differ by what the system holds.
constexpr double kSmallShare = 0.9;
constexpr double kClockTolerance_s = 1;
constexpr size_t kMostNames = 8;

std::string flops_text(double flops) { return fmt::format("{}/s", format_flops(flops)); }
std::string rate_text(double bytes_s) { return fmt::format("{:.2f} GB/s", bytes_s / 1e9); }

double median_of(Facts facts, const std::function<double(const RankFacts&)>& value) {
  std::vector<double> values;
  for (const RankFacts& f : facts) values.push_back(value(f));
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// The most frequent text; of equals the first.
std::string most_frequent(Facts facts, const std::function<std::string(const RankFacts&)>& text) {
  std::map<std::string, int64_t> counts;
  std::string best;
  for (const RankFacts& f : facts) ++counts[text(f)];
  for (const RankFacts& f : facts)
    if (best.empty() || counts[text(f)] > counts[best]) best = text(f);
  return best;
}

// "rank 3 on node2: ...; rank 9 on node4: ...", at most kMostNames of them.
class Offenders {
 public:
  void add(const RankFacts& f, const std::string& what, bool of_node = false) {
    hosts_.insert(f.host);
    if (++count_ > kMostNames) return;
    const std::string who = of_node ? f.host : fmt::format("rank {} on {}", f.rank, f.host);
    text_ += fmt::format("{}{}: {}", text_.empty() ? "" : "; ", who, what);
  }
  bool any() const { return count_ > 0; }
  CheckRow row(const std::string& name, const std::string& fine) const {
    if (!any()) return {.name = name, .text = fine};
    const std::string more = count_ > kMostNames ? fmt::format("; and {} more", count_ - kMostNames) : "";
    return {.name = name, .outcome = Outcome::kOff, .text = text_ + more, .bad_nodes = {hosts_.begin(), hosts_.end()}};
  }

 private:
  std::set<std::string> hosts_;
  std::string text_;
  size_t count_ = 0;
};

CheckRow versions_row(Facts facts) {
  const std::string usual = most_frequent(facts, [](const RankFacts& f) { return f.versions; });
  Offenders off;
  for (const RankFacts& f : facts)
    if (f.first_of_host && f.versions != usual)
      off.add(f, fmt::format("{}, and most have {}", f.versions, usual), /*of_node=*/true);
  return off.row("versions", usual);
}

CheckRow devices_row(Facts facts) {
  const std::string usual = most_frequent(facts, [](const RankFacts& f) { return f.device; });
  const double memory = median_of(facts, [](const RankFacts& f) { return static_cast<double>(f.memory_bytes); });
  int64_t least = facts.front().memory_bytes;
  Offenders off;
  for (const RankFacts& f : facts) {
    least = std::min(least, f.memory_bytes);
    if (f.device != usual)
      off.add(f, fmt::format("{}, and most have {}", f.device, usual));
    else if (static_cast<double>(f.memory_bytes) < kSmallShare * memory)
      off.add(f, fmt::format("{} free, and most have {}", format_bytes(f.memory_bytes),
                             format_bytes(static_cast<int64_t>(memory))));
  }
  return off.row("devices", fmt::format("{} x {}, at least {} free", facts.size(), usual, format_bytes(least)));
}

CheckRow gemm_row(Facts facts, const NodeLimits& limits) {
  const double expected = limits.gemm_flops;
  const double median = median_of(facts, [](const RankFacts& f) { return f.gemm_flops; });
  const double least = limits.least_share * std::max(median, expected);
  const RankFacts* slowest = &facts.front();
  Offenders off;
  for (const RankFacts& f : facts) {
    if (f.gemm_flops < slowest->gemm_flops) slowest = &f;
    if (f.gemm_flops < least)
      off.add(f, fmt::format("{}, and {} {}", flops_text(f.gemm_flops),
                             expected > median ? "the cluster file says" : "the median is",
                             flops_text(std::max(median, expected))));
  }
  return off.row("products", fmt::format("median {} of a rank, slowest {} (rank {} on {})", flops_text(median),
                                         flops_text(slowest->gemm_flops), slowest->rank, slowest->host));
}

CheckRow clocks_row(Facts facts) {
  const double median = median_of(facts, [](const RankFacts& f) { return f.clock_s; });
  double widest = 0;
  Offenders off;
  for (const RankFacts& f : facts) {
    widest = std::max(widest, std::abs(f.clock_s - median));
    if (f.first_of_host && std::abs(f.clock_s - median) > kClockTolerance_s)
      off.add(f, fmt::format("{:+.1f} s from the others", f.clock_s - median), /*of_node=*/true);
  }
  return off.row("clocks", fmt::format("within {:.0f} ms", 1e3 * widest));
}

CheckRow files_row(Facts facts) {
  double slowest_write = 0, slowest_read = 0;
  Offenders off;
  for (const RankFacts& f : facts) {
    if (!f.first_of_host) continue;
    if (!f.file_error.empty()) {
      off.add(f, f.file_error, /*of_node=*/true);
      continue;
    }
    const auto slower = [](double before, double now) { return before == 0 ? now : std::min(before, now); };
    slowest_write = slower(slowest_write, f.write_bytes_s);
    slowest_read = slower(slowest_read, f.read_bytes_s);
  }
  return off.row("files", fmt::format("written and read back by each node; the slowest wrote {} and read {}",
                                      rate_text(slowest_write), rate_text(slowest_read)));
}

CheckRow memory_errors_row(Facts facts) {
  int64_t asked = 0;
  Offenders off;
  for (const RankFacts& f : facts) {
    if (!f.first_of_host || f.memory_errors < 0) continue;
    ++asked;
    if (f.memory_errors > 0) off.add(f, fmt::format("{} uncorrected", f.memory_errors), /*of_node=*/true);
  }
  if (asked == 0) return {"memory errors", Outcome::kNotChecked, "no node counts them"};
  return off.row("memory errors", fmt::format("no uncorrected ones on {} nodes that count them", asked));
}

// Whether no node's GPUs are slowed down, or have a lower highest clock than most.
CheckRow gpu_clocks_row(Facts facts) {
  std::vector<RankFacts> asked;
  for (const RankFacts& f : facts)
    if (f.first_of_host && f.gpus.least_mhz > 0) asked.push_back(f);
  if (asked.empty()) return {"GPU clocks", Outcome::kNotChecked, "no node has GPUs whose driver says them"};
  const double top = median_of(asked, [](const RankFacts& f) { return f.gpus.top_mhz; });
  double slowest = asked.front().gpus.least_mhz;
  bool says_slowed = false;
  Offenders off;
  for (const RankFacts& f : asked) {
    slowest = std::min(slowest, f.gpus.least_mhz);
    says_slowed = says_slowed || f.gpus.says_slowed;
    if (!f.gpus.slowed.empty())
      off.add(f, f.gpus.slowed, /*of_node=*/true);
    else if (f.gpus.top_mhz < kSmallShare * top)
      off.add(f, fmt::format("at most {:.0f} MHz, and most have {:.0f} MHz", f.gpus.top_mhz, top), /*of_node=*/true);
  }
  return off.row("GPU clocks", fmt::format("slowest {:.0f} of {:.0f} MHz on {} nodes{}", slowest, top, asked.size(),
                                           says_slowed ? ", none slowed down" : "; no driver says why"));
}

CheckRow gpu_faults_row(Facts facts) {
  int64_t asked = 0;
  Offenders off;
  for (const RankFacts& f : facts) {
    if (!f.first_of_host || f.gpus.faults < 0) continue;
    ++asked;
    if (f.gpus.faults > 0)
      off.add(f, fmt::format("{} in the last day, the newest {}", f.gpus.faults, f.gpus.fault), /*of_node=*/true);
  }
  if (asked == 0) return {"GPU faults", Outcome::kNotChecked, "no node with GPUs shows the messages of its kernel"};
  return off.row("GPU faults", fmt::format("no Xid of faulty hardware in the last day on {} nodes", asked));
}

}  // namespace

std::string facts_text(const RankFacts& f) {
  const nlohmann::json object = {{"rank", f.rank},
                                 {"host", f.host},
                                 {"first", f.first_of_host},
                                 {"versions", f.versions},
                                 {"device", f.device},
                                 {"memory", f.memory_bytes},
                                 {"gemm", f.gemm_flops},
                                 {"clock", f.clock_s},
                                 {"file_error", f.file_error},
                                 {"write", f.write_bytes_s},
                                 {"read", f.read_bytes_s},
                                 {"memory_errors", f.memory_errors},
                                 {"top_mhz", f.gpus.top_mhz},
                                 {"least_mhz", f.gpus.least_mhz},
                                 {"slowed", f.gpus.slowed},
                                 {"says_slowed", f.gpus.says_slowed},
                                 {"faults", f.gpus.faults},
                                 {"fault", f.gpus.fault},
                                 {"plugin", f.plugin_loaded},
                                 {"received", f.received_bytes_s}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankFacts facts_of_text(std::string_view text) {
  const nlohmann::json object = nlohmann::json::parse(text);
  return {.rank = object.at("rank"),
          .host = object.at("host"),
          .first_of_host = object.at("first"),
          .versions = object.at("versions"),
          .device = object.at("device"),
          .memory_bytes = object.at("memory"),
          .gemm_flops = object.at("gemm"),
          .clock_s = object.at("clock"),
          .file_error = object.at("file_error"),
          .write_bytes_s = object.at("write"),
          .read_bytes_s = object.at("read"),
          .memory_errors = object.at("memory_errors"),
          .gpus = {.memory_errors = object.at("memory_errors"),
                   .least_mhz = object.at("least_mhz"),
                   .top_mhz = object.at("top_mhz"),
                   .slowed = object.at("slowed"),
                   .says_slowed = object.at("says_slowed"),
                   .faults = object.at("faults"),
                   .fault = object.at("fault")},
          .plugin_loaded = object.at("plugin"),
          .received_bytes_s = object.at("received")};
}

std::vector<CheckRow> judge_nodes(Facts facts, const NodeLimits& limits) {
  return {versions_row(facts), devices_row(facts),       gemm_row(facts, limits), clocks_row(facts),
          files_row(facts),    memory_errors_row(facts), gpu_clocks_row(facts),   gpu_faults_row(facts)};
}

std::vector<CheckRow> judge_fabric(Facts facts, const NodeLimits& limits) {
  const bool one_host =
      std::all_of(facts.begin(), facts.end(), [&facts](const RankFacts& f) { return f.host == facts.front().host; });
  std::vector<CheckRow> rows;
  if (one_host || limits.fabric_library.empty()) {
    rows.push_back({"fabric plugin", Outcome::kNotChecked,
                    one_host ? "all ranks are on one node" : "the cluster file names no preflight.fabric_library"});
  } else {
    Offenders off;
    for (const RankFacts& f : facts)
      if (f.first_of_host && !f.plugin_loaded)
        off.add(f, fmt::format("{} is not loaded, so tensors take a slower way", limits.fabric_library), true);
    rows.push_back(off.row("fabric plugin", fmt::format("{} is loaded on every node", limits.fabric_library)));
  }
  if (facts.size() == 1) {
    rows.push_back({"bandwidth", Outcome::kNotChecked, "there is one rank"});
    return rows;
  }
  const double median = median_of(facts, [](const RankFacts& f) { return f.received_bytes_s; });
  Offenders off;
  for (const RankFacts& f : facts)
    if (limits.fabric_bytes_s > 0 && f.received_bytes_s < limits.least_share * limits.fabric_bytes_s)
      off.add(f, fmt::format("{}, and the cluster file says {}", rate_text(f.received_bytes_s),
                             rate_text(limits.fabric_bytes_s)));
  rows.push_back(
      off.row("bandwidth", fmt::format("{} into each rank in an all_gather{}", rate_text(median),
                                       limits.fabric_bytes_s > 0 ? "" : "; the cluster file has no figure")));
  return rows;
}

std::string_view name_of(CheckRow::Outcome outcome) {
  return outcome == Outcome::kFine ? "fine" : outcome == Outcome::kOff ? "OFF" : "not checked";
}

std::string row_text(const CheckRow& row) {
  return fmt::format("{:14} {:12} {}\n", row.name, name_of(row.outcome), row.text);
}

std::vector<std::string> bad_nodes(std::span<const CheckRow> rows) {
  std::set<std::string> names;
  for (const CheckRow& row : rows) names.insert(row.bad_nodes.begin(), row.bad_nodes.end());
  return {names.begin(), names.end()};
}

}  // namespace hearth::bench
