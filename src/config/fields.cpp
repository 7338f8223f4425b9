// SPDX-License-Identifier: Apache-2.0
#include "config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "base/error.h"

namespace hearth::config {
namespace {

template <auto Section, auto Member>
List list(std::string_view name, std::string_view help, AppliesWhen applies_when = {}) {
  return {name, help, [](const RunConfig& config) { return (config.*Section.*Member).size(); },
          [](RunConfig& config, size_t size) { (config.*Section.*Member).resize(size); }, std::move(applies_when)};
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kSections = {{
    {"job", "Where the run lives."},
    {"model", "The shape of the model."},
    {"objective", "What the model learns to predict."},
    {"optimizer", "How gradients become updates."},
    {"lr_scheduler", "The learning rate over the steps: warm-up, stable, decay."},
    {"training", "What is trained, how long, in which batches."},
    {"parallelism", "How ranks share the work."},
    {"checkpoint", "What is saved, and what a run starts from."},
    {"validation", "Measuring on held-out documents while training."},
    {"metrics", "What is shown."},
    {"profiling", "Where time and memory go."},
    {"comm", "Talk between ranks."},
    {"data", "The token shards."},
    {"memory", "Memory against speed."},
    {"numerics", "How numbers are computed and averaged."},
}};

}  // namespace

std::string Field::name(size_t item) const {
  return in_list() ? fmt::format("{}.{}.{}", section, item, key) : fmt::format("{}.{}", section, key);
}

Value Field::value(const RunConfig& config, size_t item) const {
  // A pointer into a const object is only read.
  const FieldPointer place = pointer(const_cast<RunConfig&>(config), item);
  if (const auto* choice = std::get_if<ChoicePointer>(&place)) return std::string(choice->name(choice->member));
  return std::visit(
      []<class Member>(Member member) -> Value {
        if constexpr (std::is_pointer_v<Member>) return *member;
        HEARTH_CHECK(false, "a choice");
      },
      place);
}

void Field::set(RunConfig& config, size_t item, const Value& value) const {
  std::visit(
      [&]<class Member>(const Member& member) {
        if constexpr (std::is_pointer_v<Member>)
          *member = std::get<std::remove_pointer_t<Member>>(value);
        else
          HEARTH_CHECK(member.assign(member.member, std::get<std::string>(value)), "{}", name(item));
      },
      pointer(config, item));
}

Value Field::default_value() const {
  static const RunConfig kDefaults = [] {
    RunConfig config;
    for (const List& list : lists()) list.resize(config, 1);
    return config;
  }();
  return value(kDefaults);
}

std::string_view Field::type() const {
  static constexpr std::string_view kTypes[] = {"bool", "integer", "number", "string", "numbers", "strings"};
  static_assert(std::size(kTypes) == std::variant_size_v<Value>);
  return kTypes[default_value().index()];
}

const Field* find_field(std::string_view name) {
  for (const Field& field : fields()) {
    const size_t dot = field.section.size();
    if (name.size() == dot + 1 + field.key.size() && name.starts_with(field.section) && name[dot] == '.' &&
        name.ends_with(field.key))
      return &field;
  }
  return nullptr;
}

std::span<const List> lists() {
  static const std::vector<List> all = {
      list<&RunConfig::optimizer, &Optimizer::group>(
          "optimizer.group", "Parameters with a learning rate or a decay of their own; the first that matches counts."),
      list<&RunConfig::validation, &Validation::set>(
          "validation.set",
          "Sets to measure on, each with a loss of its own. None: the held-out documents of the data.",
          {{Condition::Kind::kIsNot, {"validation.freq"}, {int64_t{0}}}}),
      list<&RunConfig::data, &Data::source>("data.source", "Datasets that are mixed, instead of `data.path`."),
      list<&RunConfig::data, &Data::segment>(
          "data.segment", "Other weights from a point of the training on, such as for its last tokens.",
          {{Condition::Kind::kGiven, {"data.source"}}}),
  };
  return all;
}

const List* find_list(std::string_view name) {
  const auto found = std::find_if(lists().begin(), lists().end(), [&](const List& list) { return list.name == name; });
  return found == lists().end() ? nullptr : &*found;
}

const Field* find_list_field(std::string_view list, std::string_view key) {
  for (const Field& field : list_fields()) {
    if (field.section == list && field.key == key) return &field;
  }
  return nullptr;
}

std::vector<Entry> entries(const RunConfig& config) {
  std::vector<Entry> result;
  const auto add_lists_of = [&](std::string_view section) {
    for (const List& list : lists()) {
      if (list.section() != section) continue;
      for (size_t item = 0; item < list.size(config); ++item) {
        for (const Field& field : list_fields()) {
          if (field.section == list.name) result.push_back({&field, item});
        }
      }
    }
  };
  std::string_view section = fields().front().section;
  for (const Field& field : fields()) {
    if (field.section != section) add_lists_of(section);
    section = field.section;
    result.push_back({&field, 0});
  }
  add_lists_of(section);
  return result;
}

std::string Entry::heading() const {
  const std::span<const Field> all = field->in_list() ? list_fields() : fields();
  if (field != all.data() && (field - 1)->section == field->section) return {};
  return field->in_list() ? fmt::format("[[{}]]", field->section) : fmt::format("[{}]", field->section);
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& [name, help] : kSections) names.emplace_back(name);
  return names;
}

std::string_view section_help(std::string_view section) {
  for (const auto& [name, help] : kSections) {
    if (name == section) return help;
  }
  return {};
}

}  // namespace hearth::config
