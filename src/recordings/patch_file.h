// SPDX-License-Identifier: Apache-2.0
// A vocabulary of patches of counts, such as 15 time bins of one neuron, in Hearth's own format: tokenizer.patches.
//
// Ids 0, 1, ... have one reference patch each. Any number of other patches share the ids of references. A patch that is
// not in the file gets id 0, the id of the most frequent patch. BOS = vocab_size - 1.
//
// The file, little-endian (stored on disk: never change):
//
//   0   8  "HRTHPTCH"
//   8   4  version, 1
//   12  4  neurons of a patch; 16  4  bins of a patch
//   20  4  vocab_size
//   24  8  number of references, R; 32  8  number of other patches, M
//   40     R patches, beginning with that of id 0; M patches; M ids (u32)
//   end    XXH3-64 of everything before
#pragma once

#include <string>
#include <vector>

#include "recordings/vocabulary.h"

namespace hearth::recordings {

// What a patch file holds.
struct PatchVocabulary {
  PatchShape shape;
  int64_t vocab_size = 0;
  std::string references;  // patches in sequence: patch i has id i
  std::string others;      // in the same form
  std::vector<uint32_t> other_ids;
};
std::string patch_file(const PatchVocabulary& vocabulary);

inline constexpr int64_t kMostPatchCells = 4096;

bool looks_like_patch_file(std::string_view content);

// A patch file that was read.
class PatchFile final : public ArrayVocabulary {
 public:
  // `origin` names the file in errors. Throws user_error for another version, damaged() for a file that is cut short,
  // has a wrong checksum or contradicts itself.
  PatchFile(std::string content, const std::string& origin);

  PatchShape patch_shape() const override { return shape_; }
  uint32_t id_of(std::span<const uint8_t> patch) const override;
  std::span<const uint8_t> patch_of(uint32_t id) const override;
  int64_t vocab_size() const override { return vocab_size_; }
  int64_t num_patches() const { return num_references_ + num_others_; }
  std::string kind() const override { return "patches"; }
  std::string name() const override { return std::string(kPatchesName); }
  std::string_view file_content() const override { return content_; }
  std::string content_hash() const override;

 private:
  std::span<const uint8_t> patch(int64_t index) const;  // references, then others
  void fill_table(const std::string& origin);

  std::string content_;
  PatchShape shape_;
  int64_t vocab_size_ = 0, num_references_ = 0, num_others_ = 0;
  // Open addressing: index of a patch + 1; 0: empty.
  std::vector<uint32_t> table_;
};

}  // namespace hearth::recordings
