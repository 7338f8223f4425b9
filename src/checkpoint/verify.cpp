#include "checkpoint/verify.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/load.h"

namespace hearth::checkpoint {
namespace {

template <typename Body>
bool whole(Verification& result, Body body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged) throw;
    result.problems.push_back(e.why().empty() ? e.message() : fmt::format("{}: {}", e.message(), e.why()));
    return false;
  }
}

}  // namespace

Verification verify_checkpoint(const Path& folder) {
  Verification result;
  std::optional<Reader> reader;
  result.has_manifest = path_exists(folder / kManifestFile);
  if (!whole(result, [&] { reader = Reader::open(folder); })) return result;
  if (result.has_manifest && reader->manifest().tokenizer != "bytes") whole(result, [&] { reader->open_tokenizer(); });
  for (const formats::StoredTensor& tensor : reader->metadata().tensors) {
    ++result.tensors;
    const mesh::Box all{std::vector<int64_t>(tensor.info.shape.size(), 0), tensor.info.shape};
    whole(result, [&] { formats::check_coverage(tensor, all, folder.string()); });
    for (const formats::Item& item : tensor.items) {
      ++result.items;
      result.bytes += item.length;
      whole(result, [&] { reader->check(tensor, item); });
    }
  }
  return result;
}

}  // namespace hearth::checkpoint
