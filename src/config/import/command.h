// SPDX-License-Identifier: Apache-2.0
// The command of a training as bash runs it, with every value in its place: words, quotes, and lines of NAME=value.
//
// A person pastes the command, or gives what bash prints after `set -x`: a trace, whose lines begin with +. Options may
// have lines of their own. A text that only bash can expand is a script, and is refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::config {

struct CommandWord {
  std::string text;
  int line = 0;           // where its first character stands
  std::string unknown{};  // with keep_names: its first "$NAME" or "${NAME}", which only bash can expand
};

struct CommandText {
  // The command, and options that have their own lines. A trace has every command that ran.
  std::vector<std::vector<CommandWord>> commands;
  std::vector<CommandWord> names;        // NAME=value, each in a line of its own
  std::vector<CommandWord> environment;  // NAME=value in front of the command
  bool trace = false;
};

// Thrown: the text is a script, or has a syntax error.
struct CommandFault {
  int line;
  std::string what;
  bool script = true;
  bool inside = false;  // in the command of `bash -c`
  std::string fix{};    // empty: the usual one
};

// Throws CommandFault. `keep_names`: $NAME and ${NAME} stay in their words as written, and are not faults.
CommandText read_command_text(std::string_view text, bool keep_names = false);

// Whether a text is a command, options, names or a script, rather than TOML, YAML or JSON.
bool is_command_text(std::string_view text);

// A line without the blanks around it.
std::string_view without_blanks(std::string_view line);

// The number of the line that looks most like a training's command in a script; 0: none does.
int likely_command_line(std::string_view script);

}  // namespace hearth::config
