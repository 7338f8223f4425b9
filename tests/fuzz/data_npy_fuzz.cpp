// SPDX-License-Identifier: Apache-2.0
// A .npy file as an array of counts, and as a vector of weights.
#include "data/source/source.h"
#include "formats/npy.h"
#include "target.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("x.npy", input);
  accepted(
      [&] { require(formats::read_npy_vector(path).size() <= input.size() / 4, "more numbers than the file holds"); });
  accepted([&] {
    data::SourceFile source;
    source.path = source.real_path = path.string();
    source.format = data::Format::kNpy;
    const auto reader = data::open_source(source, {});
    for (data::Record record; reader->next(record);) {
      if (record.problem != data::RecordProblem::kNone) continue;
      require(record.array->counts.size() <= input.size(), "more counts than the file holds");
      require(static_cast<int64_t>(record.array->counts.size()) == record.array->shape.cells(),
              "another number of counts than the shape says");
    }
  });
}

std::vector<std::string> seeds() {
  const std::vector<int64_t> array = {3, 4}, vector = {2};
  std::string fortran = formats::npy_header("|u1", array) + "123456789abc";
  fortran.replace(fortran.find("False"), 5, "True ");
  return {formats::npy_header("|u1", array) + "123456789abc", formats::npy_header("<f4", vector) + "12345678", fortran};
}

}  // namespace hearth::fuzz
