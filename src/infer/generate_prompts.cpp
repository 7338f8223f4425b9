// SPDX-License-Identifier: Apache-2.0
#include "infer/generate_prompts.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/hash.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/text.h"
#include "data/batch/prompt.h"
#include "data/formats/stream_buffer.h"
#include "data/formats/utf8.h"
#include "data/source/foreign_kind.h"
#include "infer/decoding.h"
#include "infer/denoise.h"
#include "infer/fill.h"
#include "infer/generate_array.h"
#include "infer/output_file.h"
#include "infer/progress.h"
#include "plan/memory.h"
#include "run/compute_device.h"

namespace hearth::infer {
namespace {

using Object = nlohmann::ordered_json;

std::string line_of(const Object& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Object::error_handler_t::replace) + "\n";
}

std::string prompt_of_json(const std::string& line, const std::function<Error(const char*)>& error) {
  const Object json = Object::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw error("the line is not a JSON object");
  const auto found = json.find("prompt");
  if (found == json.end()) throw error("\"prompt\" is missing");
  if (!found->is_string()) throw error("\"prompt\" is not a text");
  return found->get<std::string>();
}

bool is_object_with_prompt(const std::string& line) {
  if (!line.starts_with('{')) return false;
  const Object json = Object::parse(line, nullptr, /*allow_exceptions=*/false);
  return json.is_object() && json.contains("prompt") && json["prompt"].is_string();
}

// The lines of the output in the order of the prompts, in a file that survives a kill.
class TextFile {
 public:
  // `settings`: what the texts depend on. Lines of an earlier start with the same settings stay.
  // Throws user_error if another command writes it.
  TextFile(const Path& file, const Object& settings)
      : file_(file), partial_(file.string() + ".partial"), lock_file_(partial_.string() + ".lock") {
    lock_ = FileLock::try_lock(lock_file_);
    if (lock_ == nullptr)
      throw user_error(fmt::format("--out {}: another command writes it", file.string()),
                       fmt::format("{} is locked", lock_file_.string()), "wait for it, or give another name");
    const std::string heading = line_of(settings);
    if (path_exists(partial_)) {
      const std::string content = read_file(partial_);
      if (content.starts_with(heading)) {
        const size_t end = content.rfind('\n') + 1;
        if (end < content.size()) write_file_atomic(partial_, std::string_view(content).substr(0, end));
        next_ = static_cast<size_t>(std::count(content.begin(), content.end(), '\n')) - 1;
      } else {
        log_info("{} is of a command with other settings: it is begun anew", partial_.string());
        remove_file(partial_);
      }
    }
    const bool is_new = !path_exists(partial_);
    out_.emplace(File::open_append(partial_));
    if (is_new) out_->write(heading);
    heading_bytes_ = heading.size();
  }

  size_t next() const { return next_; }  // the first prompt without a line

  void add(size_t number, std::string line) {
    waiting_[number] = std::move(line);
    std::string ready;
    for (auto it = waiting_.begin(); it != waiting_.end() && it->first == next_; it = waiting_.erase(it), ++next_)
      ready += it->second;
    if (!ready.empty()) out_->write(ready);
  }

  void finish() {
    write_file_atomic(file_, std::string_view(read_file(partial_)).substr(heading_bytes_));
    remove_file(partial_);
    remove_file(lock_file_);
  }

 private:
  const Path file_, partial_, lock_file_;
  std::unique_ptr<FileLock> lock_;
  std::optional<File> out_;
  size_t next_ = 0, heading_bytes_ = 0;
  std::map<size_t, std::string> waiting_;  // texts that ended before an earlier prompt's
};

// The number of texts and tokens, and the rate.
class TextCount {
 public:
  TextCount(size_t first, size_t all)
      : first_(static_cast<int64_t>(first)), all_(static_cast<int64_t>(all)), line_("texts", "prompts", first_) {}
  void add(int64_t tokens) {
    tokens_ += tokens;
    line_.show(++done_, all_, fmt::format(", {} tokens, {:.0f} tokens/s", tokens_, rate()));
  }
  std::string summary() const {
    return fmt::format("{}{}, {} tokens in {} ({:.0f} tokens/s)", counted(all_, "prompt"),
                       first_ > 0 ? fmt::format(", {} of them from an earlier start", first_) : "", tokens_,
                       format_duration(line_.seconds()), rate());
  }

 private:
  double rate() const { return static_cast<double>(tokens_) / line_.seconds(); }

  const int64_t first_, all_;
  int64_t done_ = first_, tokens_ = 0;
  ProgressDisplay line_;
};

Object settings_of(const LoadedModel& model, const config::GenerateOptions& o) {
  Object settings{{"settings_of", "hearth generate"},
                  {"checkpoint", absolute_path(model.folder).string()},
                  {"manifest", xxh3_128_hex(read_file(model.folder / checkpoint::kManifestFile))},
                  {"prompts", xxh3_128_hex(read_file(o.prompts))},
                  {"max_tokens", o.max_tokens},
                  {"temperature", o.temperature},
                  {"top_k", o.top_k},
                  {"top_p", o.top_p},
                  {"min_p", o.min_p},
                  {"stop", o.stop},
                  {"n_fixed", o.n_fixed},
                  {"context", o.context_bins},
                  {"seed", o.seed}};
  if (model.config.objective.diffuses()) settings.update({{"steps", o.steps}, {"block_length", o.block_length}});
  return settings;
}

// The model fills in the masks of a text that has some.
bool fills(const LoadedModel& model) { return model.config.objective.masked() && !model.config.objective.diffuses(); }

void check_memory(const LoadedModel& model, int64_t rows, int64_t capacity) {
  const plan::ModelShape& s = model.shape;
  // Keys and values; logits, for a few numbers of rows (decode::Decoder) and as doubles to choose from.
  const int64_t logits = s.V * (4 * dtype_size(model.dtype) + static_cast<int64_t>(sizeof(double)));
  int64_t positions = 0;
  for (const models::Layer& layer : s.layers) positions += plan::cached_positions(layer, capacity);
  const int64_t each = 2 * positions * s.G * s.K * dtype_size(model.dtype) + logits;
  const int64_t free = run::available_memory(model.weights->device());
  if (each <= free / rows) return;
  throw user_error(
      fmt::format("--batch-size {} needs {} of memory for keys, values and logits", rows, format_bytes(rows * each)),
      fmt::format("{} are free, and each prompt has up to {} positions", format_bytes(free), capacity),
      fmt::format("give --batch-size {} or less", std::max<int64_t>(1, free / each)));
}

std::vector<std::vector<int32_t>> tokens_of_prompts(const LoadedModel& model, const Path& file,
                                                    const std::vector<PromptLine>& lines) {
  std::vector<std::vector<int32_t>> prompts;
  for (const PromptLine& line : lines) {
    prompts.push_back(data::prompt_tokens(*model.tokenizer, model.manifest.document_bos, line.text));
    if (prompts.back().empty())
      throw user_error(fmt::format("{}:{}: the prompt is empty", file.string(), line.line),
                       "the model's tokenizer has neither BOS nor EOS", "give the start of a text");
  }
  return prompts;
}

// Errors of body() name the line.
void at_line(const Path& file, const PromptLine& line, const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("{}:{}: {}", file.string(), line.line, e.message()), e.why(), e.fix());
  }
}

void check_masks(const LoadedModel& model, const Path& file, const std::vector<PromptLine>& lines) {
  for (const PromptLine& line : lines) at_line(file, line, [&] { masked_prompt(model, line.text); });
}

// The recording that a line names.
recordings::ArrayPrompt recording_of(const LoadedModel& model, const config::GenerateOptions& options,
                                     const PromptLine& line) {
  return read_prompt_array(model, line.text, options.context_bins, options.n_fixed,
                           fmt::format("{}:{}", options.prompts.string(), line.line));
}

// What is not done for several prompts at a time has no use for the options of that.
void check_useless_options(const LoadedModel& model, const config::GenerateOptions& options) {
  const bool masked = fills(model), diffuses = model.config.objective.diffuses(),
             arrays = model.tokenizer->arrays() != nullptr;
  const std::tuple<bool, const char*, bool> useless[] = {
      {options.batch_size > 0, "--batch-size", masked || diffuses || arrays},
      {options.max_tokens_given, "--max-tokens", masked},
      {!options.stop.empty(), "--stop", masked}};
  for (const auto& [given, name, is_useless] : useless)
    if (given && is_useless)
      throw user_error(fmt::format("{} has no effect with {}", name, model.folder.string()),
                       masked     ? "it fills masks in, one text after the other"
                       : diffuses ? "it makes one text after the other"
                                  : "it continues recordings, one after the other",
                       "leave it out");
}

}  // namespace

std::vector<PromptLine> read_prompts(const Path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool json = ending == ".jsonl" || ending == ".ndjson";
  if (ending == ".json")  // its brackets and quotes would be prompts
    throw user_error(fmt::format("{} is JSON, and no lines of prompts", file.string()),
                     "prompts are lines of text, or objects in the lines of a .jsonl",
                     R"(write {"prompt": "..."} in each line of a .jsonl)");
  std::vector<PromptLine> prompts;
  int64_t number = 0;
  const std::string content = read_stream(file);
  data::require_text(content, file);
  for (std::string& line : split_lines(content)) {
    ++number;
    const auto error = [&](const char* why) {
      return user_error(fmt::format("{}:{}: this is not a prompt", file.string(), number), why,
                        json ? R"(write {"prompt": "..."})" : "write the prompt as UTF-8");
    };
    if (number == 1 && line.starts_with(data::kByteOrderMark)) line.erase(0, data::kByteOrderMark.size());
    if (line.ends_with('\r')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (data::count_invalid_utf8(line) > 0) throw error("the line has bytes that are no UTF-8");
    if (!json && is_object_with_prompt(line))
      throw user_error(fmt::format("{}:{}: this is an object with a \"prompt\"", file.string(), number),
                       "the lines of this file would be prompts as they are",
                       "give the file a name that ends in .jsonl");
    prompts.push_back({json ? prompt_of_json(line, error) : std::move(line), number});
  }
  if (prompts.empty()) throw user_error(fmt::format("{} has no prompts", file.string()), {}, "write one prompt a line");
  return prompts;
}

void continue_prompts(LoadedModel& model, const std::vector<std::vector<int32_t>>& prompts, size_t first,
                      const WritingRules& rules, uint64_t seed, int64_t batch_size,
                      const std::function<void(size_t, const GeneratedText&)>& done) {
  const c10::InferenceMode no_gradients;
  struct Row {
    size_t prompt;
    TextWriter writer;
  };
  int64_t longest = 0;
  for (size_t i = first; i < prompts.size(); ++i) longest = std::max(longest, std::ssize(prompts[i]));
  const int64_t rows = std::min(batch_size, static_cast<int64_t>(prompts.size() - first));
  if (rows <= 0) return;
  const int64_t capacity = std::min(longest + rules.max_tokens, model.config.training.seq_len);
  check_memory(model, rows, capacity);
  RowDecoding decoding(model, rows, capacity);
  std::vector<std::optional<Row>> taken(static_cast<size_t>(rows));
  size_t next = first;
  for (std::vector<int64_t> active;; active.clear()) {
    for (int64_t i = 0; i < rows; ++i) {
      std::optional<Row>& row = taken[static_cast<size_t>(i)];
      if (!row && next < prompts.size()) {
        row.emplace(Row{next, TextWriter(*model.tokenizer, rules, seed + next)});
        decoding.begin(i, prompts[next++]);
      }
      if (row) active.push_back(i);
    }
    if (active.empty()) return;
    const std::vector<std::vector<double>> logits = decoding.logits(active);
    for (size_t n = 0; n < active.size(); ++n) {
      std::optional<Row>& row = taken[static_cast<size_t>(active[n])];
      if (const auto token = row->writer.next(logits[n])) {
        decoding.append(active[n], *token);
        continue;
      }
      done(row->prompt, {row->writer.take_text(), row->writer.tokens(), std::string(name_of(*row->writer.ending()))});
      row.reset();
    }
  }
}

ExitCode run_generate_prompts(LoadedModel& model, const config::GenerateOptions& options) {
  const bool masked = fills(model), diffuses = model.config.objective.diffuses(),
             arrays = model.tokenizer->arrays() != nullptr;
  if (!arrays && !model.tokenizer->has_text())
    throw user_error("--prompts needs a model of text or of recordings",
                     fmt::format("{} was trained on {}", model.folder.string(), model.manifest.tokenizer), {});
  check_useless_options(model, options);
  if (path_exists(options.out))
    throw user_error(fmt::format("--out {}: it exists", options.out.string()),
                     "the texts of an earlier command would be lost", "remove it, or give another name");
  prepare_output("--out", options.out);

  // The errors of all lines come before the first text.
  const std::vector<PromptLine> lines = read_prompts(options.prompts);
  std::vector<std::vector<int32_t>> prompts;
  if (arrays) {
    for (const PromptLine& line : lines) recording_of(model, options, line);
  } else if (masked) {
    check_masks(model, options.prompts, lines);
  } else {
    prompts = tokens_of_prompts(model, options.prompts, lines);
  }
  DenoisingRules denoising;
  if (diffuses) {
    denoising = denoising_rules(options);
    for (size_t i = 0; i < lines.size(); ++i)
      at_line(options.prompts, lines[i], [&] { check_fits(model, prompts[i], denoising); });
  }
  TextFile file(options.out, settings_of(model, options));
  std::optional<TextCount> count(std::in_place, file.next(), lines.size());
  const auto add = [&](size_t i, const char* name, Object made, int64_t tokens, std::string_view stop) {
    file.add(i, line_of({{"prompt", lines[i].text},
                         {name, std::move(made)},
                         {"tokens", tokens},
                         {"stop", stop},
                         {"seed", options.seed + i}}));
    count->add(tokens);
  };
  const WritingRules rules{options.max_tokens, sampling_of(options), options.stop};
  if (arrays) {
    for (size_t i = file.next(); i < lines.size(); ++i) {
      Object bins = Object::array();
      const auto take = [&bins](std::span<const uint8_t> bin) {
        bins.push_back(std::vector<int>(bin.begin(), bin.end()));
      };
      const GenerationCounts counts = generate_array(
          model, {recording_of(model, options, lines[i]).context, rules.max_tokens, rules.sampling, options.seed + i},
          take);
      add(i, "bins", std::move(bins), counts.generated_tokens, name_of(Ending::kLength));
    }
  } else if (masked) {
    for (size_t i = file.next(); i < lines.size(); ++i) {
      const Filled filled = fill_masks(model, {lines[i].text, rules.sampling, options.seed + i});
      add(i, "text", filled.text, std::ssize(filled.positions), "filled");
    }
  } else if (diffuses) {
    for (size_t i = file.next(); i < lines.size(); ++i) {
      const DenoisedText made = denoised_text(model, prompts[i], denoising, rules.stop, options.seed + i);
      add(i, "text", made.text, made.counts.generated_tokens, made.stop);
    }
  } else {
    continue_prompts(model, prompts, file.next(), rules, options.seed, options.batch_size > 0 ? options.batch_size : 8,
                     [&](size_t i, const GeneratedText& text) { add(i, "text", text.text, text.tokens, text.stop); });
  }
  file.finish();
  const std::string summary = count->summary();
  count.reset();  // clears its line
  log_info("{}: {}", options.out.string(), summary);
  return ExitCode::kDone;
}

}  // namespace hearth::infer
