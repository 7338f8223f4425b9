// SPDX-License-Identifier: Apache-2.0
// Credentials as the AWS tools find them, the first that is there:
//
//   AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, with AWS_SESSION_TOKEN
//   the profile: aws_access_key_id and its companions in ~/.aws/credentials, then in ~/.aws/config
//   the profile's credential_process: a command that prints them
//   a web identity: AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or the profile's web_identity_token_file and role_arn
//   a container's server: AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI
//   the metadata server of EC2, unless AWS_EC2_METADATA_DISABLED is true
//
// A source that is configured and fails ends the search: the next one would be another identity.
//
// Source: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
#pragma once

#include <cstdint>
#include <ctime>
#include <mutex>
#include <string>

#include "base/object_store.h"
#include "s3/signature.h"

namespace hearth::s3 {

struct FoundCredentials {
  Credentials credentials;  // without a region; empty: nothing was found
  int64_t expires_s = 0;    // Unix time; 0: never
  std::string why;          // what was tried, if nothing was found
  // Another kind than kDone: a source is configured and fails, so no request may go out without a signature.
  StoreResult::Kind failure = StoreResult::Kind::kDone;
};

// Asks once, without memory of earlier answers. `region` is that of the web identity's server.
FoundCredentials find_credentials(const std::string& region);

// The region of this machine, from the metadata server; empty without such a server.
std::string region_of_machine();

// Credentials that are found again some minutes before they expire. Thread-safe.
class CredentialSource {
 public:
  explicit CredentialSource(std::string region) : region_(std::move(region)) {}
  // With the region. They may be empty, and `why` and `failure` then say why. `now_s` is Unix time.
  FoundCredentials get(int64_t now_s = std::time(nullptr));

 private:
  const std::string region_;
  std::mutex mutex_;
  FoundCredentials found_;
  int64_t ask_again_s_ = 0;  // Unix time
};

}  // namespace hearth::s3
