// SPDX-License-Identifier: Apache-2.0
#include "s3/settings.h"

#include <charconv>
#include <utility>

#include "s3/profile.h"

namespace hearth::s3 {
namespace {

constexpr int64_t kMostAttempts = 1000;
constexpr int64_t kMostSeconds = 3600;

// Returns an error message, or nothing. An empty text leaves the number as it is.
std::string read_number(const std::string& name, const std::string& text, int64_t most, int64_t& number) {
  if (text.empty()) return {};
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > most)
    return name + " = " + text + " is no whole number from 1 to " + std::to_string(most);
  number = value;
  return {};
}

std::string read_endpoint(Settings& settings) {
  const std::string url = variable("AWS_ENDPOINT_URL_S3", variable("AWS_ENDPOINT_URL", in_config("endpoint_url")));
  if (url.empty()) return {};
  const size_t slashes = url.find("://");
  settings.scheme = slashes == std::string::npos ? "" : url.substr(0, slashes);
  if (settings.scheme != "http" && settings.scheme != "https")
    return "the endpoint " + url + " begins with neither http:// nor https://";
  settings.host = url.substr(slashes + 3);
  while (settings.host.ends_with('/')) settings.host.pop_back();
  if (settings.host.empty()) return "the endpoint " + url + " names no host";
  // Amazon's metadata server does not know the region of another store.
  if (settings.region.empty()) settings.region = "us-east-1";
  return {};
}

}  // namespace

std::string amazon_domain(const std::string& region) {
  return region.starts_with("cn-") ? "amazonaws.com.cn" : "amazonaws.com";
}

std::string read_settings(Settings& settings) {
  settings.region = variable("AWS_REGION", variable("AWS_DEFAULT_REGION", in_config("region")));
  std::string why = read_endpoint(settings);
  const std::string attempts = variable("AWS_MAX_ATTEMPTS");
  if (why.empty())
    why = attempts.empty()
              ? read_number("max_attempts of the profile", in_config("max_attempts"), kMostAttempts, settings.attempts)
              : read_number("AWS_MAX_ATTEMPTS", attempts, kMostAttempts, settings.attempts);
  for (const auto& [name, seconds] : {std::pair{"HEARTH_S3_CONNECT_TIMEOUT", &settings.connect_timeout_s},
                                      std::pair{"HEARTH_S3_REQUEST_TIMEOUT", &settings.request_timeout_s}})
    if (why.empty()) why = read_number(name, variable(name), kMostSeconds, *seconds);
  return why;
}

}  // namespace hearth::s3
