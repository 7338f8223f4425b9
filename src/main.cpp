#include "base/error.h"
#include "commands/commands.h"

namespace {

int run(int argc, char** argv) {
  return hearth::commands::run_program({"hearth", "", hearth::commands::all_commands()}, argc, argv);
}

}  // namespace

int main(int argc, char** argv) { return hearth::run_and_report(run, argc, argv); }
