// Parquet and Arrow files: whole, and where all is well in ranges too. Seeds of Parquet and of arrays, which we do not
// write, lie in the corpus.
#include "data/arrow_library.h"
#include "data/source.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

bool has_arrow() { return path_exists(Path(HEARTH_BIN_DIR) / data::kArrowObject); }

struct Rows {
  std::vector<std::string> rows;
  bool damaged = false;
};

void read(const data::SourceFile& source, const std::string& key, data::SourceRange range, Rows& out) {
  data::ReadRules rules;
  rules.text_keys = {key};
  rules.max_record_bytes = 1 << 20;
  const auto reader = data::open_source(source, rules, range);
  for (data::Record record; reader->next(record);) {
    require(!out.damaged || range.begin > 0, "a record after the end of what can be read");
    out.damaged = out.damaged || record.problem == data::Problem::kUnreadable;
    require(record.problem == data::Problem::kNone || !record.why.empty(), "a problem without a reason");
    std::string row = fmt::format("{} {} {}", record.position, data::problem_name(record.problem), record.text);
    for (const uint32_t id : record.ids) row += fmt::format(" {}", id);
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
  for (const char* key : {"text", "input_ids", "meta.text", "spike_counts"}) {
    accepted([&] {
      Rows whole;
      read(source, key, {}, whole);
      if (whole.damaged) return;
      Rows pieces;
      const int64_t step = source.size_bytes / 3 + 1;
      for (int64_t begin = 0; begin < source.size_bytes; begin += step)
        read(source, key, {begin, begin + step}, pieces);
      require(pieces.rows == whole.rows, "ranges give other rows than the whole file");
    });
  }
}

std::vector<std::string> seeds() {
  if (!has_arrow()) return {"PAR1"};
  std::string error;
  Bytes bytes;
  const auto table = data::arrow_library().new_table(
      {{"text", data::SavedType::kText}, {"input_ids", data::SavedType::kInt32List}}, "{}", bytes, error);
  const std::vector<int32_t> ids = {7, 1, 250};
  for (const char* text : {"one", "", "\xc3\xa9"}) {
    error += table->add_text(0, text);
    error += table->add_ids(1, ids);
    error += table->end_row();
  }
  error += table->finish();
  require(error.empty(), error.c_str());
  return {bytes.text, bytes.text.substr(0, bytes.text.size() - 8)};
}

}  // namespace hearth::fuzz
