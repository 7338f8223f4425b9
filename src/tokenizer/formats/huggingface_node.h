// SPDX-License-Identifier: Apache-2.0
// One node of a tokenizer.json with its path in the file, which errors name.
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
  bool has(std::string_view key) const;  // false for a null value, too

  // All functions below throw user_error, with the path, if the node has another type.
  Node at(std::string_view key) const;                  // of an object; a missing key gives a null node
  std::vector<Node> items(std::string_view key) const;  // of an array
  std::string string(std::string_view key) const;
  std::string string_or(std::string_view key, std::string_view otherwise) const;
  bool flag(std::string_view key) const;
  bool flag_or(std::string_view key, bool otherwise) const;
  uint32_t id(std::string_view key) const;
  std::string as_string() const;
  uint32_t as_id() const;
  std::string type() const { return string("type"); }
  // Throws user_error for a key outside `known`: an ignored key could change ids.
  void allow_keys(const std::vector<std::string_view>& known) const;

  // "FILE: PATH", as errors begin.
  std::string place() const;
  // The error "FILE: PATH WHAT", with its reason and fix.
  Error wrong(std::string_view what, std::string why = {}, std::string fix = {}) const;
  Error unknown_type(std::string_view known) const;

 private:
  const nlohmann::json& json_;
  std::string path_;
  const std::string& origin_;
};

}  // namespace hearth::tokenizer
