// SPDX-License-Identifier: Apache-2.0
// libhearth_arrow.so: the sources in this folder are the only code that uses Arrow and Parquet (the pyarrow wheel).
#include "columnar/rows.h"
#include "columnar/table_writer.h"
#include "data/formats/arrow_library.h"

namespace hearth::columnar {

namespace {

class Library final : public data::ArrowLibrary {
 public:
  std::unique_ptr<data::ColumnRows> open_rows(const data::ColumnRequest& request,
                                              data::ColumnFailure& failure) const override {
    return request.format == data::Format::kParquet ? open_parquet_rows(request, failure)
                                                    : open_ipc_rows(request, failure);
  }
  std::unique_ptr<data::TableWriter> new_table(const std::vector<data::SavedColumn>& columns, std::string_view metadata,
                                               data::ByteSink& sink, std::string& error) const override {
    return new_table_writer(columns, metadata, sink, error);
  }
};

}  // namespace
}  // namespace hearth::columnar

extern "C" __attribute__((visibility("default"))) const hearth::data::ArrowLibrary* HEARTH_ARROW_ENTRY() {
  static const hearth::columnar::Library library;
  return &library;
}
