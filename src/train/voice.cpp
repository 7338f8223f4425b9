// SPDX-License-Identifier: Apache-2.0
#include "train/voice.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/program.h"
#include "train/journal.h"

namespace hearth::train {

Voice::Voice(const run::Run& run, int64_t rank) : log_(run.folder.logs(), rank), prints_(rank == 0) {
  log_.write(LogLevel::kDebug,
             fmt::format("hearth {}, LibTorch {}, process {}", version_text(), HEARTH_LIBTORCH_VERSION, ::getpid()));
}

void Voice::say(LogLevel level, const std::string& text) {
  print(fmt::format("{}{}\n", console_prefix(level), text));
  log_.write(level, text);
}

void Voice::print(const std::string& text) const {
  if (prints_) metrics::write_text(stdout, text);
}

}  // namespace hearth::train
