// SPDX-License-Identifier: Apache-2.0
#include "metrics/jsonl.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace hearth::metrics {
namespace {

constexpr std::string_view kSetPrefix = "validation_loss.";

// fmt's default for a double is the shortest text that is read back with the same bits.
void add(std::string& line, std::string_view name, double value) {
  // JSON has no NaN: callers leave out values that are not finite.
  HEARTH_CHECK(std::isfinite(value), "{} is {}", name, value);
  line += fmt::format(", \"{}\": {}", name, value);
}
void add(std::string& line, std::string_view name, const std::optional<double>& value) {
  if (value) add(line, name, *value);
}

void add_time(std::string& line, double time) {
  if (time != 0) add(line, "time", time);
}

// A list of [layer, least, most, idle].
std::string json_of(const std::vector<ExpertLoad>& loads) {
  std::string text;
  for (const ExpertLoad& load : loads)
    text += fmt::format("{}[{}, {}, {}, {}, {}]", text.empty() ? "" : ", ", load.layer, load.least, load.most,
                        load.idle, load.entropy);
  return "[" + text + "]";
}

std::string to_line(const StepRecord& r) {
  std::string line = fmt::format("{{\"step\": {}", r.step);
  add(line, "loss", r.loss);
  for (const auto& [name, value] : r.loss_parts) add(line, name, value);
  add(line, "grad_norm", r.grad_norm);
  add(line, "lr", r.lr);
  line += fmt::format(", \"tokens\": {}", r.tokens);
  add(line, "tokens_per_second", r.tokens_per_second);
  add(line, "mfu", r.mfu);
  if (r.samples > 0) line += fmt::format(", \"first_sample\": {}, \"samples\": {}", r.first_sample, r.samples);
  if (!r.skipped.empty()) line += fmt::format(", \"skipped\": \"{}\"", r.skipped);
  if (r.substituted > 0) line += fmt::format(", \"substituted\": {}", r.substituted);
  if (!r.expert_loads.empty()) line += fmt::format(", \"expert_loads\": {}", json_of(r.expert_loads));
  add(line, "data_wait_s", r.data_wait_s);
  add(line, "step_s", r.step_s);
  add_time(line, r.time);
  line += fmt::format(", \"memory_bytes\": {}", r.memory_bytes);
  add(line, "validation_loss", r.validation_loss);
  for (const auto& [name, loss] : r.validation_losses) add(line, std::string(kSetPrefix) + name, loss);
  return line + "}\n";
}

std::string json_of(const CountBins& bins) {
  std::string text;
  for (const std::vector<uint8_t>& bin : bins)
    text += fmt::format("{}[{}]", text.empty() ? "" : ", ", fmt::join(bin, ", "));
  return "[" + text + "]";
}

std::string to_line(const SampleText& s) {
  std::string line = fmt::format(R"({{"event": "sample", "step": {}, "prompt": {})", s.step, quoted(s.prompt));
  if (s.bins.made.empty())
    line += fmt::format(R"(, "text": {})", quoted(s.text));
  else
    line += fmt::format(R"(, "bins": {}, "before": {}, "real": {})", json_of(s.bins.made), json_of(s.bins.before),
                        json_of(s.bins.real));
  line += fmt::format(R"(, "tokens": {}, "ended": {}, "seed": {})", s.tokens, s.ended, s.seed);
  add_time(line, s.time);
  return line + "}\n";
}

std::optional<double> maybe(const nlohmann::json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() ? std::nullopt : std::optional<double>(it->get<double>());
}

// get_ref: get<int64_t>() would accept 1.5 and 1e300.
int64_t whole(const nlohmann::json& value) {
  constexpr int64_t kMost = int64_t{1} << 53;  // a browser has no greater whole numbers, and sums do not overflow
  const auto number = value.get_ref<const int64_t&>();
  if (number < 0 || number > kMost)
    throw nlohmann::json::other_error::create(501, fmt::format("{} is not a number of steps", number), &value);
  return number;
}
int64_t step_of(const nlohmann::json& object, const char* name) { return whole(object.at(name)); }

StepRecord from_json(const nlohmann::json& object) {
  StepRecord r;
  r.step = step_of(object, "step");
  r.loss = maybe(object, "loss");
  for (const LossPart& part : kLossParts)
    if (const auto value = maybe(object, part.name)) r.loss_parts[part.name] = *value;
  r.grad_norm = maybe(object, "grad_norm");
  r.lr = maybe(object, "lr");
  r.tokens = object.at("tokens").get_ref<const int64_t&>();
  r.tokens_per_second = object.at("tokens_per_second").get<double>();
  r.mfu = std::min(1.0, object.at("mfu").get<double>());  // an older Hearth wrote more on a busy machine
  if (object.contains("samples")) {
    r.first_sample = object.at("first_sample").get_ref<const uint64_t&>();
    r.samples = object.at("samples").get_ref<const int64_t&>();
  }
  r.skipped = object.value("skipped", "");
  if (object.contains("substituted")) r.substituted = object.at("substituted").get_ref<const int64_t&>();
  if (object.contains("expert_loads")) {
    for (const nlohmann::json& load : object.at("expert_loads"))
      r.expert_loads.push_back({whole(load.at(0)), load.at(1).get<double>(), load.at(2).get<double>(),
                                whole(load.at(3)),
                                load.size() > 4 ? load.at(4).get<double>() : 0});  // an older Hearth wrote four
  }
  r.data_wait_s = object.at("data_wait_s").get<double>();
  r.step_s = object.at("step_s").get<double>();
  r.time = object.value("time", 0.0);
  r.memory_bytes = object.at("memory_bytes").get_ref<const int64_t&>();
  r.validation_loss = maybe(object, "validation_loss");
  for (const auto& [name, value] : object.items()) {
    if (name.starts_with(kSetPrefix)) r.validation_losses[name.substr(kSetPrefix.size())] = value.get<double>();
  }
  return r;
}

std::string to_line(const Event& e) {
  std::string line = fmt::format("{{\"event\": \"{}\", \"step\": {}", e.name, e.step);
  if (e.next_sample) line += fmt::format(", \"next_sample\": {}", *e.next_sample);
  if (e.name == "rewind") {
    line += fmt::format(", \"from_step\": {}, \"rewinds\": {}, \"reason\": {}", e.from_step, e.rewinds,
                        nlohmann::json(e.reason).dump());
    add(line, "loss", e.loss);
    add(line, "grad_norm", e.grad_norm);
  }
  add_time(line, e.time);
  return line + "}\n";
}

Event event_of(const nlohmann::json& object) {
  Event e{.name = object.at("event").get<std::string>(), .step = step_of(object, "step")};
  if (object.contains("next_sample")) e.next_sample = object.at("next_sample").get_ref<const uint64_t&>();
  if (object.contains("from_step")) e.from_step = step_of(object, "from_step");
  if (object.contains("rewinds")) e.rewinds = object.at("rewinds").get_ref<const int64_t&>();
  e.reason = object.value("reason", "");
  e.time = object.value("time", 0.0);
  e.loss = maybe(object, "loss");
  e.grad_norm = maybe(object, "grad_norm");
  return e;
}

// Each bin has `neurons` counts; 0: any number, which then holds for all.
CountBins bins_of(const nlohmann::json& list, size_t& neurons) {
  CountBins bins;
  for (const nlohmann::json& counts : list.get_ref<const nlohmann::json::array_t&>()) {
    std::vector<uint8_t>& bin = bins.emplace_back();
    for (const nlohmann::json& item : counts.get_ref<const nlohmann::json::array_t&>()) {
      const auto count = item.get_ref<const uint64_t&>();
      if (count > std::numeric_limits<uint8_t>::max())
        throw nlohmann::json::other_error::create(501, "a count above 255", &item);
      bin.push_back(static_cast<uint8_t>(count));
    }
    if (neurons == 0) neurons = bin.size();
    if (bin.empty() || bin.size() != neurons)
      throw nlohmann::json::other_error::create(501, "time bins of different sizes", &list);
  }
  return bins;
}

SampleText sample_of(const nlohmann::json& object) {
  SampleText s{.step = step_of(object, "step"),
               .prompt = object.at("prompt").get<std::string>(),
               .ended = object.value("ended", false),
               .time = object.value("time", 0.0)};
  if (size_t neurons = 0; object.contains("bins")) {
    s.bins.made = bins_of(object.at("bins"), neurons);
    s.bins.before = bins_of(object.at("before"), neurons);
    s.bins.real = bins_of(object.at("real"), neurons);
    if (s.bins.made.empty()) throw nlohmann::json::other_error::create(501, "no time bins", &object);
  } else {
    s.text = object.at("text").get<std::string>();
  }
  if (object.contains("tokens")) s.tokens = object.at("tokens").get_ref<const int64_t&>();
  if (object.contains("seed")) s.seed = object.at("seed").get_ref<const uint64_t&>();
  return s;
}

bool goes_back(const Event& e) { return e.name == "resume" || e.name == "rewind"; }

// Reads only the last byte, however long the file is.
bool ends_a_line(const Path& path) {
  const File file = File::open_read(path);
  if (file.size_bytes() == 0) return true;
  char last = 0;
  file.read_at(file.size_bytes() - 1, std::as_writable_bytes(std::span(&last, 1)));
  return last == '\n';
}

// Removes half a line from the file's end.
void remove_torn_line(const Path& path) {
  if (!path_exists(path) || ends_a_line(path)) return;
  const std::string content = read_file(path);
  const size_t last = content.rfind('\n');
  write_file_atomic(path, std::string_view(content).substr(0, last == std::string::npos ? 0 : last + 1));
}

// Drops the newest items, whose steps are `step` or later ones.
template <class Item>
void drop_from(std::vector<Item>& items, int64_t step) {
  while (!items.empty() && items.back().step >= step) items.pop_back();
}

// Whether the record was added. A start and a rewind are events, so steps between events ascend. Another record is of
// an older start, which was stopped between its look at the lease and its write, and woke up later. `is_first`: no
// record has come after the newest event. A start may validate the step at which it begins again.
bool add_if_later(std::vector<StepRecord>& records, StepRecord record, bool is_first) {
  if (is_first && !records.empty() && record.step == records.back().step) records.pop_back();
  if (!records.empty() && record.step <= records.back().step) return false;
  records.push_back(std::move(record));
  return true;
}

// Calls visit with each whole line that begins with `beginning`, and damage with the number of a line that visit does
// not take. Returns whether the last line has an end.
template <class Visit, class Damage>
bool for_each_line(const Path& path, std::string_view beginning, const Visit& visit, const Damage& damage) {
  if (!path_exists(path)) return true;
  return for_each_whole_line(read_file(path), [&](std::string_view line, int64_t number) {
    if (!line.starts_with(beginning)) return;
    try {
      visit(nlohmann::json::parse(line));
    } catch (const nlohmann::json::exception& e) {
      damage(number, e);
    }
  });
}

template <class Visit>
void for_each_line(const Path& path, std::string_view beginning, const Visit& visit) {
  for_each_line(path, beginning, visit, [&path](int64_t line_number, const nlohmann::json::exception& e) {
    throw damaged(fmt::format("{}:{} is not a line of a metrics file", path.string(), line_number), e.what(),
                  "remove that line; training does not need it");
  });
}

}  // namespace

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

bool for_each_whole_line(std::string_view text,
                         const std::function<void(std::string_view line, int64_t number)>& visit) {
  int64_t number = 0;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    visit(text.substr(begin, end - begin), ++number);
  return begin == text.size();
}

File open_lines(const Path& path) {
  remove_torn_line(path);
  return File::open_append(path);
}

JsonlWriter::JsonlWriter(const Path& path) : file_(open_lines(path)) {}

// Without its name, the file's lines would be lost with the process. One in its place is somebody's copy of it.
void JsonlWriter::write(const std::string& line) {
  struct stat mine {};
  struct stat named {};
  const bool found = ::stat(file_.path().c_str(), &named) == 0;
  const bool known = (found || errno == ENOENT) && ::fstat(file_.descriptor(), &mine) == 0;
  const bool same = found && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
  if (known && !same && folder_exists(file_.path().parent_path())) {
    log_message(LogLevel::kWarning, fmt::format("{} was {}: the next lines go into it", file_.path().string(),
                                                found ? "replaced" : "removed"));
    file_ = open_lines(file_.path());
  }
  file_.write(line);
}

void JsonlWriter::append(const StepRecord& record) { write(to_line(record)); }

void JsonlWriter::append(const Event& event) { write(to_line(event)); }

void JsonlWriter::append(const SampleText& sample) { write(to_line(sample)); }

std::vector<StepRecord> read_metrics(const Path& path) {
  std::vector<StepRecord> records;
  bool is_first = true;
  for_each_line(path, "", [&](const nlohmann::json& object) {
    if (!object.contains("event")) {
      add_if_later(records, from_json(object), std::exchange(is_first, false));
    } else if (const Event event = event_of(object); goes_back(event)) {
      drop_from(records, event.step + 1);
      is_first = true;
    }
  });
  return records;
}

std::vector<Event> read_events(const Path& path) {
  std::vector<Event> events;
  for_each_line(path, "{\"event\"", [&](const nlohmann::json& object) {
    Event event = event_of(object);
    if (!goes_back(event)) return;
    std::erase_if(events, [&](const Event& before) { return before.step > event.step; });
    events.push_back(std::move(event));
  });
  return events;
}

History read_history(const Path& path) {
  History history;
  int64_t lines = 0;
  bool is_first = true;
  const auto visit = [&](const nlohmann::json& object) {
    if (!object.contains("event")) {
      StepRecord record = from_json(object);
      const int64_t step = record.step;
      ++lines;
      if (add_if_later(history.records, std::move(record), std::exchange(is_first, false)))
        drop_from(history.samples, step);  // which come after it
      return;
    }
    if (object.at("event") == "sample") return history.samples.push_back(sample_of(object));
    Event event = event_of(object);
    if (!goes_back(event)) return;
    if (event.name == "resume") event.from_step = history.records.empty() ? 0 : history.records.back().step;
    drop_from(history.records, event.step + 1);
    drop_from(history.samples, event.step + 1);
    is_first = true;
    history.events.push_back(std::move(event));
  };
  const auto damage = [&](int64_t line_number, const nlohmann::json::exception&) {
    history.damaged_lines.push_back(line_number);
  };
  history.torn = !for_each_line(path, "", visit, damage);
  history.repeated_steps = lines - std::ssize(history.records);
  return history;
}

}  // namespace hearth::metrics
