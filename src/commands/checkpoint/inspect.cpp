// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/log.h"
#include "checkpoint/load.h"
#include "commands/commands.h"
#include "config/load.h"
#include "convert/names.h"
#include "convert/source.h"
#include "data/order/data_state.h"
#include "hub/name.h"
#include "report/flight_picture.h"
#include "report/flight_verdict.h"
#include "trace/flight.h"

namespace hearth::commands {
namespace {

using formats::StoredTensor;
using Json = nlohmann::ordered_json;

int64_t numel(const StoredTensor& tensor) { return mesh::Box{{}, tensor.info.shape}.numel(); }

int64_t stored_bytes(const StoredTensor& tensor) {
  int64_t bytes = 0;
  for (const formats::Item& item : tensor.items) bytes += item.length;
  return bytes;
}

struct Totals {
  int64_t weights = 0, parameters = 0, weight_bytes = 0, other_bytes = 0, items = 0;
};

Totals count(const formats::Metadata& metadata) {
  Totals totals;
  for (const StoredTensor& tensor : metadata.tensors) {
    totals.items += static_cast<int64_t>(tensor.items.size());
    if (convert::is_training_state(tensor.info.name)) {
      totals.other_bytes += stored_bytes(tensor);
      continue;
    }
    ++totals.weights;
    totals.parameters += numel(tensor);
    totals.weight_bytes += stored_bytes(tensor);
  }
  return totals;
}

data::DataState data_state_of(const checkpoint::Reader& reader) {
  const checkpoint::Manifest& m = reader.manifest();
  return data::parse_data_state(m.state(data::kDataState), m.dataset_hash,
                                (reader.folder() / checkpoint::kManifestFile).string());
}

void add_manifest(std::vector<TextRow>& rows, const checkpoint::Reader& reader) {
  const checkpoint::Manifest& m = reader.manifest();
  const data::DataState data = data_state_of(reader);
  rows.push_back({"step", fmt::format("{}, {} tokens seen", m.step, m.tokens_seen)});
  for (const auto& [name, value] : m.metrics) rows.push_back({name, fmt::format("{:.6g}", value)});
  rows.push_back({"data", fmt::format("seed {}, next sample {}", data.seed, data.next_sample)});
  rows.push_back({"tokenizer", fmt::format("{} ({})", m.tokenizer, m.tokenizer_hash)});
  rows.push_back({"dataset", m.dataset_hash});
  rows.push_back({"written by", fmt::format("hearth {}, LibTorch {}, {}", m.code_version, m.libtorch_version,
                                            counted(m.ranks, "rank"))});
  rows.push_back({"written", m.host.empty() ? m.created : fmt::format("{} on {}", m.created, m.host)});
  rows.push_back({"parent", m.parent.empty() ? "none" : m.parent});
}

std::string writer_of(convert::Kind kind) {
  if (kind == convert::Kind::kHuggingFace) return "Hugging Face's format: it can be the initial load, or be converted";
  if (kind == convert::Kind::kMeta) return "Meta's format: it can be the initial load, or be converted";
  return "PyTorch (no hearth.json: it can be the initial load, not resumed)";
}

// The section of a run file, with its heading. Empty if the file has no such section.
std::string section_of(std::string_view run_file, std::string_view heading) {
  const std::string text = fmt::format("\n{}", run_file);
  const size_t before = text.find(fmt::format("\n{}\n", heading));
  if (before == std::string::npos) return {};
  return text.substr(before + 1, text.find("\n[", before + 1) - before - 1);
}

// The section [model]. Weights for hidden tokens compute something else without their objective, so it follows.
std::string model_section(std::string_view run_file) {
  const std::string model = section_of(run_file, "[model]"), objective = section_of(run_file, "[objective]");
  const bool is_masked = objective.find("\nkind = \"masked_") != std::string::npos;
  return is_masked ? fmt::format("{}\n{}", model, objective) : model;
}

// What other programs' files give, as a run file has it.
std::string model_section(const convert::Description& description) {
  config::RunConfig config;
  config.model = description.model;
  config.objective.kind = description.objective;
  config.objective.mask_id = description.mask.value_or(config.objective.mask_id);
  return model_section(config::to_toml(config));
}

// From a native checkpoint's run file, or from another program's files.
std::string model_section(const convert::Source& source) {
  if (source.reader.has_manifest()) {
    if (std::string model = model_section(source.reader.manifest().config_toml); !model.empty()) return model;
  } else if (source.description) {
    return model_section(*source.description);
  }
  throw user_error(fmt::format("{} does not say the model's shape", source.reader.folder().string()),
                   "only hearth.json, config.json and params.json do",
                   "without --model, the weights' shapes are listed");
}

// A weight, or the same weight of several layers, and of all experts of a layer.
struct TensorRow {
  std::string before, after;  // of the layer's number in the name; before alone: a name without one
  std::set<int64_t> layers{};
  const StoredTensor* first;
  int64_t tensors = 1;
  int64_t bytes = 0;
  size_t items = 0;

  std::string name() const {
    if (layers.empty()) return before;
    const int64_t least = *layers.begin(), most = *layers.rbegin();
    if (least == most) return fmt::format("{}{}{}", before, least, after);
    const bool all = most - least + 1 == std::ssize(layers);
    return all ? fmt::format("{}{}-{}{}", before, least, most, after) : fmt::format("{}*{}", before, after);
  }
  bool holds(const TensorRow& other) const {
    return !layers.empty() && !other.layers.empty() && before == other.before && after == other.after &&
           first->info.dtype == other.first->info.dtype && first->info.shape == other.first->info.shape;
  }
};

// ".moe.experts.17.w1.weight" -> ".moe.experts.*.w1.weight"
std::string of_all_experts(std::string name) {
  constexpr std::string_view kExperts = ".experts.";
  const size_t at = name.find(kExperts);
  if (at == std::string::npos) return name;
  const size_t begin = at + kExperts.size(), end = name.find_first_not_of("0123456789", begin);
  return end != std::string::npos && end > begin && name[end] == '.' ? name.replace(begin, end - begin, "*") : name;
}

TensorRow tensor_row(const StoredTensor& tensor, bool all) {
  const std::string& name = tensor.info.name;
  TensorRow row{.before = name, .after = {}, .first = &tensor};
  row.bytes = stored_bytes(tensor);
  row.items = tensor.items.size();
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == std::string::npos) return row;
  const size_t begin = at + kLayers.size(), end = std::min(name.find('.', begin), name.size());
  int64_t layer = 0;
  const auto [stopped, error] = std::from_chars(name.data() + begin, name.data() + end, layer);
  if (error != std::errc() || stopped != name.data() + end) return row;
  row.layers = {layer};
  row.before = name.substr(0, begin);
  row.after = all ? name.substr(end) : of_all_experts(name.substr(end));
  return row;
}

// Rows in the order of their first tensors; `all`: one for each tensor.
std::vector<TensorRow> tensor_rows(const formats::Metadata& metadata, bool all) {
  std::vector<TensorRow> rows;
  for (const StoredTensor& tensor : metadata.tensors) {
    TensorRow row = tensor_row(tensor, all);
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const TensorRow& r) { return !all && r.holds(row); });
    if (same == rows.end()) {
      rows.push_back(std::move(row));
      continue;
    }
    same->layers.merge(row.layers);
    ++same->tensors;
    same->bytes += row.bytes;
    same->items += row.items;
  }
  return rows;
}

void print_tensors(const formats::Metadata& metadata, bool all) {
  size_t width = 6;
  const std::vector<TensorRow> rows = tensor_rows(metadata, all);
  for (const TensorRow& row : rows) width = std::max(width, row.name().size());
  fmt::print("{:{}}  {:8}  {:>10}  {:>5}  shape\n", "tensor", width, "type", "size", "items");
  for (const TensorRow& row : rows)
    fmt::print("{:{}}  {:8}  {:>10}  {:>5}  {}{}\n", row.name(), width, dtype_name(row.first->info.dtype),
               format_bytes(row.bytes), row.items, formats::format_shape(row.first->info.shape),
               row.tensors == 1                        ? ""
               : row.tensors == std::ssize(row.layers) ? fmt::format(" in {} layers", row.tensors)
                                                       : fmt::format(" in {} tensors", row.tensors));
  for (const formats::OtherEntry& other : metadata.others) fmt::print("{:{}}  {}\n", other.name, width, other.what);
}

void print_text(const convert::Source& source, bool all) {
  const checkpoint::Reader& reader = source.reader;
  const formats::Metadata& metadata = reader.metadata();
  const Totals totals = count(metadata);
  std::vector<TextRow> rows;
  if (reader.has_manifest())
    add_manifest(rows, reader);
  else
    rows.push_back({"written by", writer_of(source.kind)});
  rows.push_back({"parameters", fmt::format("{} ({}) in {} weights, {}", totals.parameters,
                                            format_count(static_cast<double>(totals.parameters)), totals.weights,
                                            format_bytes(totals.weight_bytes))});
  rows.push_back({"other state", format_bytes(totals.other_bytes)});
  fmt::print("{}\n{}\n", reader.folder().string(), format_rows(rows));

  print_tensors(metadata, all);
  if (reader.has_manifest())
    fmt::print("\nconfiguration\n{}", reader.manifest().config_toml);
  else if (source.description)
    fmt::print("\nconfiguration\n{}", model_section(*source.description));
  for (const std::string& note : source.notes) fmt::print("note: {}\n", note);
}

Json json_of(const checkpoint::Reader& reader) {
  const checkpoint::Manifest& m = reader.manifest();
  const data::DataState data = data_state_of(reader);
  return {{"step", m.step},
          {"tokens_seen", m.tokens_seen},
          {"data", {{"seed", data.seed}, {"next_sample", data.next_sample}}},
          {"tokenizer", m.tokenizer},
          {"tokenizer_hash", m.tokenizer_hash},
          {"dataset_hash", m.dataset_hash},
          {"ranks", m.ranks},
          {"parent", m.parent},
          {"code_version", m.code_version},
          {"libtorch_version", m.libtorch_version},
          {"host", m.host},
          {"created", m.created},
          {"config", m.config_toml},
          {"metrics", m.metrics}};
}

void print_json(const convert::Source& source) {
  const checkpoint::Reader& reader = source.reader;
  const Totals totals = count(reader.metadata());
  Json j = {{"checkpoint", reader.folder().string()},
            {"kind", convert::kind_name(source.kind)},
            {"has_manifest", reader.has_manifest()}};
  if (reader.has_manifest())
    j.update(json_of(reader));
  else if (source.description)
    j["config"] = model_section(*source.description);
  j["parameters"] = totals.parameters;
  j["weight_bytes"] = totals.weight_bytes;
  j["other_bytes"] = totals.other_bytes;
  j["tensors"] = Json::array();
  for (const StoredTensor& tensor : reader.metadata().tensors)
    j["tensors"].push_back({{"name", tensor.info.name},
                            {"dtype", dtype_name(tensor.info.dtype)},
                            {"shape", tensor.info.shape},
                            {"bytes", stored_bytes(tensor)},
                            {"items", tensor.items.size()}});
  j["others"] = Json::array();
  for (const formats::OtherEntry& other : reader.metadata().others)
    j["others"].push_back({{"name", other.name}, {"what", other.what}});
  fmt::print("{}\n", j.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int inspect(CommandLine& line) {
  Path folder;
  bool json = false, model = false, all = false;
  int64_t last = 0;
  Path picture;
  line.positional(
      "CHECKPOINT", &folder,
      "folder of one step, RUN/checkpoints/step-..., or of Hugging Face's or Meta's weights; or RUN/flight, the last "
      "calls of ranks to each other: after a hang or a death it says which rank did not come");
  line.flag("--json", &json, "one JSON object instead of text");
  line.flag("--model", &model,
            "print the section [model] alone, for a run file that begins with these weights; with [objective] for "
            "masked_lm and "
            "masked_diffusion");
  line.flag("--all", &all, "list each tensor; default: those of layers that are alike share a line");
  line.option("--last N", &last, within(1, trace::kFlightCalls), "of RUN/flight: show the last N calls of each rank");
  line.option("--picture FILE.svg", &picture,
              "of RUN/flight: also draw the last N calls over time, or those of the last two steps");
  if (!line.parse()) return 0;
  folder = hub::find_fetched(folder.string());
  if (trace::has_flights(folder)) {
    const std::vector<trace::Flight> flights = trace::read_flights(folder);
    if (!picture.empty()) write_file_atomic(picture, report::flight_picture(flights, last));
    fmt::print("{}", json ? report::flights_json(flights, last) : report::format_flights(flights, last));
    if (!picture.empty() && !json) fmt::print("wrote {}\n", picture.string());
    return 0;
  }
  if (last > 0 || !picture.empty())
    throw user_error(fmt::format("{} is for RUN/flight", last > 0 ? "--last" : "--picture"),
                     fmt::format("{} has no records of calls", folder.string()), "leave it out");
  const convert::Source source = convert::open_for_inspection(folder);
  if (!model) {
    json ? print_json(source) : print_text(source, all);
    return 0;
  }
  fmt::print("{}", model_section(source));
  std::fflush(stdout);
  for (const std::string& note : source.notes) log_info("note: {}", note);  // the sections may go to a run file
  return 0;
}

}  // namespace hearth::commands
