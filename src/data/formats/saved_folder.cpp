// SPDX-License-Identifier: Apache-2.0
#include "data/formats/saved_folder.h"

#include <algorithm>
#include <array>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {
namespace {

using nlohmann::ordered_json;

// A file of the folder. A disk error is kept until the library has returned.
class FileSink final : public ByteSink {
 public:
  explicit FileSink(const Path& path) : file_(File::create(path)) {}
  bool write(std::span<const std::byte> bytes) override {
    try {
      file_.write(bytes);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return failure_ == nullptr;
  }
  void check(const std::string& message) const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    if (!message.empty())
      throw user_error(fmt::format("{} cannot be written", file_.path().string()), message,
                       "build with --document-bytes, if a document is too long for it");
  }
  void finish() {
    file_.sync();
    file_.close();
  }

 private:
  File file_;
  std::exception_ptr failure_;
};

ordered_json feature_of(const SavedColumn& column) {
  constexpr std::array kTypes = {"string", "int8", "int32", "int64", "float32"};  // in the order of the enum
  ordered_json value = {{"dtype", kTypes.at(static_cast<size_t>(column.type))}, {"_type", "Value"}};
  if (column.type == SavedType::kText) return value;
  // Versions before 4 call lists Sequence, and later versions read that too.
  return {{"feature", value}, {"_type", "Sequence"}};
}

ordered_json features_of(const std::vector<SavedColumn>& columns) {
  ordered_json features = ordered_json::object();
  for (const SavedColumn& column : columns) features[column.name] = feature_of(column);
  return features;
}

void write_lists(const Path& folder, const std::vector<std::string>& files, const SavedTable& table) {
  nlohmann::json state = {{"_fingerprint", fmt::format("{:016x}", xxh3_64(table.made_from))},
                          {"_format_columns", nullptr},
                          {"_format_kwargs", nlohmann::json::object()},
                          {"_format_type", nullptr},
                          {"_output_all_columns", false},
                          {"_split", table.split}};
  for (const std::string& file : files) state["_data_files"].push_back({{"filename", file}});
  const ordered_json info = {{"citation", ""},
                             {"description", ""},
                             {"features", features_of(table.columns)},
                             {"homepage", ""},
                             {"license", ""}};
  write_file_atomic(folder / "dataset_info.json", info.dump(2));
  write_file_atomic(folder / "state.json", state.dump(2));
}

}  // namespace

void write_saved_folder(const Path& folder, const SavedTable& table, int64_t file_bytes,
                        const std::function<void(int64_t row, SavedRow& out)>& fill) {
  Path temporary = folder;
  temporary += ".tmp";
  remove_tree(temporary);
  make_folders(temporary);
  const int64_t count = std::min(table.bytes / file_bytes + 1, std::max<int64_t>(1, table.rows));
  const int64_t rows = table.rows / count, longer = table.rows % count;
  const std::string metadata = ordered_json{{"info", {{"features", features_of(table.columns)}}}}.dump();
  std::vector<std::string> files;
  for (int64_t f = 0, row = 0; f < count; ++f) {
    files.push_back(fmt::format("data-{:05}-of-{:05}.arrow", f, count));
    FileSink sink(temporary / files.back());
    std::string error;
    const auto writer = arrow_library().new_table(table.columns, metadata, sink, error);
    sink.check(error);
    SavedRow out(*writer, [&sink](const std::string& message) { sink.check(message); });
    for (const int64_t end = row + rows + (f < longer ? 1 : 0); row < end; ++row) {
      fill(row, out);
      sink.check(writer->end_row());
    }
    sink.check(writer->finish());
    sink.finish();
  }
  write_lists(temporary, files, table);
  Path aside = folder;
  aside += ".old";
  replace_folder(temporary, folder, aside);
}

}  // namespace hearth::data
