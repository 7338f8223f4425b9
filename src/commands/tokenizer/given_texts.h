// SPDX-License-Identifier: Apache-2.0
// The texts that a command reads: files, or standard input.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/formats/stream_buffer.h"

namespace hearth::commands {

inline std::string read_standard_input() {
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot read standard input", errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
  }
}

// The files' contents without their byte order marks, as `data build` reads them; without files, standard input's.
inline std::vector<std::string> read_texts(const std::vector<Path>& files) {
  if (files.empty()) return {read_standard_input()};
  std::vector<std::string> texts;
  for (const Path& file : files) {
    if (!path_exists(file))
      throw user_error(fmt::format("there is no file {}", file.string()), {},
                       "give files, or a text on standard input: echo \"a text\" | hearth tokenizer ...");
    texts.push_back(read_stream(file));
    if (texts.back().starts_with(data::kByteOrderMark)) texts.back().erase(0, data::kByteOrderMark.size());
  }
  return texts;
}

}  // namespace hearth::commands
