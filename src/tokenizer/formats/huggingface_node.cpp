// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tokenizer/bpe/bpe.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

const Json kNull;
constexpr size_t kShown = 60;  // bytes of a value that an error shows

std::string shown(const Json& json) {
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace

bool Node::is_null() const { return json_.is_null(); }

bool Node::has(std::string_view key) const {
  if (!json_.is_object()) return false;
  const auto found = json_.find(key);
  return found != json_.end() && !found->is_null();
}

Node Node::at(std::string_view key) const {
  if (!json_.is_object()) throw wrong(fmt::format("is {}, not an object", shown(json_)));
  const auto found = json_.find(key);
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  return {found == json_.end() ? kNull : *found, path, origin_};
}

std::vector<Node> Node::items(std::string_view key) const {
  const Node list = at(key);
  if (!list.json_.is_array()) throw list.wrong(fmt::format("is {}, not a list", shown(list.json_)));
  std::vector<Node> nodes;
  nodes.reserve(list.json_.size());
  for (size_t i = 0; i < list.json_.size(); ++i)
    nodes.emplace_back(list.json_[i], fmt::format("{}[{}]", list.path_, i), origin_);
  return nodes;
}

std::string Node::as_string() const {
  if (!json_.is_string()) throw wrong(fmt::format("is {}, not a text", shown(json_)));
  return json_.get<std::string>();
}

uint32_t Node::as_id() const {
  if (!json_.is_number_unsigned() || json_.get<uint64_t>() >= kNoToken)
    throw wrong(fmt::format("is {}, not a token id", shown(json_)));
  return json_.get<uint32_t>();
}

std::string Node::string(std::string_view key) const { return at(key).as_string(); }
std::string Node::string_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? string(key) : std::string(otherwise);
}
uint32_t Node::id(std::string_view key) const { return at(key).as_id(); }

bool Node::flag_or(std::string_view key, bool otherwise) const { return has(key) ? flag(key) : otherwise; }

bool Node::flag(std::string_view key) const {
  const Node node = at(key);
  if (!node.json_.is_boolean()) throw node.wrong(fmt::format("is {}, not true or false", shown(node.json_)));
  return node.json_.get<bool>();
}

void Node::allow_keys(const std::vector<std::string_view>& known) const {
  if (!json_.is_object()) throw wrong(fmt::format("is {}, not an object", shown(json_)));
  for (const auto& [key, value] : json_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw wrong(fmt::format("has {}, which Hearth does not know", shown(Json(key))),
                "an ignored setting could change token ids", "use a file without it");
  }
}

std::string Node::place() const { return fmt::format("{}: {}", origin_, path_.empty() ? "the file" : path_); }

Error Node::wrong(std::string_view what, std::string why, std::string fix) const {
  return user_error(fmt::format("{} {}", place(), what), std::move(why), std::move(fix));
}

Error Node::unknown_type(std::string_view known) const {
  return wrong(fmt::format("is a {}, which Hearth does not read", shown(at("type").json_)),
               fmt::format("it reads: {}", known),
               "convert the tokenizer to one of these, or open an issue with the file");
}

}  // namespace hearth::tokenizer
