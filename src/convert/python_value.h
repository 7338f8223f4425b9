// SPDX-License-Identifier: Apache-2.0
// Values of Python as data, and files of torch.save with them: what other programs keep of a training.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/file.h"
#include "mesh/tensor_box.h"

namespace hearth::convert {

struct PythonValue;
struct PythonEntry;

struct PythonNone {};
struct PythonEmptyDict {};                     // without the opcodes that add entries
using PythonPair = std::pair<double, double>;  // a tuple
using PythonList = std::vector<PythonValue>;
using PythonDict = std::vector<PythonEntry>;
struct PythonSize {
  std::vector<int64_t> sizes;  // a torch.Size
};
struct PythonGlobal {
  std::string module, name;
};
// An object of the class without arguments, with these members.
struct PythonObject {
  PythonGlobal type;
  PythonDict members;
};
using ByteWriter = std::function<void(std::span<const std::byte> bytes)>;
// `write` gives its elements, row-major, to the sink. What it borrows has to live until the file is written.
struct PythonTensor {
  mesh::TensorInfo info;  // the name does not count
  std::function<void(const ByteWriter& sink)> write;
};

struct PythonValue {
  std::variant<PythonNone, PythonEmptyDict, bool, int64_t, double, std::string, PythonPair, PythonList, PythonDict,
               PythonSize, PythonGlobal, PythonObject, PythonTensor>
      content;

  template <typename T>
  requires(!std::is_same_v<std::remove_cvref_t<T>, PythonValue>) PythonValue(T&& value)
      : content(std::forward<T>(value)) {}  // NOLINT: each of these is a value
};
struct PythonEntry {
  PythonValue key, value;
};

// A file whose value has no tensors.
void write_python_values(const Path& path, const PythonValue& value);
// Writes the bytes of the tensors, too, in the order in which the value has them.
void write_python_file(const Path& path, const PythonValue& value);
// As torch_xla's xser does: tensor I is the file tensor_I.pt in the folder FILE.tensors. Returns the tensors' infos.
std::vector<mesh::TensorInfo> write_python_references(const Path& path, const PythonValue& value);

}  // namespace hearth::convert
