#include "comm/control.h"

#include <cstring>

#include "comm/buffers.h"

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

std::string Control::broadcast(std::string_view operation, std::string_view bytes) {
  return all_gather(operation, rank() == 0 ? bytes : std::string_view()).front();
}

bool Control::any(std::string_view operation, bool value) {
  bool result = false;
  for (const std::string& of_rank : all_gather(operation, value ? "1" : "0")) result |= of_rank == "1";
  return result;
}

std::vector<double> Control::sum(std::string_view operation, std::span<const double> values) {
  const auto all = all_gather(operation, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
  std::vector<double> sums, column(all.size());
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t r = 0; r < all.size(); ++r) {
      HEARTH_CHECK(all[r].size() == values.size_bytes(), "rank {} sums another number of values", r);
      std::memcpy(&column[r], all[r].data() + i * sizeof(double), sizeof(double));
    }
    sums.push_back(sum_in_pairs(column));
  }
  return sums;
}

void Control::throw_first(std::string_view operation, const std::optional<Error>& error) {
  const std::vector<std::string> all = all_gather(operation, error ? to_bytes(with_rank(*error)) : std::string());
  for (const std::string& of_rank : all)
    if (!of_rank.empty()) throw from_bytes(of_rank);
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
