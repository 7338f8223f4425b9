// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

namespace hearth {
namespace {

// A name from outside may have control characters, which would move the cursor or begin a line that looks like ours.
// Lists of ours begin their lines with spaces: those stay.
std::string safe(const std::string& text) {
  std::string safe;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool begins_a_row = c == '\n' && i + 1 < text.size() && text[i + 1] == ' ';
    if ((c >= 0x20 && c != 0x7f) || c == '\t' || begins_a_row)
      safe += text[i];
    else
      safe += c == '\n' ? "\\n" : fmt::format("\\x{:02x}", c);
  }
  return safe;
}

}  // namespace

Error::Error(ExitCode code, std::string what, std::string why, std::string fix)
    : code_(code), what_(std::move(what)), why_(std::move(why)), fix_(std::move(fix)) {
  what_ = safe(what_);
  full_ = "error: " + what_;
  if (!why_.empty()) full_ += "\n  why: " + why_;
  if (!fix_.empty()) full_ += "\n  fix: " + fix_;
}

Error Error::about(std::string key) const {
  Error same = *this;
  same.key_ = std::move(key);
  return same;
}

Error user_error(std::string what, std::string why, std::string fix) {
  return {ExitCode::kUser, std::move(what), std::move(why), std::move(fix)};
}

Error damaged(std::string what, std::string why, std::string fix) {
  return {ExitCode::kDamaged, std::move(what), std::move(why), std::move(fix)};
}

Error system_error(std::string what, int error_number, std::string fix) {
  constexpr int kWrongPath[] = {ENOENT, EACCES, EPERM, EROFS, ENOTDIR, EISDIR, EEXIST, ELOOP, ENAMETOOLONG};
  const bool is_users = std::find(std::begin(kWrongPath), std::end(kWrongPath), error_number) != std::end(kWrongPath);
  if ((error_number == ENOSPC || error_number == EDQUOT) && fix.empty())
    fix = "free some space or choose another folder, then run the same command again";
  return {is_users ? ExitCode::kUser : ExitCode::kHardware, std::move(what), std::strerror(error_number),
          std::move(fix)};
}

void check_failed(const char* condition, const char* file, int line, std::string_view detail) {
  throw Error(ExitCode::kBug,
              fmt::format("internal check failed: {}{}{}", condition, detail.empty() ? "" : ": ", detail),
              fmt::format("{}:{}", file, line), "this is a bug in Hearth: please report it with the command line");
}

}  // namespace hearth
