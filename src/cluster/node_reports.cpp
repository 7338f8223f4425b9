// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_reports.h"

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

}  // namespace hearth::cluster
