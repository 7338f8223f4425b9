// SPDX-License-Identifier: Apache-2.0
#include "formats/scalar.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/tensor_object.h"

namespace hearth::formats {
namespace {

// A dataloader's state may be long, and of any class.
constexpr PickleLimits kScalarLimits{.max_bytes = 1 << 26, .max_text = 1 << 26, .max_values = 1 << 20, .opaque = true};

struct PickleScalar {
  PickleWriter& pickle;
  void operator()(std::monostate) const { pickle.none(); }
  void operator()(bool value) const { pickle.boolean(value); }
  void operator()(int64_t value) const { pickle.integer(value); }
  void operator()(double value) const { pickle.real(value); }
  void operator()(const std::pair<double, double>& value) const {
    pickle.mark();
    pickle.real(value.first);
    pickle.real(value.second);
    pickle.tuple();
  }
};

}  // namespace

void add_scalar(ZipWriter& zip, const Scalar& value) {
  PickleWriter pickle;
  std::visit(PickleScalar{pickle}, value);
  add_head(zip, pickle);
  zip.add("archive/version", "3\n");
}

std::optional<double> read_number(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  const std::vector<ZipMember> members = read_zip_directory(file, offset, length, origin);
  const ZipMember* data = find_member(members, "data.pkl");
  if (data != nullptr && data->length > kScalarLimits.max_bytes) return std::nullopt;
  const Pickle pickle = read_data_pkl(file, nullptr, data, kScalarLimits, origin);
  const PickleKind kind = pickle.kind(pickle.root());
  if (kind != PickleKind::kInt && kind != PickleKind::kFloat) return std::nullopt;
  return pickle.number(pickle.root(), "the value");
}

}  // namespace hearth::formats
