// `hearth convert`, which both programs have: hearth-train for --verify.
#pragma once

#include <optional>

#include "commands/command_line.h"
#include "convert/convert.h"

namespace hearth::commands {

struct ConvertOptions {
  convert::Options options;
  bool verify = false;  // the caller sets options.prove
};

// Declares, parses and checks the options; empty if --help was printed.
std::optional<ConvertOptions> convert_options(CommandLine& line);

// Converts, and says what was written.
int run_convert(const convert::Options& options);

}  // namespace hearth::commands
