// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/nearest.h"
#include "base/text.h"
#include "config/check.h"
#include "config/familiar_names.h"
#include "config/families.h"
#include "config/fields.h"
#include "config/import/torchtitan.h"
#include "config/toml_text.h"
#include "mesh/mesh.h"

namespace hearth::config {
namespace {

// A number that is all of `text`.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional<T>(number) : std::nullopt;
}

bool is_quoted(std::string_view text) { return text.size() >= 2 && text.front() == '"' && text.back() == '"'; }

// The parts of "[a, b]" without spaces and quotes around them; empty if the text is not such a list.
std::optional<std::vector<std::string_view>> parse_list(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(part.size() + 1, text.size()));
    const size_t begin = part.find_first_not_of(' '), end = part.find_last_not_of(' ');
    if (begin == std::string_view::npos) return std::nullopt;
    part = part.substr(begin, end + 1 - begin);
    parts.push_back(is_quoted(part) ? part.substr(1, part.size() - 2) : part);
  }
  return parts;
}

// "[1, 0.5]"
std::optional<Value> parse_numbers(std::string_view text) {
  const auto parts = parse_list(text);
  if (!parts) return std::nullopt;
  Numbers numbers;
  for (const std::string_view part : *parts) {
    const auto number = parse_number<double>(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return Value(std::move(numbers));
}

// "[norm, layers.0]", with quotes or without
std::optional<Value> parse_names(std::string_view text) {
  const auto parts = parse_list(text);
  return parts ? std::optional<Value>(Names(parts->begin(), parts->end())) : std::nullopt;
}

// The value of a --set, read as the field's type; text needs no quotes.
std::optional<Value> parse_set(const std::string& text, const Value& type) {
  if (std::holds_alternative<std::string>(type)) return Value(is_quoted(text) ? text.substr(1, text.size() - 2) : text);
  if (std::holds_alternative<Numbers>(type)) return parse_numbers(text);
  if (std::holds_alternative<Names>(type)) return parse_names(text);
  if (std::holds_alternative<bool>(type)) {
    if (text == "true") return Value(true);
    if (text == "false") return Value(false);
    return std::nullopt;
  }
  if (const auto whole = parse_number<int64_t>(text)) return as_type(*whole, type);
  if (const auto real = parse_number<double>(text)) return as_type(*real, type);
  return std::nullopt;
}

// What is wrong with an unknown key or section, and how to fix it: it is torchtitan's, or mistyped.
struct Unknown {
  std::string what, fix;
};

// Our name for `section`.`key`: that of another program's key, or a similar one of this section, or of any.
std::string suggest(const std::string& section, const std::string& key) {
  std::vector<std::string> here, anywhere, lists_here;
  for (const Field& field : fields()) {
    if (field.section == section) here.emplace_back(field.key);
    anywhere.emplace_back(field.key);
  }
  for (const Field& field : list_fields()) {
    if (field.section == section) here.emplace_back(field.key);
  }
  for (const List& list : lists()) {
    if (list.section() == section) lists_here.emplace_back(list.name.substr(section.size() + 1));
  }
  if (const std::string meant = nearest(key, lists_here); !meant.empty())
    return fmt::format("write [[{}.{}]], with two brackets, for each", section, meant);
  if (const std::string_view ours = our_name_of(key); !ours.empty()) return fmt::format("did you mean {}?", ours);
  if (const std::string meant = nearest(key, here); !meant.empty())
    return fmt::format("did you mean {}.{}?", section, meant);
  const std::string meant = nearest(key, anywhere);
  for (const Field& field : fields()) {
    if (field.key == meant) return fmt::format("did you mean {}?", field.name());
  }
  return "remove it; `hearth config docs` lists every key";
}

Unknown unknown_key(const std::string& section, const std::string& key) {
  if (const std::string_view advice = torchtitan_advice(section, key); !advice.empty())
    return {fmt::format("{}.{} is a key of torchtitan that Hearth does not have", section, key), std::string(advice)};
  return {fmt::format("{}.{} is not a key", section, key), suggest(section, key)};
}

Unknown unknown_section(const std::string& section) {
  if (const std::string_view advice = torchtitan_advice(section, {}); !advice.empty())
    return {fmt::format("[{}] is a section of torchtitan that Hearth does not have", section), std::string(advice)};
  const std::vector<std::string> names = section_names();
  const std::string meant = nearest(section, names);
  return {fmt::format("[{}] is not a section", section),
          meant.empty() ? fmt::format("remove it; the sections are {}", join(names))
                        : fmt::format("did you mean [{}]?", meant)};
}

constexpr Origin kBySet{Origin::Kind::kSet, 0};

// `key` may be empty.
void add_problem(LoadResult& result, const Origin& origin, const Unknown& problem, const std::string& key) {
  const bool by_set = origin.kind == Origin::Kind::kSet;
  result.problems.push_back({by_set ? "--set" : fmt::format("{}:{}", result.file_name, origin.line), origin.line,
                             problem.what, problem.fix, key});
}

// Stores one value in the result, or adds a problem.
void assign(LoadResult& result, const Entry& entry, const std::optional<Value>& value, const std::string& shown,
            Origin origin) {
  const Field& field = *entry.field;
  const std::string name = entry.name();
  // A wrong value is given, too: rules about missing keys must stay silent.
  result.origins[name] = origin;
  if (!value) {
    // Values that cannot be shown are called "a list" and the like.
    const char* verb = shown.starts_with("a ") ? "is" : "=";
    const std::string_view type = type_text(field.default_value());
    return add_problem(result, origin, {fmt::format("{} {} {}: not {}", name, verb, shown, type), ""}, name);
  }
  if (!field.limits.allow(*value)) {
    const bool is_numbers = std::holds_alternative<Numbers>(*value), is_names = std::holds_alternative<Names>(*value);
    const bool is_choice = is_names || std::holds_alternative<std::string>(*value);
    const auto* text = std::get_if<std::string>(&*value);
    const std::string_view advice = text == nullptr ? "" : torchtitan_value_advice(name, *text);
    const char* each = is_numbers ? "numbers, each " : is_names ? "texts, each " : "";
    const std::string what = fmt::format("{} = {} {}", name, is_numbers || is_names ? to_toml_value(*value) : shown,
                                         is_choice ? "is not a choice" : "is out of range");
    const std::string fix = advice.empty() ? fmt::format("give {}{}", each, field.limits.text()) : std::string(advice);
    return add_problem(result, origin, {what, fix}, name);
  }
  field.set(result.config, entry.item, *value);
}

// The key of a --set: "training.steps", or "data.source.0.weight". A list's table is added if it is the next one. If
// there is no such key, the result is empty and `problem` says why.
std::optional<Entry> find_entry(LoadResult& result, const std::string& name, Problem& problem) {
  const size_t first = name.find('.'), last = name.rfind('.');
  if (const Field* field = find_field(name)) return Entry{field, 0};
  const auto [what, fix] = unknown_key(name.substr(0, first), name.substr(last + 1));
  problem = {"--set", 0, first == last ? what : fmt::format("{} is not a key", name), fix, name};
  const size_t number = name.rfind('.', last - 1);
  if (number == std::string::npos || number == last) return std::nullopt;
  const List* list = find_list(std::string_view(name).substr(0, number));
  if (list == nullptr) return std::nullopt;
  const std::string index = name.substr(number + 1, last - number - 1);
  const auto item = parse_number<size_t>(index);
  const size_t size = list->size(result.config);
  if (!item || *item > size) {
    problem.what = fmt::format("{}: {} is not the index of a [[{}]] table", name, index, list->name);
    problem.fix = fmt::format("the run file has {}, counted from 0; {} adds one", size, size);
    return std::nullopt;
  }
  const Field* field = find_list_field(list->name, std::string_view(name).substr(last + 1));
  if (field == nullptr) {
    problem.fix = suggest(std::string(list->name), name.substr(last + 1));
    return std::nullopt;
  }
  if (*item == size) {
    list->resize(result.config, size + 1);
    result.origins[fmt::format("{}.{}", list->name, *item)] = kBySet;
  }
  return Entry{field, *item};
}

// A key of a file that Hearth has.
void assign_typed(LoadResult& result, const Field& field, const TomlEntry& entry, const Origin& origin) {
  const std::optional<Value> value = entry.value ? as_type(*entry.value, field.default_value()) : std::nullopt;
  assign(result, {&field, entry.item.value_or(0)}, value, entry.shown, origin);
}

// A table of a list, or a key in it.
void apply_to_list(LoadResult& result, const TomlEntry& entry, const Origin& origin) {
  const List& list = *find_list(entry.section);
  if (list.size(result.config) <= *entry.item) list.resize(result.config, *entry.item + 1);
  if (entry.key.empty()) {
    result.origins[fmt::format("{}.{}", list.name, *entry.item)] = origin;
  } else if (const Field* field = find_list_field(entry.section, entry.key)) {
    assign_typed(result, *field, entry, origin);
  } else {
    const std::string name = fmt::format("{}.{}", entry.section, entry.key);
    add_problem(result, origin, {name + " is not a key", suggest(entry.section, entry.key)}, name);
  }
}

void apply_file(LoadResult& result, std::string_view text) {
  std::vector<TomlEntry> entries;
  if (auto error = parse_toml(text, entries)) {
    result.syntax_error = true;
    return add_problem(result, {Origin::Kind::kFile, error->line}, {"this is not TOML: " + error->what, ""}, "");
  }
  const std::vector<std::string> sections = section_names();
  for (const TomlEntry& entry : entries) {
    const bool known = std::find(sections.begin(), sections.end(), entry.section) != sections.end();
    const Origin origin{Origin::Kind::kFile, entry.line};
    const std::string name = fmt::format("{}.{}", entry.section, entry.key);
    if (entry.item) {
      apply_to_list(result, entry, origin);
    } else if (entry.section.empty()) {
      add_problem(result, origin, {entry.key + " stands outside of a section", suggest({}, entry.key)}, name);
    } else if (!known && entry.key.empty()) {
      add_problem(result, origin, unknown_section(entry.section), name);
    } else if (!known || entry.key.empty()) {
      continue;  // a key of an unknown section, reported with the section; or an empty section
    } else if (const Field* field = find_field(name)) {
      assign_typed(result, *field, entry, origin);
    } else {
      add_problem(result, origin, unknown_key(entry.section, entry.key), name);
    }
  }
}

void apply_sets(LoadResult& result, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    const size_t equals = set.find('=');
    const std::string name = set.substr(0, equals);
    const size_t dot = name.find('.');
    if (equals == std::string::npos || dot == std::string::npos) {
      const bool has_name = equals != std::string::npos && !name.empty();
      add_problem(result, kBySet,
                  {fmt::format("\"{}\" is not section.key=value", set),
                   has_name ? suggest({}, name) : "write for example --set training.steps=1000"},
                  "");
      continue;
    }
    const std::string text = set.substr(equals + 1);
    Problem why;
    const std::optional<Entry> entry = find_entry(result, name, why);
    if (!entry) {
      result.problems.push_back(why);
      continue;
    }
    const Value type = entry->field->default_value();
    const bool is_text = std::holds_alternative<std::string>(type);
    assign(result, *entry, parse_set(text, type), is_text || text.empty() ? fmt::format("\"{}\"", text) : text, kBySet);
  }
}

// Keys of [model] that follow from its name and flavor.
void set_unless_given(LoadResult& result, const std::vector<Setting>& settings) {
  for (const Setting& setting : settings) {
    const Field& field = *find_field("model." + setting.key);
    if (result.origin(field.name()).given()) continue;
    field.set(result.config, 0, setting.value);
    result.origins[field.name()].kind = Origin::Kind::kFlavor;
  }
}

// Given keys may leave a key of the flavor without effect. Such a key may leave another one so.
void drop_idle(LoadResult& result) {
  const auto holds = [&](const Condition& condition) { return condition.holds(result.config); };
  for (bool dropped = true; dropped;) {
    dropped = false;
    for (const Field& field : fields()) {
      const auto origin = result.origins.find(field.name());
      if (origin == result.origins.end() || origin->second.kind != Origin::Kind::kFlavor ||
          std::all_of(field.applies_when.begin(), field.applies_when.end(), holds))
        continue;
      field.set(result.config, 0, field.default_value());
      result.origins.erase(origin);
      dropped = true;
    }
  }
}

// Sets keys that are not given and follow from given ones.
void resolve(LoadResult& result) {
  const Model model = result.config.model;
  set_unless_given(result, family_of(model).model);
  if (const Flavor* flavor = find_flavor(model.name, model.flavor); flavor != nullptr) {
    // A given width needs no rule, and a given rule no width. Given types of layers need no interval.
    std::vector<Setting> settings = flavor->model;
    const bool has_rule = result.origin("model.ffn_dim_multiplier").given();
    std::erase_if(settings, [&](const Setting& setting) {
      return (model.hidden_dim != 0 && setting.key == "ffn_dim_multiplier") ||
             (has_rule && setting.key == "hidden_dim") ||
             (!model.layer_types.empty() &&
              (setting.key == "full_attention_interval" || setting.key == "first_full_attention_layer"));
    });
    set_unless_given(result, settings);
  }
  drop_idle(result);
  if (result.config.training.device == DeviceKind::kCuda) compute_on_gpu(result);
  // warmup_fraction replaces the default warmup_steps.
  if (result.config.lr_scheduler.warmup_fraction > 0 && !result.origin("lr_scheduler.warmup_steps").given())
    result.config.lr_scheduler.warmup_steps = 0;
}

void resolve_ranks(LoadResult& result, int64_t world) {
  const std::string_view key = "parallelism.data_parallel_shard_degree";
  Parallelism& p = result.config.parallelism;
  if (world > 0 && !result.origin(key).given()) p.data_parallel_shard_degree = -1;
  mesh::Degrees degrees = p.degrees();
  // Unknown ranks: as many as the degrees say.
  if (world == 0) degrees.dp_shard = std::max<int64_t>(degrees.dp_shard, 1);
  try {
    p.data_parallel_shard_degree = mesh::resolve(degrees, world > 0 ? world : degrees.size()).dp_shard;
  } catch (const Error& error) {
    p.data_parallel_shard_degree = std::max<int64_t>(p.data_parallel_shard_degree, 1);
    const std::string at = error.key().empty() ? std::string(key) : error.key();
    result.problems.push_back({result.where(at), result.origin(at).line,
                               error.why().empty() ? error.message() : error.message() + ": " + error.why(),
                               error.fix(), at});
  }
}

}  // namespace

void compute_on_gpu(LoadResult& run) {
  Training& training = run.config.training;
  training.device = DeviceKind::kCuda;
  // A GPU's matrix units multiply bfloat16 ten times faster than float32.
  if (training.dtype == DType::kFloat32 && !run.origin("training.mixed_precision_param").given())
    training.mixed_precision_param = DType::kBFloat16;
}

LoadResult read_run_text(std::string_view text, const std::string& name, const Path& base_folder,
                         const std::vector<std::string>& sets, int64_t world) {
  LoadResult result;
  result.file_name = name;
  result.config.base_folder = base_folder;
  apply_file(result, text);
  apply_sets(result, sets);
  resolve(result);
  resolve_ranks(result, world);
  return result;
}

LoadResult read_run(const Path& toml, const std::vector<std::string>& sets, int64_t world) {
  const Path folder = toml.has_parent_path() ? toml.parent_path() : Path(".");
  return read_run_text(toml.empty() ? "" : read_stream(toml), toml.string(), folder, sets, world);
}

LoadResult read_and_check(const Path& toml, const std::vector<std::string>& sets, int64_t world) {
  LoadResult result = read_run(toml, sets, world);
  check(result, Purpose::kTrain);
  return result;
}

RunConfig load(const Path& toml, const std::vector<std::string>& sets) {
  const LoadResult result = read_and_check(toml, sets);
  throw_problems(result.file_name, result.problems);
  return result.config;
}

RunConfig from_toml_text(std::string_view text, const std::string& name, const Path& base_folder) {
  LoadResult result;
  result.file_name = name;
  result.config.base_folder = base_folder;
  apply_file(result, text);
  throw_problems(name, result.problems);
  return result.config;
}

}  // namespace hearth::config
