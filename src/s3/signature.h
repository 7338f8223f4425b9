// SPDX-License-Identifier: Apache-2.0
// Signature version 4 of AWS:
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace hearth::s3 {

struct Request {
  std::string method, path;                    // the path is percent-encoded already, without a query
  std::string query;                           // "a=1&b=": sorted by name, percent-encoded; may be empty
  std::map<std::string, std::string> headers;  // lower-case names; all are signed
  std::string_view body;
};

struct Credentials {
  std::string access_key, secret_key, session_token, region;
  bool are_there() const { return !access_key.empty(); }
};

// RFC 3986: all but letters, digits and "-._~". "/" stays in a path.
std::string percent_encoded(std::string_view text, bool is_path);

// `time` is UTC as "20260131T235959Z". Adds x-amz-date, x-amz-content-sha256, x-amz-security-token (with a token) and
// authorization. The request has a "host" already. The body's SHA-256 is signed, so a store may notice a damaged body.
void sign(Request& request, const Credentials& credentials, const std::string& time);

}  // namespace hearth::s3
