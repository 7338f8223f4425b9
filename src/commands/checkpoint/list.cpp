// SPDX-License-Identifier: Apache-2.0
// `hearth checkpoints list`: a run's checkpoints with their losses.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "checkpoint/verify.h"
#include "commands/commands.h"
#include "plan/tensor_names.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::commands {
namespace {

using Json = nlohmann::ordered_json;

struct Listed {
  int64_t step, bytes;
  std::optional<checkpoint::Manifest> manifest;
  std::string state;  // "good", "not checked", or the damage

  // "training": with the optimizer's state, so that a training can go on. "weights": without. Empty: not known.
  std::string contents() const {
    if (!manifest) return "";
    const auto is_state = [](const formats::Item& item) { return plan::is_optimizer_state(item.name); };
    return std::any_of(manifest->items.begin(), manifest->items.end(), is_state) ? "training" : "weights";
  }

  std::optional<double> metric(const std::string& name) const {
    if (!manifest || !manifest->metrics.contains(name)) return std::nullopt;
    return manifest->metrics.at(name);
  }
};

Listed listed(const checkpoint::StepFolder& found, bool verify) {
  const Path &folder = found.folder, file = folder / checkpoint::kManifestFile;
  Listed row{.step = found.step, .bytes = folder_bytes(folder), .manifest = {}, .state = "not checked"};
  try {
    if (!path_exists(file)) throw damaged("hearth.json is missing");
    row.manifest = checkpoint::parse_manifest(read_file(file), file);
    if (!verify) return row;
    const checkpoint::Verification found = checkpoint::verify_checkpoint(folder);
    row.state = found.problems.empty() ? "good" : "damaged: " + found.problems.front();
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged) throw;
    row.state = "damaged: " + e.message();
  }
  return row;
}

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; }

// "2026-11-26 07:03Z" of "2026-11-26T07:03:15Z": a row has 80 columns.
std::string minute_of(const std::string& created) {
  if (created.size() != 20) return created;
  return created.substr(0, 10) + " " + created.substr(11, 5) + "Z";
}

void print_table(const std::vector<Listed>& rows) {
  constexpr const char* kRow = "{:>6}  {:>7}  {:>10}  {:>9}  {:<8}  {:<17}  {}\n";
  fmt::print(kRow, "step", "loss", "validation", "size", "contents", "written", "state");
  for (const Listed& row : rows)
    fmt::print(kRow, row.step, number(row.metric("loss")), number(row.metric("validation_loss")),
               format_bytes(row.bytes), row.contents(), row.manifest ? minute_of(row.manifest->created) : "",
               row.state);
}

void print_rows_json(const std::vector<Listed>& rows) {
  Json list = Json::array();
  const auto value = [](const std::optional<double>& number) { return number ? Json(*number) : Json(nullptr); };
  for (const Listed& row : rows)
    list.push_back({{"step", row.step},
                    {"loss", value(row.metric("loss"))},
                    {"validation_loss", value(row.metric("validation_loss"))},
                    {"bytes", row.bytes},
                    {"contents", row.manifest ? Json(row.contents()) : Json(nullptr)},
                    {"created", row.manifest ? Json(row.manifest->created) : Json(nullptr)},
                    {"state", row.state}});
  fmt::print("{}\n", list.dump(2));
}

}  // namespace

int checkpoints_list(CommandLine& line) {
  Path run;
  bool verify = false, json = false;
  line.positional("RUN", &run, "run folder, or its folder of checkpoints");
  line.flag("--verify", &verify, "check every byte; exit code 3 if one of them is damaged");
  line.flag("--json", &json, "one JSON array instead of a table: steps, losses, bytes, contents, times in UTC, states");
  if (!line.parse()) return 0;
  const Path checkpoints = runfolder::checkpoints_of(run);
  std::vector<Listed> rows;
  for (const checkpoint::StepFolder& found : checkpoint::list_checkpoints(checkpoints))
    rows.push_back(listed(found, verify));
  json ? print_rows_json(rows) : print_table(rows);
  const bool is_damaged =
      std::any_of(rows.begin(), rows.end(), [](const Listed& row) { return row.state.starts_with("damaged"); });
  return static_cast<int>(is_damaged ? ExitCode::kDamaged : ExitCode::kDone);
}

}  // namespace hearth::commands
