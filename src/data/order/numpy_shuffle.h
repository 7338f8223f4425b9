// NumPy's legacy shuffle, number by number: numpy.random.RandomState(seed).shuffle(). GPT-NeoX's order depends on it.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace hearth::data {

// One stream of random numbers. Several shuffles continue it, as with one RandomState.
class NumpyShuffle {
 public:
  explicit NumpyShuffle(uint32_t seed) : engine_(seed) {}

  // At most 2^32 values: above that NumPy draws words of 64 bits.
  void operator()(std::span<uint32_t> values);

 private:
  uint32_t draw(uint32_t most);  // 0 .. most, all equally likely

  std::mt19937 engine_;  // seeded as RandomState seeds an integer
};

}  // namespace hearth::data
