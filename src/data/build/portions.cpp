// SPDX-License-Identifier: Apache-2.0
#include "data/build/portions.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace hearth::data {

std::vector<Portion> plan_portions(const std::vector<SourceFile>& sources, int64_t portion_bytes, bool of_one_file) {
  std::vector<Portion> portions;
  Portion open;
  const auto close = [&] {
    if (!open.pieces.empty()) portions.push_back(std::exchange(open, {}));
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    const int64_t size = sources[i].size_bytes;
    if (size <= portion_bytes || !can_be_cut(sources[i])) {
      if (size > portion_bytes) close();
      open.pieces.push_back({i, {}});
      open.size_bytes += size;
      if (open.size_bytes >= portion_bytes || of_one_file) close();
      continue;
    }
    close();
    for (int64_t begin = 0; begin < size; begin += portion_bytes) {
      const int64_t end = std::min(begin + portion_bytes, size);
      // The last range has no end: a record without bytes may start at the very end.
      portions.push_back({{{i, {begin, end == size ? SourceRange{}.end : end}}}, end - begin});
    }
  }
  close();
  return portions;
}

std::pair<size_t, size_t> portions_of_part(const std::vector<Portion>& portions, int64_t index, int64_t count) {
  HEARTH_CHECK(index >= 0 && index < count);
  double total = 0;
  for (const Portion& portion : portions) total += static_cast<double>(portion.size_bytes);
  // A portion belongs to the part that has its middle.
  const auto first_of = [&](int64_t part) {
    const double border = total / static_cast<double>(count) * static_cast<double>(part);
    double before = 0;
    size_t i = 0;
    while (i < portions.size() && (part == count || before + static_cast<double>(portions[i].size_bytes) / 2 < border))
      before += static_cast<double>(portions[i++].size_bytes);
    return i;
  };
  return {first_of(index), first_of(index + 1)};
}

}  // namespace hearth::data
