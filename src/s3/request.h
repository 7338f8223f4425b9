// The requests that Arrow does not make, or makes with more than we want.
#pragma once

#include <string>
#include <string_view>

#include "base/object_store.h"
#include "s3/signature.h"

namespace hearth::s3 {

struct Place {
  std::string endpoint;     // "https://HOST"
  bool is_virtual = false;  // the bucket goes before the host
  Credentials credentials;
};

// Creates an object only if it is not there yet (If-None-Match: *), for which Arrow cannot ask. kThere if it is:
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
// A store that does not know the condition refuses the request; `is_unknown` is then set.
StoreResult put_new(const Place& place, const std::string& name, std::string_view content, bool& is_unknown);

// Deletes an object; missing is fine. Arrow would also put an empty object in the place of its folder.
StoreResult remove(const Place& place, const std::string& name);

}  // namespace hearth::s3
