// SPDX-License-Identifier: Apache-2.0
#include "commands/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/nearest.h"
#include "base/text.h"

namespace hearth::commands {
namespace {

template <typename... Bodies>
struct Overloaded : Bodies... {
  using Bodies::operator()...;
};
template <typename... Bodies>
Overloaded(Bodies...) -> Overloaded<Bodies...>;  // clang 14 needs this deduction guide

template <typename Number>
Number parse_number(const std::string& text, const std::string& name, const char* kind) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    throw user_error(fmt::format("{} = {} is too large", name, text), fmt::format("it is {}", kind));
  if (error != std::errc() || end != text.data() + text.size())
    throw user_error(fmt::format("{} = \"{}\" is not {}", name, text, kind));
  return value;
}

}  // namespace

Argument::Argument(std::string spec, Target target, Allowed allowed, std::string help)
    : spec_(std::move(spec)), help_(std::move(help)), target_(target), allowed_(std::move(allowed)) {
  required_ = positional();
}

bool Argument::repeated() const {
  return std::visit(Overloaded{[]<typename T>(std::vector<T>*) { return true; }, [](auto*) { return false; }}, target_);
}

std::string Argument::default_text() const {
  if (required_ || help_.find("default") != std::string::npos) return {};  // the help says it in words
  return std::visit(Overloaded{[](const bool*) { return std::string(); },
                               []<typename T>(const std::vector<T>*) { return std::string(); },
                               [](const Path* value) { return value->string(); },
                               [](const auto* value) { return fmt::format("{}", *value); }},
                    target_);
}

std::string Argument::row_text() const {
  std::string text = help_;
  if (!allowed_.choices.empty()) text += fmt::format("; one of {}", join(allowed_.choices));
  if (const std::string shown = default_text(); !shown.empty()) text += fmt::format(" (default: {})", shown);
  if (required_ && !positional()) text += " (required)";
  if (repeated() && !positional()) text += " (may be repeated)";
  return text;
}

void Argument::assign_one(const std::string& text) const {
  const auto number = [&]<typename T>(T) {
    const char* kind = std::is_same_v<T, double>    ? "a number"
                       : std::is_same_v<T, int64_t> ? "a whole number"
                                                    : "a whole number from 0 on";
    const T value = parse_number<T>(text, name(), kind);
    const auto real = static_cast<double>(value);
    const auto& [least, most, choices] = allowed_;
    if ((least && !(real >= *least)) || (most && !(real <= *most)))
      throw user_error(
          fmt::format("{} = {} is out of range", name(), text), {},
          most ? fmt::format("give a number from {} to {}", *least, *most) : fmt::format("give at least {}", *least));
    return value;
  };
  const std::vector<std::string>& choices = allowed_.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), text) == choices.end())
    throw user_error(fmt::format("{} = \"{}\" is not a choice", name(), text), {},
                     fmt::format("give one of: {}", join(choices)));
  std::visit(Overloaded{[](bool* value) { *value = true; },          //
                        [&](std::string* value) { *value = text; },  //
                        [&](Path* value) { *value = text; },         //
                        [&](std::vector<int64_t>* values) { values->push_back(number(int64_t{})); },
                        [&]<typename T>(std::vector<T>* values) { values->push_back(text); },
                        [&]<typename T>(T* value) { *value = number(T{}); }},
             target_);
}

void Argument::assign(const std::vector<std::string>& given) const {
  if (given.size() > 1 && !repeated() && !is_flag())
    throw user_error(fmt::format("{} is given {} times", name(), given.size()), {}, "give it once");
  for (const std::string& text : given) assign_one(text);
}

Argument& CommandLine::option(std::string spec, Argument::Target value, Allowed allowed, std::string help) {
  declared_.push_back(Argument(std::move(spec), value, std::move(allowed), std::move(help)));
  return declared_.back();
}

std::string CommandLine::meant_by(const std::string& word, const std::vector<std::vector<std::string>>& given) const {
  const bool is_option = word.starts_with("-");
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> names = {"--help"};
  for (size_t i = 0; i < declared_.size(); ++i) {
    const Argument& argument = declared_[i];
    // A word alone is the value of what is missing: `hearth eval RUN`.
    if (!is_option && argument.required_ && !argument.positional() && given[i].empty())
      return fmt::format("write {} {}", argument.name(), word);
    if (!argument.positional()) names.push_back(argument.name());
  }
  if (!is_option) return {};
  for (const auto& [options, instead] : elsewhere_)
    if (std::find(options.begin(), options.end(), name) != options.end()) return instead;
  // torchtitan's way to set a key.
  if (name.find('.') != std::string::npos && std::find(names.begin(), names.end(), "--set") != names.end())
    return fmt::format("write --set {}{}", word.substr(word.find_first_not_of('-')), word == name ? "=VALUE" : "");
  const std::string meant = nearest(name, names);
  return meant.empty() ? meant : fmt::format("did you mean {}?", meant);
}

bool CommandLine::parse() {
  const std::string help_hint = fmt::format("{} {} --help lists its options", program_, command_.name);
  // CLI11 splits the words. The values stay text until assign(), which has better messages.
  CLI::App app;
  app.set_help_flag("--help,-h");
  app.allow_extras();
  std::vector<std::vector<std::string>> given(declared_.size());
  std::vector<CLI::Option*> flags(declared_.size(), nullptr);
  for (size_t i = 0; i < declared_.size(); ++i) {
    const Argument& argument = declared_[i];
    if (argument.is_flag()) {
      flags[i] = app.add_flag(argument.name());
      continue;
    }
    CLI::Option* option = app.add_option(argument.name(), given[i]);
    const bool many = argument.positional() && argument.repeated();
    option->allow_extra_args(many);
    if (!many)
      option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->type_size(1)
          ->expected(1, CLI::detail::expected_max_vector_size);
    if (argument.positional() && !many) option->expected(1);
  }
  try {
    app.parse(std::vector<std::string>(arguments_.rbegin(), arguments_.rend()));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help());
    return false;
  } catch (const CLI::ArgumentMismatch& error) {
    // The option's name is only in the message, at its beginning.
    const std::string what = error.what(), name = what.substr(0, what.find(':'));
    for (const Argument& argument : declared_)
      if (argument.name() == name)
        throw user_error(fmt::format("{} needs a value", name), {},
                         fmt::format("write {}: {}", argument.heading(), argument.help_));
    throw user_error(what, {}, help_hint);
  } catch (const CLI::ParseError& error) {
    throw user_error(error.what(), {}, help_hint);
  }
  for (const std::string& word : app.remaining()) {
    if (word == "--") continue;  // marks the end of the options
    const std::string meant = meant_by(word, given);
    throw user_error(
        fmt::format("{} {} does not take \"{}\"", program_, command_.name, word), {},
        meant.empty() ? help_hint : fmt::format("{}{} {}", meant, meant.ends_with('?') ? "" : ";", help_hint));
  }
  for (size_t i = 0; i < declared_.size(); ++i) {
    const Argument& argument = declared_[i];
    if (flags[i] != nullptr && flags[i]->count() > 0) given[i].emplace_back();
    if (argument.required_ && given[i].empty())
      throw user_error(fmt::format("{} {} needs {}: {}", program_, command_.name, argument.heading(), argument.help_),
                       {}, fmt::format("for example: {} {}", program_, split_lines(command_.example).front()));
    argument.assign(given[i]);
    if (!given[i].empty()) given_.push_back(argument.name());
  }
  return true;
}

bool CommandLine::given(std::string_view option) const {
  return std::find(given_.begin(), given_.end(), option) != given_.end();
}

std::string CommandLine::usage() const {
  std::string text = fmt::format("usage: {} {}", program_, command_.name);
  bool optional = false;
  for (const Argument& argument : declared_) {
    if (argument.positional()) continue;
    if (argument.required_)
      text += " " + argument.heading();
    else
      optional = true;
  }
  if (optional) text += " [OPTIONS]";
  for (const Argument& argument : declared_)
    if (argument.positional())
      text += argument.required_ ? " " + argument.heading() : fmt::format(" [{}]", argument.heading());
  return text;
}

std::string CommandLine::help() const {
  std::vector<TextRow> positionals, options;
  for (const Argument& argument : declared_)
    (argument.positional() ? positionals : options).push_back({argument.heading(), argument.row_text()});
  options.push_back({"--help", "show this text"});
  std::string text = fmt::format("{}\n\n{}.\n", usage(), sentence(command_.help));
  if (!positionals.empty()) text += "\narguments:\n" + format_rows(positionals);
  text += "\noptions:\n" + format_rows(options);
  for (const std::string& more : appended_) text += "\n" + more;
  text += "\nexample:\n";
  for (const std::string& line : split_lines(command_.example)) text += fmt::format("  {} {}\n", program_, line);
  return text;
}

}  // namespace hearth::commands
