// SPDX-License-Identifier: Apache-2.0
#include "s3/profile.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace hearth::s3 {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// "[profile NAME]", or "[NAME]", as the file of credentials has it and as "default" is written.
bool is_section_of(std::string_view line, std::string_view profile) {
  if (!line.starts_with('[') || !line.ends_with(']') || line.size() < 2) return false;
  std::string_view name = trimmed(line.substr(1, line.size() - 2));
  constexpr std::string_view kProfile = "profile";
  if (name.starts_with(kProfile) && name.size() > kProfile.size() && (name[7] == ' ' || name[7] == '\t'))
    name = trimmed(name.substr(kProfile.size()));
  return name == profile;
}

}  // namespace

std::string profile_value(std::string_view text, std::string_view profile, std::string_view key) {
  bool is_ours = false;
  while (!text.empty()) {
    const std::string_view whole = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), whole.size() + 1));
    const std::string_view line = trimmed(whole);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      is_ours = is_section_of(line, profile);
      continue;
    }
    const size_t equals = line.find('=');
    const bool is_nested = whole.front() == ' ' || whole.front() == '\t';
    if (is_ours && !is_nested && equals != std::string_view::npos && trimmed(line.substr(0, equals)) == key)
      return std::string(trimmed(line.substr(equals + 1)));
  }
  return {};
}

std::string variable(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string profile_name() { return variable("AWS_PROFILE", variable("AWS_DEFAULT_PROFILE", "default")); }

std::string in_config(const char* key) { return read_profile_files().in_config(key); }

std::string ProfileFiles::in_config(const char* key) const { return profile_value(config, name, key); }

std::string ProfileFiles::in_credentials(const char* key) const { return profile_value(credentials, name, key); }

std::string ProfileFiles::in_either(const char* key) const {
  std::string value = in_credentials(key);
  return value.empty() ? in_config(key) : value;
}

ProfileFiles read_profile_files() {
  const std::string folder = variable("HOME") + "/.aws/";
  return {profile_name(), content_of(variable("AWS_CONFIG_FILE", folder + "config")),
          content_of(variable("AWS_SHARED_CREDENTIALS_FILE", folder + "credentials"))};
}

}  // namespace hearth::s3
