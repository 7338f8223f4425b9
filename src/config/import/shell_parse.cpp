// Characters of a script: places, words that are plain, ends of quotes and brackets.
#include <fmt/format.h>

#include <algorithm>

#include "config/import/shell_reader.h"

namespace hearth::config {

char ShellReader::peek(size_t ahead) const {
  const Letters& source = *place_.source;
  return place_.at + ahead < source.size() ? source[place_.at + ahead].c : '\0';
}

bool ShellReader::starts(std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i) {
    if (peek(i) != text[i]) return false;
  }
  return true;
}

int ShellReader::line() const {
  const Letters& source = *place_.source;
  if (source.empty()) return 0;
  return source[std::min(place_.at, source.size() - 1)].line;
}

void ShellReader::fault(std::string what) const { throw ShellFault{line(), std::move(what)}; }

void ShellReader::skip_blanks() {
  for (;;) {
    if (peek() == ' ' || peek() == '\t')
      ++place_.at;
    else if (starts("\\\n"))
      place_.at += 2;
    else
      return;
  }
}

void ShellReader::skip_separators() {
  for (;;) {
    skip_blanks();
    if (peek() == '#') {
      while (peek() != '\n' && peek() != '\0') ++place_.at;
    } else if (peek() == '\n') {
      ++place_.at;
      skip_here_documents();
    } else if ((peek() == ';' && peek(1) != ';') || (peek() == '&' && peek(1) != '&')) {
      ++place_.at;
    } else {
      return;
    }
  }
}

void ShellReader::skip_here_documents() {
  for (const std::string& end : here_) {
    for (;;) {
      if (peek() == '\0') fault(fmt::format("a here-document has no end {}", end));
      std::string text;
      while (peek() != '\n' && peek() != '\0') text += (*place_.source)[place_.at++].c;
      if (peek() == '\n') ++place_.at;
      while (text.starts_with('\t')) text.erase(0, 1);
      if (text == end) break;
    }
  }
  here_.clear();
}

std::string ShellReader::keyword() const {
  static constexpr std::string_view kEnds = " \t\n;&|()<>";
  for (const std::string_view mark : {"[[", "{", "}", "!"}) {
    const char next = peek(mark.size());
    if (starts(mark) && (next == '\0' || kEnds.find(next) != std::string_view::npos)) return std::string(mark);
  }
  std::string text;
  for (size_t i = 0; peek(i) >= 'a' && peek(i) <= 'z'; ++i) text += peek(i);
  const char next = peek(text.size());
  return next == '\0' || kEnds.find(next) != std::string_view::npos ? text : std::string();
}

bool ShellReader::take(std::string_view word) {
  if (keyword() != word) return false;
  place_.at += word.size();
  return true;
}

void ShellReader::expect(std::string_view word) {
  skip_separators();
  if (!take(word)) fault(fmt::format("`{}` is missing here", word));
}

void ShellReader::skip_to(char close) {
  const char open = close == ')' ? '(' : '{';
  char quote = 0;
  for (int level = 1; peek() != '\0'; ++place_.at) {
    const char c = peek();
    if (c == '\\' && quote != '\'') {
      ++place_.at;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '\'' || c == '"' || c == '`') {
      quote = c;
    } else if (c == open) {
      ++level;
    } else if (c == close && --level == 0) {
      ++place_.at;
      return;
    }
  }
  fault(fmt::format("a {} is missing", close));
}

Letters ShellReader::between(size_t begin, size_t end) const {
  const auto first = place_.source->begin();
  return {first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end)};
}

std::string ShellReader::name_at() const {
  const auto fits = [](char c, bool first) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
  };
  std::string name;
  while (fits(peek(name.size()), name.empty())) name += peek(name.size());
  return name;
}

}  // namespace hearth::config
