#include "data/order/numpy_shuffle.h"

#include <bit>
#include <utility>

#include "base/error.h"

namespace hearth::data {

// NumPy masks a word to the number of bits of `most`, and draws again while the result is larger.
uint32_t NumpyShuffle::draw(uint32_t most) {
  const uint32_t mask = ~uint32_t{0} >> std::countl_zero(most);
  uint32_t value = 0;
  do value = static_cast<uint32_t>(engine_()) & mask;
  while (value > most);
  return value;
}

void NumpyShuffle::operator()(std::span<uint32_t> values) {
  HEARTH_CHECK(values.size() <= uint64_t{1} << 32);
  for (size_t i = values.size(); i-- > 1;) std::swap(values[i], values[draw(static_cast<uint32_t>(i))]);
}

}  // namespace hearth::data
