#include "s3/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace hearth::s3 {
namespace {

std::string variable(const char* name, const std::string& otherwise = {}) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// The value of endpoint_url in the profile's section; empty: none.
std::string endpoint_of_profile() {
  const std::string profile = variable("AWS_PROFILE", variable("AWS_DEFAULT_PROFILE", "default"));
  std::ifstream file(variable("AWS_CONFIG_FILE", variable("HOME") + "/.aws/config"));
  bool is_ours = false;
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = trimmed(line);
    if (text.starts_with('[')) {
      is_ours = text == "[profile " + profile + "]" || text == "[" + profile + "]";
      continue;
    }
    const size_t equals = text.find('=');
    const bool is_nested = line.starts_with(' ') || line.starts_with('\t');
    if (is_ours && !is_nested && equals != std::string_view::npos && trimmed(text.substr(0, equals)) == "endpoint_url")
      return std::string(trimmed(text.substr(equals + 1)));
  }
  return {};
}

}  // namespace

int64_t attempts() {
  const std::string given = variable("AWS_MAX_ATTEMPTS");
  int64_t count = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), count);
  return error == std::errc() && end == given.data() + given.size() && count > 0 ? count : 10;
}

std::string endpoint_url() {
  return variable("AWS_ENDPOINT_URL_S3", variable("AWS_ENDPOINT_URL", endpoint_of_profile()));
}

std::string fill_options(arrow::fs::S3Options& options) {
  options.ConfigureDefaultCredentials();
  options.region = variable("AWS_REGION", variable("AWS_DEFAULT_REGION"));
  if (const std::string url = endpoint_url(); !url.empty()) {
    const size_t slashes = url.find("://");
    options.scheme = slashes == std::string::npos ? "" : url.substr(0, slashes);
    if (options.scheme != "http" && options.scheme != "https")
      return "the endpoint " + url + " begins with neither http:// nor https://";
    options.endpoint_override = url.substr(slashes + 3);
    while (options.endpoint_override.ends_with('/')) options.endpoint_override.pop_back();
    // The SDK would ask Amazon's metadata server for the region of another store.
    if (options.region.empty()) options.region = "us-east-1";
  }
  options.connect_timeout = 10;
  options.request_timeout = 30;  // without any byte
  options.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(attempts());
  // A small object is one request.
  options.allow_delayed_open = true;
  return {};
}

}  // namespace hearth::s3
