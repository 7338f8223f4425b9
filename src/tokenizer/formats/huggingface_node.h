// One node of a tokenizer.json, with its place in the file, so that whatever is wrong is named.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace hearth::tokenizer {

class Node {
 public:
  Node(const nlohmann::json& json, std::string path, const std::string& origin)
      : json_(json), path_(std::move(path)), origin_(origin) {}

  const nlohmann::json& json() const { return json_; }
  bool is_null() const;
  bool has(std::string_view key) const;  // and it is not null

  // All of these throw user_error naming the place where the node is not what is asked for.
  Node at(std::string_view key) const;                  // of an object; a key that is missing is null
  std::vector<Node> items(std::string_view key) const;  // of an array
  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  uint32_t id(std::string_view key) const;
  std::string as_string() const;
  uint32_t as_id() const;
  std::string type() const { return string("type"); }
  // Every key is one of `known`: a key that nobody reads could change ids.
  void allow_keys(const std::vector<std::string_view>& known) const;

  // "FILE: PATH WHAT", why, how to go on.
  Error wrong(std::string_view what, std::string why = {}, std::string fix = {}) const;
  Error unknown_type(std::string_view known) const;

 private:
  const nlohmann::json& json_;
  std::string path_;
  const std::string& origin_;
};

}  // namespace hearth::tokenizer
