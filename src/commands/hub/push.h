// `hearth push`, which both programs have: hearth-train for --verify.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "commands/command_line.h"
#include "commands/hub/model_card.h"
#include "convert/convert.h"
#include "hub/push.h"

namespace hearth::commands {

struct PushOptions {
  Path checkpoint;
  CardInput card;
  hub::Upload upload;
  bool dry_run = false;  // prints what would be sent, and sends nothing
  bool verify = false;   // the caller sets `prove`
  // As convert::Options::prove, with the options of the conversion. Empty: nothing is compared.
  std::function<std::string(const convert::Options& options, const convert::Written& written)> prove{};
};

// Declares, parses and checks the options; empty if --help was printed.
std::optional<PushOptions> push_options(CommandLine& line);

// Converts the checkpoint, writes its card, uploads both and checks what arrived. A dry run ends before the upload, and
// needs neither the Hub's client nor a token.
int run_push(PushOptions options);

}  // namespace hearth::commands
