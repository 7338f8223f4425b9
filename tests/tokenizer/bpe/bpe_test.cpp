// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/bpe/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "support/mixed_text.h"

namespace hearth::tokenizer {
namespace {

using Pair = std::pair<uint32_t, uint32_t>;

// A vocabulary of bytes and random merges, as a list and as a table for the plain algorithm below.
struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
  std::map<Pair, std::pair<uint32_t, uint32_t>> ranks;  // pair -> rank, result
};

// `disordered`: a merge may use a token whose own merge comes later.
Vocabulary random_vocabulary(uint64_t seed, int num_letters, size_t num_merges, bool disordered) {
  const RandomKey key = random_key(seed, "vocabulary");
  uint64_t counter = 0;
  Vocabulary v;
  for (int byte = 0; byte < 256; ++byte) v.tokens.emplace_back(1, static_cast<char>(byte));
  std::map<std::string, uint32_t> ids;
  std::vector<uint32_t> usable;
  for (int i = 0; i < num_letters; ++i) usable.push_back(static_cast<uint32_t>('a' + i));
  for (uint64_t tries = 0; v.merges.size() < num_merges && tries < 100 * num_merges; ++tries) {
    const uint32_t left = usable[random_u64(key, counter++) % usable.size()],
                   right = usable[random_u64(key, counter++) % usable.size()];
    const std::string joined = v.tokens[left] + v.tokens[right];
    if (joined.size() > 12 || v.ranks.contains({left, right})) continue;
    const auto [found, is_new] = ids.try_emplace(joined, static_cast<uint32_t>(v.tokens.size()));
    if (is_new) {
      v.tokens.push_back(joined);
      usable.push_back(found->second);
    }
    v.merges.push_back({left, right, found->second});
    v.ranks[{left, right}] = {0, found->second};
  }
  if (disordered) {
    for (size_t i = v.merges.size() - 1; i > 0; --i)
      std::swap(v.merges[i], v.merges[random_u64(key, counter++) % (i + 1)]);
  }
  for (uint32_t m = 0; m < v.merges.size(); ++m) v.ranks[{v.merges[m].left, v.merges[m].right}].first = m;
  return v;
}

// The rule as a plain loop: again and again merge the leftmost of the pairs of lowest rank.
std::vector<uint32_t> merge_plainly(const Vocabulary& v, std::string_view piece) {
  std::vector<uint32_t> symbols;
  for (const char c : piece) symbols.push_back(static_cast<uint8_t>(c));
  while (true) {
    auto best = v.ranks.end();
    size_t place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = v.ranks.find({symbols[i], symbols[i + 1]});
      if (found == v.ranks.end() || (best != v.ranks.end() && found->second.first >= best->second.first)) continue;
      best = found;
      place = i;
    }
    if (best == v.ranks.end()) return symbols;
    symbols[place] = best->second.second;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

std::string random_piece(const RandomKey& key, uint64_t number, int num_letters, size_t size) {
  std::string piece;
  for (size_t i = 0; i < size; ++i)
    piece.push_back(static_cast<char>('a' + random_u64(key, number * 1000 + i) % static_cast<uint64_t>(num_letters)));
  return piece;
}

TEST(Bpe, MergesAsTheRuleSaysWhateverTheVocabularyAndTheLength) {
  const RandomKey key = random_key(1, "pieces");
  uint64_t number = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const bool disordered = seed % 2 == 1;
    const int num_letters = 1 + static_cast<int>(seed % 5);
    const Vocabulary v = random_vocabulary(seed, num_letters, 5 + 6 * seed, disordered);
    const Bpe bpe = Bpe::from_merges(v.tokens, v.merges);
    BpeEncoder encoder(bpe);
    for (size_t size = 1; size < 200; size += 1 + size / 8) {
      const std::string piece = random_piece(key, ++number, num_letters, size);
      std::vector<uint32_t> ids;
      encoder.encode_piece(piece, ids);
      ASSERT_EQ(ids, merge_plainly(v, piece)) << "vocabulary " << seed << ": " << piece;
      encoder.encode_piece(piece, ids);  // the cache gives the same ids
      ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2));
      ASSERT_EQ(ids, merge_plainly(v, piece)) << "again, vocabulary " << seed << ": " << piece;
      ids.clear();
      encoder.merge_symbols(std::vector<uint32_t>(piece.begin(), piece.end()), ids);
      ASSERT_EQ(ids, merge_plainly(v, piece)) << "symbols, vocabulary " << seed << ": " << piece;
    }
  }
}

TEST(Bpe, RanksMergeThePairWhoseBytesAreTheLowestToken) {
  // Tokens of two and three letters. A pair's rank is the rank of its token, for any split of it.
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* more : {"bc", "ab", "abc", "cd", "bcd", "aaa", "aa"}) tokens.emplace_back(more);
  Vocabulary v;
  v.tokens = tokens;
  const auto id_of = [&](const std::string& text) {
    return static_cast<uint32_t>(std::find(tokens.begin(), tokens.end(), text) - tokens.begin());
  };
  for (uint32_t id = 256; id < tokens.size(); ++id) {
    for (size_t cut = 1; cut < tokens[id].size(); ++cut) {
      const uint32_t left = id_of(tokens[id].substr(0, cut)), right = id_of(tokens[id].substr(cut));
      if (left < tokens.size() && right < tokens.size()) v.ranks[{left, right}] = {id, id};
    }
  }
  const Bpe bpe = Bpe::from_ranks(tokens);
  BpeEncoder encoder(bpe, 0);
  const RandomKey key = random_key(2, "pieces");
  for (uint64_t number = 0; number < 2000; ++number) {
    const std::string piece = random_piece(key, number, 4, 1 + number % 70);
    std::vector<uint32_t> ids;
    encoder.encode_piece(piece, ids);
    std::vector<uint32_t> expected = merge_plainly(v, piece);
    if (bpe.find(piece)) expected = {*bpe.find(piece)};  // a whole piece has precedence
    ASSERT_EQ(ids, expected) << piece;
  }
}

TEST(Bpe, AWholePieceComesFirstOnlyWhereTheVocabularySaysSo) {
  // The merges never reach the token "abc".
  std::vector<std::string> tokens = {"a", "b", "c", "ab", "bc", "abc"};
  const std::vector<Merge> merges = {{1, 2, 4}, {0, 1, 3}, {3, 2, 5}};
  const auto encode = [&](bool whole_piece_first) {
    const Bpe bpe = Bpe::from_merges(tokens, merges, whole_piece_first);
    BpeEncoder encoder(bpe);
    std::vector<uint32_t> ids;
    encoder.encode_piece("abc", ids);
    return ids;
  };
  EXPECT_EQ(encode(false), (std::vector<uint32_t>{0, 4}));
  EXPECT_EQ(encode(true), (std::vector<uint32_t>{5}));
}

TEST(Bpe, BytesWithoutATokenAreDropped) {
  const Bpe bpe = Bpe::from_merges({"a", "b", "ab", ""}, std::vector<Merge>{{0, 1, 2}});
  BpeEncoder encoder(bpe);
  for (int i = 0; i < 2; ++i) {  // the second time from the cache
    std::vector<uint32_t> ids;
    encoder.encode_piece("axxbab", ids);
    EXPECT_EQ(ids, (std::vector<uint32_t>{2, 2}));
  }
}

TEST(Bpe, ManyPiecesGiveWhatEachGives) {
  const Vocabulary v = random_vocabulary(7, 5, 300, false);
  const Bpe bpe = Bpe::from_merges(v.tokens, v.merges);
  BpeEncoder encoder(bpe, 64);  // so small that entries evict each other
  const std::string text = random_piece(random_key(3, "pieces"), 0, 5, 20'000);
  std::vector<std::string_view> pieces;
  for (size_t at = 0, i = 0; at < text.size(); ++i) {
    pieces.push_back(std::string_view(text).substr(at, i % 40));
    at += i % 40;
  }
  std::vector<uint32_t> ids, expected;
  encoder.encode_pieces(pieces, ids);
  for (const std::string_view piece : pieces) {
    const auto one = merge_plainly(v, piece);
    expected.insert(expected.end(), one.begin(), one.end());
  }
  EXPECT_EQ(ids, expected);
}

TEST(Bpe, TheCacheTellsPiecesApartThatBeginOrEndAlike) {
  const Vocabulary v = random_vocabulary(9, 2, 3000, false);
  const Bpe bpe = Bpe::from_merges(v.tokens, v.merges);
  BpeEncoder encoder(bpe, 8);
  const RandomKey key = random_key(4, "pieces");
  for (uint64_t number = 0; number < 4000; ++number) {
    const std::string own = random_piece(key, number, 2, 3 + number % 4), same = "babaabab";
    const std::string piece = number % 2 == 0 ? same + own : own + same;
    std::vector<uint32_t> ids;
    encoder.encode_piece(piece, ids);
    ASSERT_EQ(ids, merge_plainly(v, piece)) << piece;
  }
}

TEST(Bpe, AVocabularyThatContradictsItselfIsRefused) {
  const auto message = [](std::vector<std::string> tokens, std::vector<Merge> merges) -> std::string {
    try {
      Bpe::from_merges(std::move(tokens), merges);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged);
      return e.message();
    }
    return "no error";
  };
  EXPECT_EQ(message({"a", "b"}, {{0, 1, 2}}), "merge 0 names a token that does not exist");
  EXPECT_EQ(message({"a", "b", "ba"}, {{0, 1, 2}}), "merge 0 makes token 2 of 0 and 1, whose bytes do not join to it");
  EXPECT_EQ(message({"a", "b", "a"}, {}), "tokens 0 and 2 have the same bytes");
  try {
    Bpe::from_ranks({"a", "b"});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "the vocabulary has no token for byte 0x00");
  }
}

// A quadratic algorithm takes hours for this piece, so the time limit of the suite finds it. bench/tokenizer.py
// measures the speed.
TEST(Bpe, APieceOfFourMillionSymbolsTakesTimeInProportion) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  std::vector<Merge> merges;
  for (uint32_t left = 'a', size = 2; size <= 64; size *= 2) {
    tokens.emplace_back(size, 'a');
    merges.push_back({left, left, static_cast<uint32_t>(tokens.size() - 1)});
    left = merges.back().result;
  }
  const Bpe bpe = Bpe::from_merges(tokens, merges);
  BpeEncoder encoder(bpe);
  std::vector<uint32_t> ids;
  encoder.encode_piece(std::string(1 << 22, 'a'), ids);
  EXPECT_EQ(ids, std::vector<uint32_t>((1 << 22) / 64, 261));
}

}  // namespace
}  // namespace hearth::tokenizer
