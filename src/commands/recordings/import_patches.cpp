// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer import`: the patch tokenizer of the neural-data repositories, a pickle
//
//   {"index_map": {bytes of a patch: id}, "patch_size": (neurons, bins), "k_limit": ids of patches - 1}
//
// as our own file. The pickle is read as data: no code in it is run. Nothing else opens a pickle as a tokenizer, so
// datasets and checkpoints hold a file that contains patches alone, with a checksum.
#include <cstring>
#include <limits>

#include "commands/commands.h"
#include "formats/pickle.h"
#include "recordings/patch_file.h"

namespace hearth::commands {
namespace {

using formats::Pickle;
using formats::PickleKind;
using formats::PickleValue;

// A Python int or a NumPy scalar: scalar(dtype, bytes).
int64_t integer(const Pickle& pickle, PickleValue value, std::string_view what) {
  if (pickle.kind(value) != PickleKind::kObject) return pickle.integer(value, what);
  const Pickle::Object scalar = pickle.object(value, what);
  if (!scalar.name.ends_with("multiarray.scalar") || scalar.arguments.size() != 2)
    throw damaged(fmt::format("{}: {} is not an integer", pickle.origin(), what));
  const Pickle::Object type = pickle.object(scalar.arguments[0], what);
  const std::string_view name = type.arguments.empty() ? "" : pickle.text(type.arguments[0], what);
  const std::string_view bytes = pickle.text(scalar.arguments[1], what);
  const auto as = [&](auto number) -> int64_t {
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
  };
  if (name == "i4" && bytes.size() == sizeof(int32_t)) return as(int32_t{});
  if (name == "i8" && bytes.size() == sizeof(int64_t)) return as(int64_t{});
  throw damaged(fmt::format("{}: {} is a number of NumPy's type \"{}\"", pickle.origin(), what, name),
                "int32 and int64 are understood");
}

recordings::PatchShape shape_of(const Pickle& pickle) {
  const auto size = pickle.sequence(pickle.at(pickle.root(), "patch_size", "the tokenizer"), "patch_size");
  if (size.size() != 2) throw damaged(fmt::format("{}: patch_size has {} numbers", pickle.origin(), size.size()));
  const int64_t neurons = integer(pickle, size[0], "patch_size"), bins = integer(pickle, size[1], "patch_size");
  if (neurons < 1 || bins < 1 || neurons > recordings::kMostPatchCells || bins > recordings::kMostPatchCells / neurons)
    throw damaged(fmt::format("{}: patch_size is ({}, {})", pickle.origin(), neurons, bins),
                  fmt::format("1 to {} counts are possible", recordings::kMostPatchCells));
  return {neurons, bins};
}

// If patches share an id, the first is its reference: the pickle has the most frequent patch first.
recordings::PatchVocabulary vocabulary_of(const Pickle& pickle) {
  recordings::PatchVocabulary v;
  v.shape = shape_of(pickle);
  const int64_t k_limit = integer(pickle, pickle.at(pickle.root(), "k_limit", "the tokenizer"), "k_limit");
  if (k_limit < 0 || k_limit > std::numeric_limits<int32_t>::max() - 2)
    throw damaged(fmt::format("{}: k_limit is {}", pickle.origin(), k_limit));
  v.vocab_size = k_limit + 2;  // ids 0 .. k_limit, and BOS
  const auto map = pickle.pairs(pickle.at(pickle.root(), "index_map", "the tokenizer"), "index_map");
  std::vector<std::string_view> references;
  for (size_t i = 0; i < map.size(); i += 2) {
    const std::string_view patch = pickle.text(map[i], "a patch of index_map");
    const int64_t id = integer(pickle, map[i + 1], "an id of index_map");
    if (patch.size() != static_cast<size_t>(v.shape.cells()))
      throw damaged(fmt::format("{}: a patch of index_map has {} bytes", pickle.origin(), patch.size()),
                    fmt::format("patch_size says {}", v.shape.cells()));
    if (id < 0 || id > k_limit)
      throw damaged(fmt::format("{}: index_map has the id {}", pickle.origin(), id),
                    fmt::format("k_limit is {}", k_limit));
    if (static_cast<size_t>(id) >= references.size()) references.resize(static_cast<size_t>(id) + 1);
    if (std::string_view& reference = references[static_cast<size_t>(id)]; reference.empty()) {
      reference = patch;
    } else {
      v.others += patch;
      v.other_ids.push_back(static_cast<uint32_t>(id));
    }
  }
  for (const std::string_view patch : references) {
    if (patch.empty())
      throw damaged(fmt::format("{}: index_map has no patch for id {}", pickle.origin(),
                                v.references.size() / static_cast<size_t>(v.shape.cells())),
                    "a larger id is there");
    v.references += patch;
  }
  return v;
}

}  // namespace

int tokenizer_import(CommandLine& line) {
  Path pickle_path, out;
  bool overwrite = false;
  line.positional("FILE", &pickle_path, "a pickle with index_map, patch_size and k_limit");
  line.option("--out FILE", &out, "tokenizer.patches to write").required();
  line.flag("--overwrite", &overwrite, "replace it");
  if (!line.parse()) return 0;
  if (!overwrite && path_exists(out))
    throw user_error(fmt::format("{} exists already", out.string()), "", "choose another --out, or add --overwrite");
  const MappedFile file(pickle_path);
  formats::PickleLimits limits;  // a vocabulary may have many more entries than a checkpoint's tensors
  limits.max_bytes = std::numeric_limits<int64_t>::max();
  limits.max_values = std::numeric_limits<uint32_t>::max();
  const Pickle pickle = Pickle::parse(file.bytes(), pickle_path.string(), limits);
  const recordings::PatchVocabulary v = vocabulary_of(pickle);
  std::string content = recordings::patch_file(v);
  const recordings::PatchFile checked(content, out.string());
  write_file_atomic(out, content);
  fmt::print("wrote {}: {} ids, {} patches of {} x {}\n", out.string(), v.vocab_size, checked.num_patches(),
             v.shape.neurons, v.shape.bins);
  return 0;
}

}  // namespace hearth::commands
