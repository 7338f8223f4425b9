// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_reports.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "base/text.h"

namespace hearth::cluster {

std::vector<OddNode> odd_nodes(std::string_view reports) {
  std::map<std::string, std::vector<std::string>> found;  // by node
  for (const std::string& line : split_lines(reports)) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() > 2 && words[0] == "found") found[words[1]].push_back(join(std::span(words).subspan(2), " "));
  }
  std::map<std::pair<size_t, std::string>, size_t> counts;
  for (const auto& [node, texts] : found)
    for (size_t i = 0; i < texts.size(); ++i) ++counts[{i, texts[i]}];
  std::map<size_t, std::string> usual;
  for (const auto& [text, count] : counts)
    if (2 * count > found.size()) usual[text.first] = text.second;
  std::vector<OddNode> odd;
  for (const auto& [node, texts] : found)
    for (const auto& [i, text] : usual)
      if (i < texts.size() && texts[i] != text) {
        odd.push_back({node, texts[i], text});
        break;
      }
  return odd;
}

OtherFolder nodes_with_another_folder(std::string_view reports) {
  std::vector<std::string> same, other;
  bool same_knows = false, other_knows = false;
  for (const std::string& line : split_lines(reports)) {
    const std::vector<std::string> words = split(line, ' ');
    if (words.size() != 4 || words[0] != "folder") continue;
    const bool knows = words[3] == "known";
    (words[2] == "same" ? same : other).push_back(words[1]);
    (words[2] == "same" ? same_knows : other_knows) |= knows;
  }
  if (same.empty() || other.empty()) return {};
  std::sort(same.begin(), same.end());
  std::sort(other.begin(), other.end());
  const bool others_are_right = same_knows == other_knows ? other.size() > same.size() : other_knows;
  return others_are_right ? OtherFolder{same, other.front()} : OtherFolder{other, same.front()};
}

}  // namespace hearth::cluster
