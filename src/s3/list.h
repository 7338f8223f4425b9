// SPDX-License-Identifier: Apache-2.0
// Lists of objects: https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/object_store.h"
#include "s3/request.h"

namespace hearth::s3 {

struct ListedObject {
  std::string key;
  int64_t bytes = 0;
};

struct Listing {
  std::vector<ListedObject> objects;
  std::vector<std::string> folders;  // what the keys share up to the next "/", which is their end
  std::string fault;                 // why the list is not whole or not right; empty: it is
};

// One answer of a list, added to `listing`. Returns the token of the next request; empty: this was the last one, or
// the answer has a fault.
std::string add_answer(std::string_view xml, Listing& listing);

// The objects of a bucket whose keys begin with `prefix`. `flat`: those in folders under it, too. `most`: at least so
// many are enough; 0: all of them.
StoreResult list_objects(const StoreAccess& place, const std::string& bucket, const std::string& prefix, bool flat,
                         int64_t most, Listing& listing);

}  // namespace hearth::s3
