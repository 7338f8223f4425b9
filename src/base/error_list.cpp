// SPDX-License-Identifier: Apache-2.0
#include "base/error_list.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

std::string text_of(const std::string& title, const std::vector<Error>& list) {
  std::string text = fmt::format("{} has {} errors", title, list.size());
  for (const Error& error : list) {
    text += fmt::format("\n  {}", error.message());
    if (!error.why().empty()) text += fmt::format("\n      why: {}", error.why());
    if (!error.fix().empty()) text += fmt::format("\n      fix: {}", error.fix());
  }
  return text;
}

ExitCode code_of(const std::vector<Error>& list) {
  const auto is_users = [](const Error& error) { return error.code() == ExitCode::kUser; };
  return std::any_of(list.begin(), list.end(), is_users) ? ExitCode::kUser : list.front().code();
}

}  // namespace

Errors::Errors(const std::string& title, std::vector<Error> list)
    : Error(code_of(list), text_of(title, list)), list_(std::move(list)) {}

void ErrorList::keep(const Error& error) {
  const auto same = [&](const Error& other) { return std::string_view(error.what()) == other.what(); };
  if (std::none_of(list_.begin(), list_.end(), same)) list_.push_back(error);
}

void ErrorList::throw_if_any(const std::string& title) const {
  if (list_.empty()) return;
  if (list_.size() == 1) throw list_.front();
  throw Errors(title, list_);
}

}  // namespace hearth
