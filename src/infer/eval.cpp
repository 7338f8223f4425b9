// SPDX-License-Identifier: Apache-2.0
#include "infer/eval.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "base/text.h"
#include "data/batch/label_rule.h"
#include "data/study/ngram.h"
#include "data/study/token_ngram.h"
#include "infer/bound.h"
#include "infer/loaded_model.h"
#include "infer/output_file.h"
#include "infer/progress.h"
#include "recordings/vocabulary.h"
#include "run/state.h"

namespace hearth::infer {
namespace {

using Units = EvalReport::Units;

// A set to evaluate, before it is opened.
struct Wanted {
  std::string name;
  Path folder;
  std::string split{};     // empty: the held-out split
  bool is_of_run = false;  // a [[validation.set]], which may cover a whole dataset
  bool is_named = true;    // the user named it; else it has its folder's name
};

Units units_of(const tokenizer::Tokenizer& tokenizer) {
  return tokenizer.arrays() != nullptr ? Units::kSpikes : tokenizer.has_text() ? Units::kBytes : Units::kNone;
}

// [V]: bytes of text or spikes of each id; 0 for ids past the tokenizer's vocabulary (padding).
std::vector<int64_t> units_of_tokens(const tokenizer::Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<int64_t> units(static_cast<size_t>(vocab_size), 0);
  const Units kind = units_of(tokenizer);
  std::string text;
  for (int64_t id = 0; id < std::min(vocab_size, tokenizer.vocab_size()) && kind != Units::kNone; ++id) {
    int64_t& unit = units[static_cast<size_t>(id)];
    if (kind == Units::kSpikes) {
      const auto patch = tokenizer.arrays()->patch_of(static_cast<uint32_t>(id));
      unit = std::accumulate(patch.begin(), patch.end(), int64_t{0});
    } else {
      text.clear();
      tokenizer.decode(static_cast<uint32_t>(id), text);
      unit = static_cast<int64_t>(text.size());
    }
  }
  return units;
}

// "DIR", or "NAME=DIR".
Wanted parse_set(const std::string& given, bool only_one) {
  const size_t equals = given.find('=');
  if (equals != std::string::npos && !path_exists(given))
    return {given.substr(0, equals), given.substr(equals + 1), {}};
  return {only_one ? "" : folder_name(given), normal_path(given), {}, /*is_of_run=*/false, /*is_named=*/false};
}

// Makes names unique, because reports are identified by them: folders of equal names get their paths as names.
void tell_apart(std::vector<Wanted>& sets) {
  std::map<std::string, int> times;
  for (const Wanted& set : sets) ++times[set.name];
  for (Wanted& set : sets)
    if (!set.is_named && times[set.name] > 1) set.name = set.folder.string();
  std::set<std::string> names;
  for (const Wanted& set : sets) {
    if (!names.insert(set.name).second)
      throw user_error(fmt::format("two sets of --data are called \"{}\"", set.name),
                       "their reports would have the same name", "give each a name of its own: --data NAME=DIR");
  }
}

std::vector<Wanted> wanted_sets(const LoadedModel& model, const config::EvalOptions& options) {
  std::vector<Wanted> sets;
  if (!options.data.empty()) {
    for (const std::string& given : options.data) sets.push_back(parse_set(given, options.data.size() == 1));
  } else if (!model.config.validation.set.empty()) {
    for (const config::ValidationSet& set : model.config.validation.set)
      sets.push_back({set.name, model.config.resolve(set.path), set.split, /*is_of_run=*/true});
  } else {
    const auto sources = model.config.sources();
    for (const config::DataSource& source : sources)
      sets.push_back(parse_set(model.config.resolve(source.path).string(), sources.size() == 1));
  }
  for (Wanted& set : sets)
    if (!options.split.empty()) set.split = options.split;
  tell_apart(sets);
  return sets;
}

void check_same_tokenizer(const LoadedModel& model, const data::Dataset& dataset) {
  data::require_same_tokenizer(data::tokenizer_of(dataset.folder().string(), dataset.manifest()),
                               run::tokenizer_of(model.folder, model.manifest));
}

// The datasets that the n-gram models count: all that the run trains on, except datasets whose weight is always 0. Not
// the evaluated dataset's own training split: the model may never have seen it.
std::vector<Path> trained_folders(const config::RunConfig& config) {
  const auto sources = config.sources();
  std::vector<Path> folders;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool later = std::ranges::any_of(config.data.segment, [i](const auto& of) { return of.weights[i] > 0; });
    if (sources[i].weight > 0 || later) folders.push_back(normal_path(config.resolve(sources[i].path)));
  }
  return folders;
}

std::vector<data::Dataset>::const_iterator find_same(const std::vector<data::Dataset>& sets, const data::Dataset& one) {
  return std::ranges::find(sets, one.manifest().identity, [](const auto& set) { return set.manifest().identity; });
}

std::vector<data::Dataset> open_counted(const LoadedModel& model, const config::EvalOptions& options) {
  const bool is_of_run = options.ngram_data.empty();
  const std::vector<Path> folders = is_of_run ? trained_folders(model.config) : options.ngram_data;
  std::vector<data::Dataset> counted;
  for (const Path& folder : folders) {
    if (is_of_run && !path_exists(folder))
      throw user_error(
          fmt::format("--ngram has nothing to count: {} does not exist", folder.string()),
          fmt::format("n-gram models count the training data of {}, which was there", model.folder.string()),
          "give each dataset's folder with --ngram-data DIR, or leave --ngram out");
    data::Dataset dataset = data::Dataset::open(folder);
    check_same_tokenizer(model, dataset);
    dataset.split("train");  // throws now, not after the evaluation
    if (const auto same = find_same(counted, dataset); same != counted.end())
      throw user_error(fmt::format("{} and {} are the same dataset", same->folder().string(), folder.string()),
                       "n-gram models count each document once", "give --ngram-data for one of them");
    counted.push_back(std::move(dataset));
  }
  return counted;
}

// Throws user_error if n-gram models cannot be compared with this model. All errors of --ngram come before any
// computation.
void check_ngram(const LoadedModel& model, bool masked, int64_t order) {
  if (masked)
    throw user_error("--ngram cannot be compared with a model that fills in hidden tokens",
                     "an n-gram model sees only the tokens before a token", "leave it out");
  if (model.tokenizer->arrays() != nullptr) return;
  if (!model.tokenizer->has_text())
    throw user_error("--ngram cannot evaluate ids without text",
                     fmt::format("n-gram models count bytes, and {} was trained on ids without a known tokenizer",
                                 model.folder.string()),
                     "leave it out");
  if (order > data::kMaxNgramOrder)
    throw user_error(fmt::format("--ngram {} is too long for text", order), {},
                     fmt::format("give {} at most", data::kMaxNgramOrder));
}

// The same check for one set.
void check_ngram_of(const Wanted& wanted, const data::Dataset& dataset, const std::vector<data::Dataset>& counted) {
  const data::Split& split = dataset.split(wanted.split);
  if (split.weights())
    throw user_error("--ngram cannot evaluate data that weight their tokens",
                     fmt::format("an n-gram model predicts every token, and in {} {}", wanted.folder.string(),
                                 data::describe_weights(*split.weights(), split.tokens())),
                     "leave it out");
  if (wanted.split == "train" && find_same(counted, dataset) != counted.end())
    throw user_error(fmt::format("--ngram cannot evaluate the split \"train\" of {}", wanted.folder.string()),
                     "the n-gram models count this split",
                     "leave it out, or evaluate a held-out split: hearth data build --validation 0.05 ...");
}

std::vector<double> ngram_scores(const std::vector<data::Dataset>& counted, const data::Split& split, int64_t order,
                                 const LoadedModel& model, const data::LabelRule& labels) {
  std::vector<const data::Split*> train;
  for (const data::Dataset& dataset : counted) train.push_back(&dataset.split("train"));
  if (model.tokenizer->arrays() != nullptr)
    return data::score_token_ngrams(train, split, order, model.tokenizer->vocab_size(), labels.uncounted_token);
  return data::score_ngrams(train, split, *model.tokenizer, order).bits_per_byte;
}

// Throws all errors before the first forward pass.
std::vector<std::pair<Wanted, data::Dataset>> open_sets(const LoadedModel& model, const config::EvalOptions& options) {
  std::vector<std::pair<Wanted, data::Dataset>> sets;
  for (Wanted& wanted : wanted_sets(model, options)) {
    data::Dataset dataset = data::Dataset::open(wanted.folder);
    check_same_tokenizer(model, dataset);
    if (wanted.split.empty()) wanted.split = wanted.is_of_run ? dataset.manifest().held_out_split() : "validation";
    dataset.split(wanted.split);
    sets.emplace_back(std::move(wanted), std::move(dataset));
  }
  return sets;
}

std::optional<StridedWindows> strided_windows(const LoadedModel& model, const config::EvalOptions& options) {
  if (options.stride == 0) return std::nullopt;
  if (model.config.objective.masked())
    throw user_error("--stride cannot be used with a model that fills in hidden tokens",
                     "each of its predictions has the whole window as context", "leave it out");
  const int64_t longest = model.config.training.seq_len;
  const StridedWindows rule{options.window > 0 ? options.window : longest, options.stride};
  if (rule.window > longest)
    throw user_error(fmt::format("--window {} is too long", rule.window),
                     fmt::format("the model was trained on windows of {} tokens", longest), "give a shorter one");
  if (rule.stride > rule.window)
    throw user_error(fmt::format("--stride {} is larger than the window", rule.stride),
                     fmt::format("windows of {} tokens would leave tokens out", rule.window), "give a smaller one");
  return rule;
}

using Json = nlohmann::ordered_json;  // writes NaN and infinity, such as a loss that overflowed, as null

Json report_json(const EvalReport& report) {
  const train::ValidationResult& e = report.validation;
  Json json;
  json["name"] = report.name.empty() ? Json() : Json(report.name);
  json["loss"] = e.loss();
  json["perplexity"] = report.perplexity();
  json["predicts"] = report.masked ? "hidden" : report.mc_num > 0 ? "all" : "next";
  json["mc_num"] = report.mc_num > 0 ? Json(report.mc_num) : Json();
  json[report.weighted ? "counted_weights" : "counted_tokens"] = e.counted_tokens;
  const bool has_units = report.units != EvalReport::Units::kNone && e.counted_units > 0;
  json["unit"] = !has_units ? Json() : report.units == EvalReport::Units::kSpikes ? "spike" : "byte";
  json["counted_units"] = has_units ? Json(e.counted_units) : Json();
  json["bits_per_unit"] = has_units ? Json(report.bits_per_unit()) : Json();
  json["window"] = report.strided ? Json(report.strided->window) : Json();
  json["stride"] = report.strided ? Json(report.strided->stride) : Json();
  json["ngram"] = report.ngram.empty() ? Json() : Json(report.ngram);
  return json;
}

Json report_json(const ChoiceReport& report) {
  Json json{{"name", report.name}, {"questions", report.questions.size()}, {"chance", report.chance()}};
  for (const ChoiceRule rule : kChoiceRules) {
    json[std::string(name_of(rule))] = report.accuracy(rule);
    json[fmt::format("{}_stderr", name_of(rule))] = report.standard_error(rule);
  }
  return json;
}

template <typename Report>
Json list_of(const std::vector<Report>& reports) {
  Json list = Json::array();
  for (const Report& report : reports) list.push_back(report_json(report));
  return list;
}

}  // namespace

std::string folder_name(const Path& folder) {
  const Path path = normal_path(folder);
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

double EvalReport::perplexity() const { return std::exp(validation.loss()); }
double EvalReport::bits_per_unit() const { return validation.loss_sum / std::log(2.0) / validation.counted_units; }

std::vector<EvalReport> eval_checkpoint(const config::EvalOptions& options) {
  return eval_sets(*load_model(options.checkpoint, options.device), options);
}

std::vector<EvalReport> eval_sets(LoadedModel& model, const config::EvalOptions& options) {
  const c10::InferenceMode no_gradients;
  const data::LabelRule labels =
      data::label_rule(model.config.objective, model.config.model.attention_scope, *model.tokenizer, model.shape.V)
          .held_out(draws_of(model, options));
  const std::optional<StridedWindows> strided = strided_windows(model, options);
  const auto sets = open_sets(model, options);
  const int64_t order = options.ngram.empty() ? 0 : *std::max_element(options.ngram.begin(), options.ngram.end());
  std::vector<data::Dataset> counted;
  if (order > 0) {
    check_ngram(model, labels.hides(), order);
    counted = open_counted(model, options);
    for (const auto& [wanted, dataset] : sets) check_ngram_of(wanted, dataset, counted);
  }

  const int64_t seq_len = model.config.training.seq_len;
  plan::DataFacts facts{.vocab_size = model.tokenizer->vocab_size()};
  for (const auto& [wanted, dataset] : sets)
    facts.weighs_labels = facts.weighs_labels || dataset.split(wanted.split).weights();
  const plan::ModelShape shape = plan::model_shape(model.config, facts, plan::Workload::kInference);
  std::optional<model::Transformer> transformer;
  if (!strided) transformer.emplace(shape, model.plan, options.batch_size, seq_len, model.compute_options());
  const std::vector<int64_t> token_units = units_of_tokens(*model.tokenizer, model.shape.V);
  std::vector<EvalReport> reports;
  for (const auto& [wanted, dataset] : sets) {
    const data::Split& split = dataset.split(wanted.split);
    EvalReport report;
    report.name = wanted.name;
    report.folder = wanted.folder;
    report.split = wanted.split;
    report.units = units_of(*model.tokenizer);
    report.masked = labels.masking.has_value();
    report.mc_num = labels.diffusion ? labels.diffusion->draws : 0;
    report.weighted = split.weights() && !split.weights()->is_mask;
    report.strided = strided;
    std::optional<ProgressDisplay> line(std::in_place, wanted.name.empty() ? wanted.split : wanted.name, "batches");
    const auto show = [&](int64_t done, int64_t all) { line->show(done, all); };
    report.validation = strided ? slide(model, shape, split, *strided, labels, options.batch_size, token_units, show)
                                : train::validate(*transformer, *model.weights, split,
                                                  {.seq_len = seq_len,
                                                   .local_batch_size = options.batch_size,
                                                   .token_units = token_units,
                                                   .labels = labels,
                                                   .seed = options.seed,
                                                   .progress = show});
    line.reset();
    if (order > 0) report.ngram = ngram_scores(counted, split, order, model, labels);
    reports.push_back(std::move(report));
  }
  return reports;
}

std::string format_report(const EvalReport& report) {
  const bool spikes = report.units == Units::kSpikes;
  const bool has_units = report.units != Units::kNone && report.validation.counted_units > 0;
  const char* unit = spikes ? "spike" : "byte";
  std::string text;
  if (!report.name.empty()) text += fmt::format("{}\n", report.name);
  text += fmt::format("data             {}, split \"{}\"\n", report.folder.string(), report.split);
  const char* const kind = report.masked ? "hidden " : "";
  const char* const bound = report.mc_num > 0 ? ", at most" : "";
  text += fmt::format("loss             {:.4f} nats per {}token{}\n", report.validation.loss(), kind, bound);
  text += fmt::format("perplexity       {:.4f} per {}token{}\n", report.perplexity(), kind, bound);
  if (has_units)
    text += fmt::format("{:<16} {:.4f}{}\n", fmt::format("bits per {}", unit), report.bits_per_unit(), bound);
  if (report.mc_num > 0) text += fmt::format("draws            {} of each sequence\n", report.mc_num);
  text += report.weighted ? fmt::format("weights counted  {:.6g}\n", report.validation.counted_tokens)
                          : fmt::format("tokens counted   {:.0f}\n", report.validation.counted_tokens);
  if (has_units)
    text += fmt::format("{:<16} {:.0f}\n", fmt::format("{}s counted", unit), report.validation.counted_units);
  if (report.strided)
    text += fmt::format("window           {} tokens, stride {}\n", report.strided->window, report.strided->stride);
  if (report.ngram.empty()) return text;

  text += spikes ? "\nnats per token of the same recordings, n-gram models over tokens, one added to every count:\n"
                 : "\nbits per byte of the same text, interpolated Witten-Bell n-gram models over bytes:\n";
  const double ours = spikes ? report.validation.loss() : report.bits_per_unit();
  for (size_t i = 0; i < report.ngram.size(); ++i) {
    const double theirs = report.ngram[i];
    text +=
        fmt::format("  order {}        {:.4f}   the model is {}\n", i + 1, theirs, ours < theirs ? "better" : "worse");
  }
  text += fmt::format("  this model     {:.4f}\n", ours);
  return text;
}

std::string reports_json(const std::vector<EvalReport>& sets, const std::vector<ChoiceReport>& tasks) {
  return Json{{"sets", list_of(sets)}, {"tasks", list_of(tasks)}}.dump(2, ' ', /*ensure_ascii=*/false,
                                                                       Json::error_handler_t::replace) +
         "\n";
}

ExitCode run_eval(const config::EvalOptions& options) {
  if (!options.samples.empty()) prepare_output("--samples", options.samples);
  const auto model = load_model(options.checkpoint, options.device);
  std::vector<ChoiceReport> tasks;
  if (!options.tasks.empty()) tasks = score_tasks(*model, options);
  std::vector<EvalReport> sets;
  if (options.tasks.empty() || !options.data.empty()) sets = eval_sets(*model, options);
  if (options.json) {
    fmt::print("{}", reports_json(sets, tasks));
  } else {
    fmt::print("checkpoint       {}\n", model->folder.string());
    std::vector<std::string> texts;
    for (const EvalReport& report : sets) texts.push_back(format_report(report));
    for (const ChoiceReport& report : tasks) texts.push_back(format_report(report));
    fmt::print("{}", join(texts, "\n"));
  }
  std::fflush(stdout);
  if (!options.samples.empty()) write_samples(tasks, options.samples);
  return ExitCode::kDone;
}

}  // namespace hearth::infer
