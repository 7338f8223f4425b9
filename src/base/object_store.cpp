// SPDX-License-Identifier: Apache-2.0
#include "base/object_store.h"

#include <mutex>

#include "base/error.h"
#include "base/program.h"
#include "base/shared_object.h"

namespace hearth {
namespace {

const ObjectStore* load_store() {
  const std::string what = "paths that begin with s3:// cannot be used here";
  const auto place = beside_program(kS3Object);
  if (!place)
    throw user_error(what, fmt::format("{} is not in the program's folder", kS3Object),
                     "copy all files of the build's bin/ folder");
  void* entry = load_entry(*place, HEARTH_ENTRY_NAME(HEARTH_S3_ENTRY), what,
                           "copy the library from the build's bin/ folder; libcurl.so.4 is the system's");
  StoreResult result;
  const ObjectStore* store = reinterpret_cast<OpenObjectStore>(entry)(result);
  if (store == nullptr) throw user_error(what, result.why, "check the AWS_ variables and ~/.aws/config");
  return store;
}

}  // namespace

const ObjectStore& object_store() {
  static std::mutex mutex;
  static const ObjectStore* store = nullptr;
  const std::lock_guard lock(mutex);
  if (store == nullptr) store = load_store();
  return *store;
}

}  // namespace hearth
