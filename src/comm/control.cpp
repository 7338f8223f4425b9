// SPDX-License-Identifier: Apache-2.0
#include "comm/control.h"

#include "comm/notes/frames.h"
#include "comm/notes/pair_sums.h"

namespace hearth::comm {

namespace {

constexpr char kSeparator = '\0';  // in no message

std::string to_bytes(const Error& e) {
  return fmt::format("{1}{0}{2}{0}{3}{0}{4}{0}{5}", kSeparator, static_cast<int>(e.code()), e.message(), e.why(),
                     e.fix(), e.key());
}

Error from_bytes(std::string_view bytes) {
  std::vector<std::string> fields(1);
  for (const char c : bytes) {
    if (c == kSeparator) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  HEARTH_CHECK(fields.size() == 5, "an error of {} fields", fields.size());
  return Error(static_cast<ExitCode>(std::stoi(fields[0])), fields[1], fields[2], fields[3]).about(fields[4]);
}

}  // namespace

void merge_lists(std::string& lower, std::string_view upper) { lower += upper; }

void merge_first(std::string& lower, std::string_view upper) {
  if (lower.empty()) lower = upper;
}

void merge_bits(std::string& lower, std::string_view upper) {
  HEARTH_CHECK(lower.size() == upper.size(), "{} and {} bytes of bits", lower.size(), upper.size());
  for (size_t i = 0; i < lower.size(); ++i) lower[i] = static_cast<char>(lower[i] | upper[i]);
}

void merge_sums(std::string& lower, std::string_view upper) {
  PairSums sums = PairSums::from_bytes(lower);
  sums.append(PairSums::from_bytes(upper));
  lower = sums.bytes();
}

std::vector<std::string> Control::all_gather(std::string_view operation, std::string_view bytes) {
  return parts_of(reduce(operation, parts_as_bytes(bytes), merge_lists));
}

std::vector<std::string> Control::gather(std::string_view operation, std::string_view bytes) {
  return parts_of(collect(post(operation, parts_as_bytes(bytes), merge_lists, Answers::kRank0)));
}

std::string Control::broadcast(std::string_view operation, std::string_view bytes) {
  return first(operation, rank() == 0 ? bytes : std::string_view());
}

bool Control::any(std::string_view operation, bool value) { return !first(operation, value ? "1" : "").empty(); }

std::vector<double> Control::sum(std::string_view operation, std::span<const double> values) {
  const PairSums mine(rank(), {values.begin(), values.end()});
  return PairSums::from_bytes(reduce(operation, mine.bytes(), merge_sums)).total(size());
}

void Control::throw_first(std::string_view operation, const std::optional<Error>& error) {
  const std::string found = first(operation, error ? to_bytes(with_rank(*error)) : std::string());
  if (!found.empty()) throw from_bytes(found);
}

// Rank 0 does much alone, and what fails on all is said by rank 0.
Error Control::with_rank(const Error& error) const {
  const std::string_view said = error.what();
  if (rank() == 0 || said.find(kRankLine) != said.npos || said.find(name() + " ") != said.npos) return error;
  const std::string line = std::string(kRankLine) + name();
  if (!error.fix().empty())
    return Error(error.code(), error.message(), error.why(), error.fix() + line).about(error.key());
  if (!error.why().empty()) return Error(error.code(), error.message(), error.why() + line).about(error.key());
  return Error(error.code(), error.message() + line).about(error.key());
}

}  // namespace hearth::comm
