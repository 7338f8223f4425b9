// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/chat_template.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

using TemplateJson = nlohmann::ordered_json;

constexpr const char* kTemplateConfig = "tokenizer_config.json";
constexpr const char* kField = "chat_template";
constexpr const char* kDefault = "default";
constexpr std::string_view kEnding = ".jinja";

// The text as JSON, which has UTF-8 only.
TemplateJson template_in(const Path& path) {
  TemplateJson text = read_file(path);
  try {
    text.dump();
  } catch (const TemplateJson::exception&) {
    throw user_error(fmt::format("{} is not UTF-8", path.string()), "it is a chat template, which is text",
                     "download it again, or move it away");
  }
  return text;
}

TemplateJson templates_in_files(const Path& folder) {
  TemplateJson found = TemplateJson::object();
  if (const Path file = folder / "chat_template.jinja"; path_exists(file)) found[kDefault] = template_in(file);
  const Path more = folder / "additional_chat_templates";
  if (!folder_exists(more)) return found;
  for (const std::string& name : list_folder(more))
    if (name.ends_with(kEnding)) found[name.substr(0, name.size() - kEnding.size())] = template_in(more / name);
  return found;
}

TemplateJson templates_in_config(const Path& file) {
  TemplateJson found = TemplateJson::object();
  if (!path_exists(file)) return found;
  const TemplateJson config = TemplateJson::parse(read_file(file), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object() || !config.contains(kField) || config.at(kField).is_null()) return found;
  const TemplateJson& field = config.at(kField);
  const auto is_text = [](const TemplateJson& entry, const char* key) {
    return entry.is_object() && entry.contains(key) && entry.at(key).is_string();
  };
  if (field.is_string()) {
    found[kDefault] = field;
    return found;
  }
  for (const TemplateJson& entry : field) {
    if (!field.is_array() || !is_text(entry, "name") || !is_text(entry, "template"))
      throw user_error(fmt::format("{}: {} is neither a text nor a list of names and templates", file.string(), kField),
                       "transformers writes one of these", "correct it, or remove the field");
    found[entry.at("name").get<std::string>()] = entry.at("template");
  }
  return found;
}

}  // namespace

std::string read_chat_templates(const Path& folder) {
  TemplateJson found = templates_in_files(folder);
  if (found.empty()) found = templates_in_config(folder / kTemplateConfig);
  return found.empty() ? std::string() : found.dump();
}

std::string chat_template_field(const std::string& templates, const std::string& origin) {
  const TemplateJson found = TemplateJson::parse(templates, nullptr, /*allow_exceptions=*/false);
  TemplateJson list = TemplateJson::array();
  if (!found.is_object()) throw damaged(fmt::format("{}: {} is no object", origin, kField));
  for (const auto& [name, text] : found.items()) {
    if (!text.is_string()) throw damaged(fmt::format("{}: {} \"{}\" is no text", origin, kField, name));
    list.push_back({{"name", name}, {"template", text}});
  }
  return list.size() == 1 && found.contains(kDefault) ? found.at(kDefault).dump() : list.dump();
}

}  // namespace hearth::tokenizer
