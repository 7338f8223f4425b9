// SPDX-License-Identifier: Apache-2.0
// Where the store is and how long it may take, as the AWS tools find it.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::s3 {

// https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html. "The profile" is AWS_PROFILE in
// AWS_CONFIG_FILE. credentials.h reads the credentials.
struct Settings {
  // AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or endpoint_url of the profile, as scheme and host. Empty: Amazon's.
  std::string scheme, host;
  // AWS_REGION, AWS_DEFAULT_REGION, or region of the profile. Empty: Amazon's metadata server may know it
  // (credentials.h).
  std::string region;
  // How often a request is made before its failure counts: AWS_MAX_ATTEMPTS, or max_attempts of the profile. Each try
  // waits longer than the one before, at most 20 s: ten bridge about a minute.
  int64_t attempts = 10;
  // HEARTH_S3_CONNECT_TIMEOUT and HEARTH_S3_REQUEST_TIMEOUT: the AWS tools have no variables for them. The second is
  // the time without any byte, so a slow answer is not cut off.
  int64_t connect_timeout_s = 10, request_timeout_s = 30;

  bool is_amazon() const { return host.empty(); }
};

// Returns an error message, or nothing.
std::string read_settings(Settings& settings);

// How the names of Amazon's hosts in a region end: "amazonaws.com", and in China "amazonaws.com.cn".
std::string amazon_domain(const std::string& region);

}  // namespace hearth::s3
