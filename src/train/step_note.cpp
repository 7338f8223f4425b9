#include "train/step_note.h"

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "comm/buffers.h"

namespace hearth::train {
namespace {

using Json = nlohmann::json;

StepNote from_text(const std::string& text) {
  const Json json = Json::parse(text);
  std::vector<double> counts;
  for (const Json& bits : json.at("counts")) counts.push_back(std::bit_cast<double>(bits.get<uint64_t>()));
  return {.counts = std::move(counts),
          .substitutes = json.at("substitutes").get<std::vector<std::string>>(),
          .failed = json.at("failed").get<bool>(),
          .leave = json.at("leave").get<bool>(),
          .save = json.at("save").get<bool>(),
          .written_step = json.at("written_step").get<int64_t>()};
}

}  // namespace

std::string to_text(const StepNote& note) {
  Json counts = Json::array();  // as bits: JSON has no NaN
  for (const double count : note.counts) counts.push_back(std::bit_cast<uint64_t>(count));
  const Json json = {{"counts", counts},      {"substitutes", note.substitutes},
                     {"failed", note.failed}, {"leave", note.leave},
                     {"save", note.save},     {"written_step", note.written_step}};
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);  // a file's name may be any bytes
}

StepNote agreed_note(const std::vector<std::string>& texts, const std::vector<int64_t>& data_ranks) {
  std::vector<StepNote> notes;
  for (const std::string& text : texts) notes.push_back(from_text(text));
  StepNote agreed;
  agreed.written_step = notes.front().written_step;
  for (const int64_t r : data_ranks) {
    const std::vector<std::string>& more = notes[static_cast<size_t>(r)].substitutes;
    agreed.substitutes.insert(agreed.substitutes.end(), more.begin(), more.end());
  }
  for (const StepNote& note : notes) {
    agreed.failed |= note.failed;
    agreed.leave |= note.leave;
    agreed.save |= note.save;
    agreed.written_step = std::min(agreed.written_step, note.written_step);
  }
  if (agreed.failed) return agreed;
  for (size_t i = 0; i < notes.front().counts.size(); ++i) {
    std::vector<double> column;
    for (const int64_t r : data_ranks) {
      const StepNote& note = notes[static_cast<size_t>(r)];
      HEARTH_CHECK(note.counts.size() == notes.front().counts.size(), "rank {} has other micro-batches", r);
      column.push_back(note.counts[i]);
    }
    agreed.counts.push_back(comm::sum_in_pairs(column));
  }
  return agreed;
}

}  // namespace hearth::train
