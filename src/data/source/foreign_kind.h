// SPDX-License-Identifier: Apache-2.0
// Kinds of files that are not text: archives, pictures, documents, programs, weights, and text in another encoding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::data {

// foreign_kind() needs at least this many of a file's first bytes, or all of a shorter file.
inline constexpr size_t kKindBytes = 1 << 16;

struct ForeignKind {
  std::string name;  // "a tar archive"
  std::string why;   // the evidence if the bytes have no signature of a kind; may be empty
  std::string fix;   // what makes it readable, mostly a command; empty: nothing does
};

// The kind of a file's `first_bytes`, which are unpacked already if the file is compressed. `path` is its name for
// commands. Nothing for text, which may be in an 8-bit encoding, and for an empty file.
std::optional<ForeignKind> foreign_kind(std::string_view first_bytes, const Path& path);

// Throws user_error that names the kind, if these are a file's bytes and no text. For commands that read texts whole,
// as they are in the file.
void require_text(std::string_view bytes, const Path& path);

// Finds text files whose later parts are no text, because an archive was appended or blocks of a disk were lost. Looks
// for control characters and zeros in the middle, at three quarters and at the end of `size` bytes. `read` gives
// kKindBytes from a position on. Nothing if all parts are text, and for small files.
std::optional<ForeignKind> foreign_rest(int64_t size, const std::function<std::string_view(int64_t position)>& read);

}  // namespace hearth::data
