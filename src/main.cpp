// SPDX-License-Identifier: Apache-2.0
#include "base/program.h"
#include "commands/commands.h"

int main(int argc, char** argv) {
  const auto run = [](int count, char** words) {
    return hearth::commands::run_program({"hearth", "", hearth::commands::all_commands()}, count, words);
  };
  return hearth::run_and_report(run, argc, argv);
}
