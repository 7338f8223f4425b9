// SPDX-License-Identifier: Apache-2.0
// tokenizer.patches. The checksum at its end is made right, so that what is behind it is reached.
#include <cstring>

#include "base/hash.h"
#include "recordings/patch_file.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  std::string file(input);
  accepted([&] { recordings::PatchFile(file, "input"); });
  if (file.size() < sizeof(uint64_t)) return;
  const size_t end = file.size() - sizeof(uint64_t);
  const uint64_t checksum = xxh3_64(std::string_view(file).substr(0, end));
  std::memcpy(file.data() + end, &checksum, sizeof checksum);
  accepted([&] {
    const recordings::PatchFile patches(file, "input");
    require(patches.num_patches() * patches.patch_shape().cells() <= static_cast<int64_t>(input.size()),
            "more patches than the file holds");
    std::string text;
    for (uint32_t id = 0; id < std::min<int64_t>(patches.vocab_size(), 1000); ++id) {
      text += recordings::text_of_id(patches, id);
      if (const auto patch = patches.patch_of(id); !patch.empty())
        require(patches.id_of(patch) == id, "a reference has another id");
    }
  });
}

std::vector<std::string> seeds() {
  recordings::PatchVocabulary v;
  v.shape = {1, 3};
  v.vocab_size = 10;
  v.references = std::string("\0\0\0\0\0\1\1\0\0", 9);
  v.others = std::string("\0\0\2\0\2\1", 6);
  v.other_ids = {1, 2};
  recordings::PatchVocabulary small;
  small.vocab_size = 2;
  small.references = "\1";
  return {recordings::patch_file(v), recordings::patch_file(small)};
}

}  // namespace hearth::fuzz
