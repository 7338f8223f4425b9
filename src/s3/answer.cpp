// SPDX-License-Identifier: Apache-2.0
#include "s3/answer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace hearth::s3 {
namespace {

using Kind = StoreResult::Kind;

constexpr size_t kMostText = 4096;

constexpr std::array<std::pair<std::string_view, char>, 5> kEntities{
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};

// `name` is what stands between "&" and ";". An unknown one stays as it is.
std::string entity(std::string_view name) {
  for (const auto& [text, c] : kEntities)
    if (name == text) return {c};
  if (name.starts_with("#")) {
    const bool is_hex = name.starts_with("#x");
    const std::string_view digits = name.substr(is_hex ? 2 : 1);
    int value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
    if (error == std::errc() && end == digits.data() + digits.size() && value > 0 && value < 128)
      return {static_cast<char>(value)};
  }
  return "&" + std::string(name) + ";";
}

std::string unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t begin = text.find('&');
    plain += text.substr(0, begin);
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin + 1);
    const size_t end = text.substr(0, 10).find(';');
    if (end == std::string_view::npos) {
      plain += '&';
    } else {
      plain += entity(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
  }
  return plain;
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> of) {
  return std::find(of.begin(), of.end(), text) != of.end();
}

}  // namespace

std::string element(std::string_view xml, std::string_view name) {
  for (size_t at = xml.find('<'); at != std::string_view::npos; at = xml.find('<', at + 1)) {
    std::string_view rest = xml.substr(at + 1);
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    const bool is_name = !rest.empty() && std::string_view("> \t\r\n/").find(rest.front()) != std::string_view::npos;
    if (!is_name) continue;  // a longer one
    const size_t begin = rest.find('>');
    if (begin == std::string_view::npos || (begin > 0 && rest[begin - 1] == '/')) return {};
    rest.remove_prefix(begin + 1);
    const size_t end = rest.find('<');
    if (end == std::string_view::npos) return {};
    return unescaped(rest.substr(0, std::min(end, kMostText)));
  }
  return {};
}

std::vector<std::string_view> insides(std::string_view xml, std::string_view name) {
  const std::string begin = "<" + std::string(name) + ">", end = "</" + std::string(name) + ">";
  std::vector<std::string_view> found;
  for (;;) {
    const size_t first = xml.find(begin);
    if (first == std::string_view::npos) return found;
    xml.remove_prefix(first + begin.size());
    const size_t last = xml.find(end);
    if (last == std::string_view::npos) return found;
    found.push_back(xml.substr(0, last));
    xml.remove_prefix(last + end.size());
  }
}

std::string escaped(std::string_view text) {
  std::string xml;
  for (const char c : text) {
    const auto* const found = std::ranges::find(kEntities, c, &std::pair<std::string_view, char>::second);
    if (found == kEntities.end() || c == '\'')
      xml += c;
    else
      xml += "&" + std::string(found->first) + ";";
  }
  return xml;
}

AnswerMeaning verdict_of(long status, std::string_view body) {
  AnswerMeaning verdict;
  const bool says_error = body.substr(0, kMostText).find("<Error") != std::string_view::npos;
  if (status / 100 == 2 && !says_error) return verdict;
  if (says_error) verdict.code = element(body, "Code").substr(0, 100);
  verdict.result.why = "the store answers " + std::to_string(status) + (verdict.code.empty() ? "" : " " + verdict.code);
  // A damaged or slow body of the request is an error of the way, although HTTP says that the sender is at fault.
  // ConditionalRequestConflict: another request for the same object is under way, perhaps our own earlier one.
  verdict.try_again = status == 408 || status == 409 || status == 429 || (status / 100 == 5 && status != 501) ||
                      is_one_of(verdict.code, {"InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout",
                                               "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody"});
  if (verdict.try_again)
    verdict.result.kind = Kind::kUnreachable;
  else
    verdict.result.kind = status == 404 ? Kind::kMissing : Kind::kRefused;
  return verdict;
}

}  // namespace hearth::s3
