// SPDX-License-Identifier: Apache-2.0
// The file ~/.aws/config of the AWS tools: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#pragma once

#include <string>
#include <string_view>

namespace hearth::s3 {

// The value of a key in a profile's section; empty if it is missing. Indented keys belong to another key, and are
// skipped. If a key is there twice, the first one counts. `text` is the file's content.
std::string profile_value(std::string_view text, std::string_view profile, std::string_view key);

}  // namespace hearth::s3
