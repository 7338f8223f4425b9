// SPDX-License-Identifier: Apache-2.0
// The requests of S3, with their tries.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/object_store.h"
#include "s3/http.h"
#include "s3/signature.h"

namespace hearth::s3 {

struct StoreAccess {
  std::string endpoint;     // "https://HOST"
  bool is_virtual = false;  // the bucket goes before the host
  Credentials credentials;  // none: requests are not signed, as public buckets want
  // The reason if `credentials` is empty. Another kind than kDone: some are configured, and every request ends so.
  StoreResult no_credentials = {};
  int64_t attempts = 10, connect_timeout_s = 10, request_timeout_s = 30;  // see settings.h
};

struct StoreCall {
  std::string method, name;                         // BUCKET/KEY; to read and list also BUCKET
  std::map<std::string, std::string> query = {};    // not encoded
  std::map<std::string, std::string> headers = {};  // lower-case names
  std::string_view body = {};
  std::span<std::byte> into = {};  // as in HttpCall; the answer must fill it
};

struct Answer : HttpAnswer {
  std::string code;  // S3's code of an error
  int64_t tries = 0;
};

// What a result says if `stop` ended the request.
inline constexpr const char* kStopped = "another part of the transfer failed";

// A connection to the store, which one request after the other uses. For one thread at a time.
class Connection {
 public:
  // Tries until the request succeeds, another try cannot help, `stop` is set, or all attempts are used up.
  StoreResult send(const StoreAccess& place, const StoreCall& call, Answer& answer,
                   const std::atomic<bool>* stop = nullptr);

 private:
  HttpConnection http_;
};

// Reads bytes [offset, offset + bytes.size()) of an object; not empty, and inside the object.
StoreResult get_range(Connection& connection, const StoreAccess& place, const std::string& name, int64_t offset,
                      std::span<std::byte> bytes, const std::atomic<bool>& stop);

// What a write may replace: nothing, or the content with this ETag:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
struct Precondition {
  std::string etag = {};  // empty: there must be no object
};

// Writes an object in one request; kThere if the condition does not hold. A store that does not know conditions gets
// the request without it.
StoreResult put(const StoreAccess& place, const std::string& name, std::string_view content,
                const Precondition& condition);

// Call it after a kThere: an earlier try of ours may have written the object. Returns success if it has our size, else
// `otherwise`. The callers compare the content.
StoreResult find_ours(const StoreAccess& place, const std::string& name, int64_t bytes, const StoreResult& otherwise);

// Deletes an object; missing is fine.
StoreResult remove(const StoreAccess& place, const std::string& name);

// An upload in parts: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html. The object is not visible
// before complete_upload().
StoreResult begin_upload(const StoreAccess& place, const std::string& name, std::string& upload);
// `number` begins at 1. `tag` gets this part's ETag, which complete_upload() needs.
StoreResult put_part(Connection& connection, const StoreAccess& place, const std::string& name,
                     const std::string& upload, int64_t number, std::string_view content, std::string& tag,
                     const std::atomic<bool>& stop);
// `bytes` is the object's size: if an answer was lost, the object is looked for. The condition is put()'s.
StoreResult complete_upload(const StoreAccess& place, const std::string& name, const std::string& upload,
                            const std::vector<std::string>& tags, int64_t bytes, const Precondition& condition);
// Makes the store delete the parts. Until then it keeps them, and Amazon bills them.
StoreResult abort_upload(const StoreAccess& place, const std::string& name, const std::string& upload);

}  // namespace hearth::s3
