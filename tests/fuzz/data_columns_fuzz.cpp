// SPDX-License-Identifier: Apache-2.0
// Parquet and Arrow files: whole, and in ranges if the whole file is good. Seeds of Parquet and of arrays, which we do
// not write, are in the corpus.
#include "data/formats/arrow_library.h"
#include "data/source/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

bool has_arrow() { return path_exists(Path(HEARTH_BIN_DIR) / data::kArrowObject); }

struct Rows {
  std::vector<std::string> rows;
  bool damaged = false;
};

data::ReadRules rules_for(const std::string& key, const std::string& labels_key, const std::string& weights_key) {
  data::ReadRules rules;
  rules.text_keys = {key};
  rules.max_record_bytes = 1 << 20;
  rules.labels_key = labels_key;
  rules.weights_key = weights_key;
  return rules;
}

void read(const data::SourceFile& source, const data::ReadRules& rules, data::SourceRange range, Rows& out) {
  const auto reader = data::open_source(source, rules, range);
  for (data::Record record; reader->next(record);) {
    require(!out.damaged || range.begin > 0, "a record after the end of what can be read");
    out.damaged = out.damaged || record.problem == data::RecordProblem::kUnreadable;
    require(record.problem == data::RecordProblem::kNone || !record.why.empty(), "a problem without a reason");
    std::string row = fmt::format("{} {} {}", record.position, data::problem_name(record.problem), record.text);
    for (const uint32_t id : record.ids) row += fmt::format(" {}", id);
    if (record.problem == data::RecordProblem::kNone && !record.weights.empty())
      require(record.weights.places() == std::ssize(record.ids) + std::ssize(record.text), "weights of other tokens");
    for (const auto& run : record.weights.runs()) row += fmt::format(" {} {}", run.end, run.weight);
    if (record.array != nullptr) {
      const auto& [shape, counts, labels] = *record.array;
      require(static_cast<int64_t>(counts.size()) == shape.cells(), "an array has another size than its shape");
      row += fmt::format(" {} {} {} {} {} {}", shape.neurons, shape.bins, labels[0], labels[1], labels[2], labels[3]);
      for (const int count : counts) row += fmt::format(" {}", count);
    }
    out.rows.push_back(std::move(row));
  }
}

class Bytes final : public data::ByteSink {
 public:
  bool write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return true;
  }
  std::string text;
};

}  // namespace

void run(std::string_view input) {
  if (!has_arrow() || input.empty()) return;
  const Path path = write_scratch("x", input);
  data::SourceFile source;
  source.path = source.real_path = path.string();
  source.size_bytes = static_cast<int64_t>(input.size());
  source.format = input.starts_with("PAR") ? data::Format::kParquet : data::Format::kArrow;
  for (const data::ReadRules& rules :
       {rules_for("text", "", ""), rules_for("input_ids", "", ""), rules_for("meta.text", "", ""),
        rules_for("spike_counts", "", ""), rules_for("input_ids", "labels", "weights"),
        rules_for("text", "", "input_ids")}) {
    accepted([&] {
      Rows whole;
      read(source, rules, {}, whole);
      if (whole.damaged) return;
      Rows pieces;
      const int64_t step = source.size_bytes / 3 + 1;
      for (int64_t begin = 0; begin < source.size_bytes; begin += step)
        read(source, rules, {begin, begin + step}, pieces);
      require(pieces.rows == whole.rows, "ranges give other rows than the whole file");
    });
  }
}

std::vector<std::string> seeds() {
  if (!has_arrow()) return {"PAR1"};
  std::string error;
  Bytes bytes;
  const auto table = data::arrow_library().new_table({{"text", data::SavedType::kText},
                                                      {"input_ids", data::SavedType::kInt32List},
                                                      {"labels", data::SavedType::kInt64List},
                                                      {"weights", data::SavedType::kFloatList}},
                                                     "{}", bytes, error);
  const std::vector<int32_t> ids = {7, 1, 250}, labels = {7, -100, 250};
  const std::vector<float> weights = {0, 1, 2.5F};
  for (const char* text : {"one", "", "\xc3\xa9"}) {
    error += table->add_text(0, text);
    error += table->add_ids(1, ids);
    error += table->add_ids(2, labels);
    error += table->add_weights(3, weights);
    error += table->end_row();
  }
  error += table->finish();
  require(error.empty(), error.c_str());
  return {bytes.text, bytes.text.substr(0, bytes.text.size() - 8)};
}

}  // namespace hearth::fuzz
