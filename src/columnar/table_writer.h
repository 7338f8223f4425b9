// SPDX-License-Identifier: Apache-2.0
// Writes tables like Hugging Face's save_to_disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/formats/arrow_library.h"

namespace hearth::columnar {

// See data::ArrowLibrary::new_table.
std::unique_ptr<data::TableWriter> new_table_writer(const std::vector<data::SavedColumn>& columns,
                                                    std::string_view metadata, data::ByteSink& sink,
                                                    std::string& error);

}  // namespace hearth::columnar
