// SPDX-License-Identifier: Apache-2.0
// YAML through yaml-cpp's events: they have every line, and every key of a map that has it twice.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "config/import/foreign.h"

namespace hearth::config {
namespace {

// A map or list that is open. A list's values without maps and lists of maps become one key.
struct OpenNode {
  std::string name;  // of the node: "optimizer.params"
  int line = 0;
  bool map = true;
  std::optional<std::string> key{};  // of a map: the value comes next
  std::set<std::string> keys{};
  ForeignList list{};
  bool has_maps = false;
  size_t size = 0;  // of a list: elements so far
};

class KeyReader : public YAML::EventHandler {
 public:
  KeyReader(const std::string& file, std::vector<ForeignKey>& keys, std::vector<Problem>& problems)
      : file_(file), keys_(keys), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) problem(mark, "a second document begins here", "give each document as a file of its own");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    scalar(mark, {});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problem(mark, "an alias (*name) stands here", "write the value itself: aliases are not read");
    scalar(mark, {});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (!open_.empty() && open_.back().map && !open_.back().key) {
      begin_value(mark, value);
      return;
    }
    scalar(mark, tag == "!" ? ForeignValue{value} : plain_scalar(value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, false);
  }
  void OnSequenceEnd() override {
    OpenNode node = std::move(open_.back());
    open_.pop_back();
    const bool stored = node.has_maps && node.list.empty();
    finish(node.line, {std::move(node.list)}, stored);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, true);
  }
  void OnMapEnd() override {
    const OpenNode node = std::move(open_.back());
    open_.pop_back();
    finish(node.line, {}, !node.keys.empty());
  }

  int documents() const { return documents_; }

 private:
  static int line_of(const YAML::Mark& mark) { return mark.line + 1; }

  void problem(const YAML::Mark& mark, std::string what, std::string fix) {
    problems_.push_back(problem_at(file_, line_of(mark), std::move(what), std::move(fix)));
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) problem(mark, "an anchor (&name) stands here", "remove it: anchors are not read");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problem(mark, fmt::format("a tag ({}) stands here", tag), "remove it: tags are not read");
  }

  void begin_value(const YAML::Mark& mark, const std::string& key) {
    OpenNode& map = open_.back();
    map.key = key;
    if (key == "<<") problem(mark, "a merge (<<) stands here", "write the keys themselves: merges are not read");
    if (!map.keys.insert(key).second)
      problem(mark, fmt::format("{} stands twice in its map", key), "keep one of the two");
  }

  // The name of the value that comes next.
  std::string next_name(const YAML::Mark& mark) {
    if (open_.empty()) return {};
    OpenNode& node = open_.back();
    if (node.map && !node.key) {
      problem(mark, "a key is a map or a list", "give it a name");
      node.key = "?";
    }
    const std::string own = node.map ? *node.key : fmt::format("{}", node.size);
    return node.name.empty() ? own : fmt::format("{}.{}", node.name, own);
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, bool map) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (open_.empty() && !map) problem(mark, "the file is a list, not a map of keys", "");
    open_.push_back({next_name(mark), line_of(mark), map});
  }

  void scalar(const YAML::Mark& mark, ForeignValue value) {
    if (open_.empty()) {
      if (!value.null())
        problem(mark, "the file is a single value, not a map of keys",
                "give the file that has the trainer's keys, or a command with its options");
      return;
    }
    next_name(mark);
    finish(line_of(mark), std::move(value), false);
  }

  // A value is complete. `stored`: its keys are in the list already.
  void finish(int line, ForeignValue value, bool stored) {
    if (open_.empty()) return;
    OpenNode& node = open_.back();
    if (!node.map) {
      if (stored)
        node.has_maps = true;
      else
        node.list.push_back(std::move(value));
      ++node.size;
      return;
    }
    const std::string name = node.name.empty() ? *node.key : fmt::format("{}.{}", node.name, *node.key);
    if (!stored) {
      ForeignKey key{name, std::move(value), file_, line};
      std::replace(key.name.begin(), key.name.end(), '-', '_');
      if (key.name != name) key.shown = name;
      keys_.push_back(std::move(key));
    }
    node.key.reset();
  }

  const std::string& file_;
  std::vector<ForeignKey>& keys_;
  std::vector<Problem>& problems_;
  std::vector<OpenNode> open_;
  int documents_ = 0;
};

// JSON writes a character beyond 16 bits as two escapes, \ud83d\ude00. yaml-cpp reads them as one alone: \U0001f600.
std::string join_surrogates(std::string_view text) {
  const auto half_at = [text](size_t at, uint32_t first) -> std::optional<uint32_t> {
    uint32_t code = 0;
    if (text.substr(at, 2) != "\\u" || at + 6 > text.size()) return std::nullopt;
    const char *begin = text.data() + at + 2, *end = begin + 4;
    if (std::from_chars(begin, end, code, 16).ptr != end || code < first || code >= first + 0x400) return std::nullopt;
    return code - first;
  };
  std::string joined;
  for (size_t at = 0; at < text.size();) {
    const auto high = half_at(at, 0xD800), low = high ? half_at(at + 6, 0xDC00) : std::nullopt;
    if (low) joined += fmt::format("\\U{:08x}", 0x10000 + (*high << 10) + *low);
    const size_t kept = low ? 0 : text[at] == '\\' ? 2 : 1;  // an escaped \ begins no escape
    joined += text.substr(at, kept);
    at += low ? 12 : kept;
  }
  return joined;
}

}  // namespace

void read_foreign_yaml(std::string_view text, const std::string& file, std::vector<ForeignKey>& keys,
                       std::vector<Problem>& problems) {
  std::istringstream stream{join_surrogates(text)};
  KeyReader reader(file, keys, problems);
  try {
    YAML::Parser parser(stream);
    // After some faults the parser returns one document after another and reads nothing.
    while (parser.HandleNextDocument(reader) && reader.documents() < 2) {
    }
  } catch (const YAML::Exception& error) {
    problems.push_back(
        problem_at(file, error.mark.line + 1, fmt::format("this is neither YAML nor JSON: {}", error.msg)));
  }
}

}  // namespace hearth::config
