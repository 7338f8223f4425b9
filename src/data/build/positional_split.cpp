// SPDX-License-Identifier: Apache-2.0
#include "data/build/positional_split.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "data/build/portion_reader.h"

namespace hearth::data {
namespace {

Error bad_split(std::string_view text, std::string why) {
  return user_error(fmt::format("--split {} is invalid", text), std::move(why),
                    "give up to three shares, of train, validation and test: 969,30,1");
}

double parse_share(std::string_view text, std::string_view share) {
  while (share.starts_with(' ')) share.remove_prefix(1);
  while (share.ends_with(' ')) share.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), value);
  if (error != std::errc() || end != share.data() + share.size() || !(value >= 0 && value <= 1e15))
    throw bad_split(text, fmt::format("\"{}\" is not a share", share));
  return value;
}

std::vector<double> shares_of(std::string_view text) {
  const char separator = text.find(',') != std::string_view::npos ? ',' : '/';
  std::vector<double> shares;
  for (std::string_view rest = text;;) {
    const size_t end = rest.find(separator);
    shares.push_back(parse_share(text, rest.substr(0, end)));
    if (end == std::string_view::npos) return shares;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace

std::string parse_split(std::string_view text) {
  const std::vector<double> shares = shares_of(text);
  if (shares.size() > 3) throw bad_split(text, fmt::format("it has {} shares", shares.size()));
  if (std::accumulate(shares.begin(), shares.end(), 0.0) <= 0) throw bad_split(text, "all shares are 0");
  std::vector<std::string> words;
  for (const double share : shares) words.push_back(fmt::format("{}", share));
  return join(words, ",");
}

std::array<int64_t, 4> split_borders(std::string_view split, int64_t documents) {
  std::vector<double> shares = shares_of(split);
  HEARTH_CHECK(!shares.empty() && shares.size() <= 3);
  shares.resize(3, 0);
  // In GPT-NeoX's order of operations: the last bit decides halves.
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::array<int64_t, 4> borders{};
  for (size_t i = 0; i < 3; ++i)
    borders[i + 1] =
        borders[i] + static_cast<int64_t>(std::nearbyint(shares[i] / sum * static_cast<double>(documents)));
  const int64_t too_many = borders[3] - documents;
  for (size_t i = 1; i < 4; ++i) borders[i] = std::max<int64_t>(0, borders[i] - too_many);
  return borders;
}

PositionalSplit::PositionalSplit(const std::vector<SourceFile>& sources, const std::vector<Portion>& portions,
                                 const BuildRules& rules, const Duplicates& duplicates, int64_t threads) {
  std::vector<int64_t> counts(portions.size());
  for_each_index(static_cast<int64_t>(portions.size()), threads, [&](int64_t i) {
    const auto portion = static_cast<size_t>(i);
    PortionReader records(sources, portions[portion], rules);
    for (Document document; records.next(document);) ++counts[portion];
    if (!duplicates.empty()) counts[portion] -= static_cast<int64_t>(duplicates[portion].size());
  });
  int64_t documents = 0;
  for (const int64_t count : counts) {
    first_document_.push_back(documents);
    documents += count;
  }
  borders_ = split_borders(rules.split, documents);
}

size_t PositionalSplit::split_of(size_t portion, int64_t number) const {
  const int64_t document = first_document_[portion] + number;
  HEARTH_CHECK(document < borders_[3]);
  return document < borders_[1] ? 0 : document < borders_[2] ? 1 : 2;
}

}  // namespace hearth::data
