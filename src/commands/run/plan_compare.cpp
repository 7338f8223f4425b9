// SPDX-License-Identifier: Apache-2.0
// `hearth plan --compare`: the plans of two run files in one table.
#include <algorithm>
#include <cmath>

#include "base/quantity.h"
#include "commands/run/planned.h"
#include "config/fields.h"
#include "mesh/mesh.h"

namespace hearth::commands {
namespace {

// A line of the table. Numbers have a difference; texts are equal or not.
struct CompareRow {
  std::string name, a{}, b{};
  std::optional<std::pair<double, double>> numbers{};
  bool heading = false;
};

class CompareTable {
 public:
  void heading(std::string name) { rows_.push_back({.name = std::move(name), .heading = true}); }
  void text(std::string name, std::string a, std::string b) {
    rows_.push_back({std::move(name), std::move(a), std::move(b)});
  }
  void number(std::string name, double a, double b, const auto& format) {
    rows_.push_back({std::move(name), format(a), format(b), std::pair(a, b)});
  }
  // A number of the run file: every difference counts, so it has all its digits.
  void exact(std::string name, int64_t a, int64_t b) {
    number(std::move(name), static_cast<double>(a), static_cast<double>(b),
           [](double value) { return fmt::format("{}", static_cast<int64_t>(value)); });
  }
  // The numbers of a structure of which one is not 0.
  template <class Parts>
  void parts(const Parts& a, const Parts& b, const std::vector<std::pair<const char*, double Parts::*>>& members,
             const auto& format) {
    for (const auto& [name, member] : members)
      if (a.*member != 0 || b.*member != 0) number(name, a.*member, b.*member, format);
  }

  // Columns as wide as their longest texts. A * stands before each line that differs.
  std::string write(const std::string& name_a, const std::string& name_b) const {
    size_t widths[3] = {0, name_a.size(), name_b.size()};
    for (const CompareRow& row : rows_) {
      widths[0] = std::max(widths[0], row.name.size() + (row.heading ? 0 : 2));
      widths[1] = std::max(widths[1], row.a.size());
      widths[2] = std::max(widths[2], row.b.size());
    }
    std::string out = fmt::format("  {:{}}  {:>{}}  {:>{}}\n", "", widths[0], name_a, widths[1], name_b, widths[2]);
    for (const CompareRow& row : rows_) {
      if (row.heading) {
        out += fmt::format("  {}\n", row.name);
        continue;
      }
      const auto [a, b] = row.numbers.value_or(std::pair(0.0, 0.0));
      const bool differs = row.a != row.b || std::abs(a - b) > kSmall * std::abs(a);
      std::string line = fmt::format("{}   {:{}}  {:>{}}  {:>{}}", differs ? "*" : " ", row.name, widths[0] - 1, row.a,
                                     widths[1], row.b, widths[2]);
      if (row.numbers && differs) line += "  " + change(a, b);
      while (line.ends_with(' ')) line.pop_back();
      out += line + "\n";
    }
    return out;
  }

 private:
  static constexpr double kSmall = 5e-4;  // rounds to 0.0 %

  static std::string change(double a, double b) {
    if (a == 0) return "new";
    if (b == 0) return "gone";
    const double ratio = b / a;
    if (ratio >= 2 || ratio <= 0.5) return fmt::format("x {:.3g}", ratio);
    if (std::abs(ratio - 1) < kSmall) return fmt::format("{:+.6g}", b - a);
    return fmt::format("{:+.1f} %", 100 * (ratio - 1));
  }

  std::vector<CompareRow> rows_;
};

double number_of(int64_t value) { return static_cast<double>(value); }
std::string bytes_text(double value) {
  return value == 0 ? "-" : format_bytes(static_cast<int64_t>(std::llround(value)));
}
std::string seconds_text(double value) { return value == 0 ? "-" : format_duration(value); }

std::string mesh_text(const config::RunConfig& config) {
  const config::Parallelism& p = config.parallelism;
  std::string text;
  const auto degree = [&text](std::string_view name, int64_t value) {
    if (value != 1) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  };
  degree("dp_replicate", p.data_parallel_replicate_degree);
  degree("dp_shard", p.data_parallel_shard_degree);
  degree("cp", p.context_parallel_degree);
  degree("tp", p.tensor_parallel_degree);
  degree("ep", p.expert_parallel_degree);
  degree("pp", p.pipeline_parallel_degree);
  return text.empty() ? "1 rank" : text;
}

// The parts of both memories: those of the first, then those that only the second has. A part that is there twice
// counts as one.
void add_memory(CompareTable& table, const Planned& a, const Planned& b) {
  std::vector<std::string> names;
  const std::vector<plan::MemoryItem> items_a = plan::memory_items(a.memory), items_b = plan::memory_items(b.memory);
  for (const auto* items : {&items_a, &items_b})
    for (const plan::MemoryItem& item : *items)
      if (std::ranges::find(names, item.name) == names.end()) names.emplace_back(item.name);
  const auto bytes_of = [](const std::vector<plan::MemoryItem>& items, const std::string& name) {
    double bytes = 0;
    for (const plan::MemoryItem& item : items) bytes += item.name == name ? number_of(item.bytes) : 0;
    return bytes;
  };
  table.heading("memory of a rank");
  for (const std::string& name : names)
    table.number(name, bytes_of(items_a, name), bytes_of(items_b, name), bytes_text);
  table.number("in all", number_of(a.memory.total_bytes), number_of(b.memory.total_bytes), bytes_text);
  table.number("that there is", number_of(a.memory.limit_bytes), number_of(b.memory.limit_bytes), bytes_text);
  table.text("fits", a.memory.fits() ? "yes" : "no", b.memory.fits() ? "yes" : "no");
  table.text("recomputed", plan::describe(a.memory.recompute), plan::describe(b.memory.recompute));
}

void add_compute(CompareTable& table, const Planned& a, const Planned& b) {
  const int64_t length_a = a.config.training.seq_len, length_b = b.config.training.seq_len;
  table.heading("FLOPs of a token");
  table.number("forward and backward", plan::flops_per_token(a.shape.model, length_a),
               plan::flops_per_token(b.shape.model, length_b), format_flops);
  table.number("computed again", plan::recompute_flops_per_token(a.shape.model, length_a, a.memory.recompute),
               plan::recompute_flops_per_token(b.shape.model, length_b, b.memory.recompute), format_flops);
}

void add_traffic(CompareTable& table, const Planned& a, const Planned& b) {
  table.heading("bytes that a rank sends in a step");
  table.parts(a.traffic, b.traffic,
              {{"among shards", &plan::StepTraffic::shard},
               {"between copies", &plan::StepTraffic::replicate},
               {"inside layers", &plan::StepTraffic::tensor},
               {"inside sequences", &plan::StepTraffic::context},
               {"between stages", &plan::StepTraffic::pipeline}},
              bytes_text);
  table.number("in all", a.traffic.total(), b.traffic.total(), bytes_text);
}

void add_time(CompareTable& table, const Planned& a, const Planned& b) {
  if (!a.time || !b.time) return;
  const plan::StepTime &x = *a.time, &y = *b.time;
  table.heading("time of a step");
  table.parts(x.parts, y.parts,
              {{"computation", &plan::StepParts::compute},
               {"traffic inside layers", &plan::StepParts::tensor},
               {"traffic inside sequences", &plan::StepParts::context},
               {"waits in the pipeline", &plan::StepParts::wait},
               {"traffic of weights, not hidden", &plan::StepParts::shard},
               {"update", &plan::StepParts::update}},
              seconds_text);
  table.number("in all", x.step_s, y.step_s, seconds_text);
  table.number("tokens of a step", x.tokens, y.tokens, format_count);
  table.number("tokens/s", x.tokens / x.step_s, y.tokens / y.step_s, format_count);
  if (x.steps == 0 || y.steps == 0) return;
  table.heading("the run");
  table.exact("steps", x.steps, y.steps);
  table.number("tokens", x.tokens * number_of(x.steps), y.tokens * number_of(y.steps), format_count);
  table.number("time", x.run_s(), y.run_s(), seconds_text);
  table.number("device-hours", x.device_hours(), y.device_hours(), format_count);
  if (x.speed.per_node > 1 && y.speed.per_node > 1)
    table.number("node-hours", x.node_hours(), y.node_hours(), format_count);
}

}  // namespace

std::string comparison_text(const Planned& a, const Planned& b, const std::string& name_a, const std::string& name_b) {
  CompareTable table;
  table.heading("the run file");
  table.exact("parameters", a.shape.parameters.num_parameters, b.shape.parameters.num_parameters);
  table.exact("parameters of a token", a.shape.parameters.num_active, b.shape.parameters.num_active);
  table.exact("ranks", a.config.parallelism.ranks(), b.config.parallelism.ranks());
  table.text("mesh", mesh_text(a.config), mesh_text(b.config));
  table.exact("ZeRO stage", a.config.parallelism.zero_stage, b.config.parallelism.zero_stage);
  table.exact("positions of a sequence", a.config.training.seq_len, b.config.training.seq_len);
  table.exact("sequences at once", a.config.training.local_batch_size, b.config.training.local_batch_size);
  add_compute(table, a, b);
  add_memory(table, a, b);
  add_traffic(table, a, b);
  add_time(table, a, b);
  return table.write(name_a, name_b);
}

}  // namespace hearth::commands
