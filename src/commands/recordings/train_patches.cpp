// SPDX-License-Identifier: Apache-2.0
#include "commands/recordings/train_patches.h"

#include "base/parallel.h"
#include "base/quantity.h"
#include "recordings/array_stream.h"
#include "recordings/nearest_reference.h"
#include "recordings/train_patches.h"

namespace hearth::commands {
namespace {

constexpr int64_t kChunk = 256;  // patches that a thread maps at a time

CountDocument patch_counter(recordings::PatchShape shape) {
  return [shape, patch = std::vector<uint8_t>(static_cast<size_t>(shape.cells()))](
             const data::Document& document, const std::string& path, tokenizer::PieceCounts& counts) mutable {
    if (document.array == nullptr)
      throw user_error(fmt::format("{} is not an array", path), "patches are parts of arrays",
                       "leave it out (--include \"*.parquet\"), name a table's column of arrays with --text-key, or "
                       "train with --kind bpe");
    const recordings::SpikeArray& array = *document.array;
    for (int64_t column = 0; column < div_ceil(array.shape.bins, shape.bins); ++column) {
      for (int64_t row = 0; row < div_ceil(array.shape.neurons, shape.neurons); ++row) {
        recordings::gather_patch(array.shape, array.counts.data(), array.shape.neurons, 0, shape, row, column, patch);
        counts.add({reinterpret_cast<const char*>(patch.data()), patch.size()});
      }
    }
  };
}

// Maps every patch without an id of its own to the nearest reference's id.
void map_others(recordings::PatchVocabulary& v, int64_t threads, TrainingProgress& progress) {
  const auto others = static_cast<int64_t>(v.other_ids.size());
  const auto cells = static_cast<size_t>(v.shape.cells());
  progress.items_total = others;
  const recordings::NearestReference nearest(v);
  for_each_index(div_ceil(others, kChunk), threads, [&](int64_t chunk) {
    const int64_t end = std::min(others, (chunk + 1) * kChunk);
    for (auto i = static_cast<size_t>(chunk * kChunk); i < static_cast<size_t>(end); ++i)
      v.other_ids[i] = nearest.id_of({reinterpret_cast<const uint8_t*>(v.others.data()) + i * cells, cells});
    progress.items_done += end - chunk * kChunk;
  });
}

}  // namespace

recordings::PatchShape parse_patch_shape(const std::string& text) {
  long long neurons = 0, bins = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lldx%lld%n", &neurons, &bins, &end) != 2 || static_cast<size_t>(end) != text.size() ||
      neurons < 1 || bins < 1 || neurons > recordings::kMostPatchCells || bins > recordings::kMostPatchCells / neurons)
    throw user_error(
        fmt::format("--patch {} is not the shape of a patch", text), "",
        fmt::format("give neurons x time bins, such as 1x15, {} counts at most", recordings::kMostPatchCells));
  return {neurons, bins};
}

void train_patch_tokenizer(const data::Discovery& found, const data::BuildRules& rules, recordings::PatchShape shape,
                           int64_t vocab_size, int64_t threads, const Path& out) {
  TrainingProgress progress;
  recordings::PatchVocabulary v;
  int64_t cells = 0;
  {
    const ProgressLine drawn([&] { return progress.text("mapping"); });
    const tokenizer::PieceCounts counts = count_pieces(
        found, rules, threads, [shape] { return patch_counter(shape); }, progress);
    v = recordings::most_frequent_patches(counts.sorted(), shape, vocab_size);
    cells = counts.bytes();
    map_others(v, threads, progress);
  }
  write_file_atomic(out, recordings::patch_file(v));
  const size_t references = v.references.size() / static_cast<size_t>(shape.cells());
  fmt::print("counted {} different patches of {} x {} in {} counts, {}\n", references + v.other_ids.size(),
             shape.neurons, shape.bins, cells, counted(std::ssize(found.sources), "file"));
  fmt::print("wrote {}: {} patches have ids of their own, {} share the id of the nearest; BOS is {}\n", out.string(),
             references, v.other_ids.size(), vocab_size - 1);
}

}  // namespace hearth::commands
