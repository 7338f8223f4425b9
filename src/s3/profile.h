// SPDX-License-Identifier: Apache-2.0
// The files of the AWS tools, ~/.aws/config and ~/.aws/credentials, and their environment variables:
// https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#pragma once

#include <string>
#include <string_view>

namespace hearth::s3 {

// The value of a key in a profile's section; empty if it is missing. Indented keys belong to another key, and are
// skipped. If a key is there twice, the first one counts. `text` is the file's content.
std::string profile_value(std::string_view text, std::string_view profile, std::string_view key);

// An environment variable; `otherwise` if it is unset or empty.
std::string variable(const char* name, const std::string& otherwise = {});

// The profile's name: AWS_PROFILE, AWS_DEFAULT_PROFILE, or "default".
std::string profile_name();
// The value of a key of the profile, in AWS_CONFIG_FILE or ~/.aws/config; empty if it is missing.
std::string in_config(const char* key);

// The profile in both files, whose contents were read once: keys of one lookup fit together.
struct ProfileFiles {
  std::string name, config, credentials;  // the last two are contents

  // The value of a key of the profile; empty if it is missing.
  std::string in_config(const char* key) const;
  std::string in_credentials(const char* key) const;
  // In the file of credentials, else in that of the configuration.
  std::string in_either(const char* key) const;
};
// AWS_CONFIG_FILE or ~/.aws/config, and AWS_SHARED_CREDENTIALS_FILE or ~/.aws/credentials.
ProfileFiles read_profile_files();

// A file's content; empty if it cannot be read.
std::string content_of(const std::string& path);

}  // namespace hearth::s3
