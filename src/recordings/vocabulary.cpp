// SPDX-License-Identifier: Apache-2.0
#include "recordings/vocabulary.h"

#include <fmt/format.h>

#include "recordings/spike_vocabulary.h"

namespace hearth::recordings {

std::string text_of_id(const ArrayVocabulary& vocabulary, uint32_t id) {
  if (id == vocabulary.bos()) return "\n";
  std::string text;
  char before = ' ';
  for (const uint8_t count : vocabulary.patch_of(id)) {
    text += fmt::format("{}{}", before, count);
    before = ',';
  }
  return text;
}

bool is_name_of_arrays(std::string_view name) { return parse_spikes_name(name) || name == kPatchesName; }

}  // namespace hearth::recordings
