// SPDX-License-Identifier: Apache-2.0
// The search for the nearest reference, compared with a scan of all references.
#include "recordings/nearest_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace hearth::recordings {
namespace {

__extension__ typedef unsigned __int128 Wide;

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// The rule of train_patches.h: the largest cosine, and the smallest id among equal ones. cos1 > cos2 if dot1^2 square2
// > dot2^2 square1.
uint32_t brute_force(const PatchVocabulary& v, std::string_view patch) {
  const auto cells = static_cast<size_t>(v.shape.cells());
  uint32_t best = 0;
  uint64_t best_dot = 0, best_square = 1;
  for (uint32_t id = 0; id < v.references.size() / cells; ++id) {
    uint64_t dot = 0, square = 0;
    for (size_t i = 0; i < cells; ++i) {
      const auto r = static_cast<uint8_t>(v.references[id * cells + i]);
      dot += uint64_t{r} * static_cast<uint8_t>(patch[i]);
      square += uint64_t{r} * r;
    }
    if (static_cast<Wide>(dot * dot) * best_square <= static_cast<Wide>(best_dot * best_dot) * square) continue;
    best = id;
    best_dot = dot;
    best_square = square;
  }
  return best;
}

// Counts like neurons': most fire seldom, some often. One cell in `rarity` is drawn large.
std::string draw(std::mt19937& random, int64_t cells, unsigned rarity) {
  const double mean = std::gamma_distribution<double>(0.5, 0.4)(random);
  std::poisson_distribution<int> counts(mean);
  std::string patch(static_cast<size_t>(cells), '\0');
  for (char& count : patch)
    count = static_cast<char>(rarity > 0 && random() % rarity == 0 ? random() % 256
                                                                   : static_cast<unsigned>(counts(random)));
  return patch;
}

// Distinct patches; those drawn first have the small ids.
PatchVocabulary vocabulary(std::mt19937& random, PatchShape shape, size_t references, unsigned rarity) {
  PatchVocabulary v;
  v.shape = shape;
  v.vocab_size = static_cast<int64_t>(references) + 1;
  std::set<std::string> seen;
  for (int tries = 0; seen.size() < references && tries < 10'000'000; ++tries) {
    const std::string patch = draw(random, shape.cells(), rarity);
    if (seen.insert(patch).second) v.references += patch;
  }
  return v;
}

TEST(NearestReference, IsWhatLookingAtAllOfThemFindsForEveryShape) {
  std::mt19937 random(7);
  struct Case {
    PatchShape shape;
    size_t references, searches;
    unsigned rarity;
  };
  int not_first = 0;
  for (const Case& c : {Case{{1, 15}, 1500, 1000, 0}, Case{{1, 15}, 1500, 300, 20}, Case{{1, 1}, 5, 300, 2},
                        Case{{1, 2}, 100, 1000, 3}, Case{{2, 5}, 700, 500, 30}, Case{{1, 16}, 1000, 500, 50},
                        Case{{4, 15}, 700, 500, 0}, Case{{16, 16}, 150, 100, 0}, Case{{64, 64}, 30, 30, 2}}) {
    const PatchVocabulary v = vocabulary(random, c.shape, c.references, c.rarity);
    const NearestReference nearest(v);
    for (size_t i = 0; i < c.searches; ++i) {
      const std::string patch = draw(random, c.shape.cells(), c.rarity);
      const uint32_t expected = brute_force(v, patch);
      not_first += expected > 0 ? 1 : 0;
      ASSERT_EQ(nearest.id_of(bytes_of(patch)), expected) << c.shape.neurons << " x " << c.shape.bins << ", " << i;
    }
  }
  EXPECT_GT(not_first, 2000);
}

TEST(NearestReference, AtAVocabularyOf32000ItIsStillTheNearest) {
  std::mt19937 random(9);
  const PatchVocabulary v = vocabulary(random, {1, 15}, 31'999, 0);
  ASSERT_EQ(v.references.size(), 31'999U * 15);
  const NearestReference nearest(v);
  for (int i = 0; i < 80; ++i) {
    const std::string patch = draw(random, 15, i % 2 == 0 ? 0 : 12);
    ASSERT_EQ(nearest.id_of(bytes_of(patch)), brute_force(v, patch)) << i;
  }
}

TEST(NearestReference, EqualCosinesGoToTheSmallestIdWhateverTheirLengths) {
  PatchVocabulary v;
  v.shape = {1, 3};
  v.vocab_size = 8;
  // Zeros, and three directions, some of them twice. In floating point (1, 1, 0) and (2, 2, 0) differ in the last bit.
  v.references = std::string(
      "\0\0\0"
      "\3\3\0"
      "\1\1\0"
      "\0\0\5"
      "\0\0\1"
      "\1\2\3"
      "\2\4\6",
      21);
  const NearestReference nearest(v);
  const auto id = [&](std::vector<uint8_t> patch) { return nearest.id_of(patch); };
  EXPECT_EQ(id({1, 1, 0}), 1U);
  EXPECT_EQ(id({2, 2, 0}), 1U);
  EXPECT_EQ(id({200, 200, 0}), 1U);
  EXPECT_EQ(id({0, 0, 255}), 3U);
  EXPECT_EQ(id({3, 6, 9}), 5U);
  EXPECT_EQ(id({5, 0, 0}), 1U);  // 1 / sqrt 2 with two references, at most 1 / sqrt 14 with the others
  EXPECT_EQ(id({0, 0, 0}), 0U);  // cosine 0 with all references
  v.references = std::string("\1\0\0\0\1\0", 6);
  const NearestReference two(v);
  EXPECT_EQ(two.id_of(std::vector<uint8_t>{0, 0, 4}), 0U);
  EXPECT_EQ(two.id_of(std::vector<uint8_t>{7, 7, 4}), 0U);
  EXPECT_EQ(two.id_of(std::vector<uint8_t>{7, 8, 4}), 1U);
  v.references = std::string(3, '\0');
  EXPECT_EQ(NearestReference(v).id_of(std::vector<uint8_t>{7, 8, 4}), 0U);
}

}  // namespace
}  // namespace hearth::recordings
