// Where the store is and who asks, as the AWS tools find it.
#pragma once

#include <arrow/filesystem/s3fs.h>

#include <cstdint>
#include <string>

namespace hearth::s3 {

// https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or
// endpoint_url of the profile (AWS_PROFILE) in AWS_CONFIG_FILE. Empty: Amazon's own.
std::string endpoint_url();

// How often a request is made before its failure counts: AWS_MAX_ATTEMPTS, or 10. Each try waits longer than the one
// before, at most 20 s: ten bridge about a minute.
int64_t attempts();

// Everything else of these variables and files is read by the AWS SDK in Arrow. Returns an error message, or nothing.
std::string fill_options(arrow::fs::S3Options& options);

}  // namespace hearth::s3
