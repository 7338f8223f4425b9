// SPDX-License-Identifier: Apache-2.0
#include "convert/python_value.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

// Writes values to a pickle, which names the tensors and has their bytes elsewhere.
class Pickler {
 public:
  Pickler(formats::PickleWriter& pickle, const std::function<void(const PythonTensor&)>& push)
      : pickle_(pickle), push_(push) {}

  void add(const PythonValue& value) {
    std::visit([this](const auto& content) { add_content(content); }, value.content);
  }

 private:
  void add_content(const PythonNone&) { pickle_.none(); }
  void add_content(const PythonEmptyDict&) { pickle_.empty_dict(); }
  void add_content(bool value) { pickle_.boolean(value); }
  void add_content(int64_t value) { pickle_.integer(value); }
  void add_content(double value) { pickle_.real(value); }
  void add_content(const std::string& text) { pickle_.string(text); }
  void add_content(const PythonSize& size) { pickle_.size(size.sizes); }
  void add_content(const PythonGlobal& global) { pickle_.global(global.module, global.name); }
  void add_content(const PythonTensor& tensor) { push_(tensor); }
  void add_content(const PythonPair& pair) {
    pickle_.mark();
    pickle_.real(pair.first);
    pickle_.real(pair.second);
    pickle_.tuple();
  }
  void add_content(const PythonList& list) {
    pickle_.empty_list();
    pickle_.mark();
    for (const PythonValue& item : list) add(item);
    pickle_.append_items();
  }
  void add_content(const PythonDict& dict) {
    pickle_.empty_dict();
    pickle_.mark();
    for (const PythonEntry& entry : dict) {
      add(entry.key);
      add(entry.value);
    }
    pickle_.set_items();
  }
  void add_content(const PythonObject& object) {
    add_content(object.type);
    pickle_.empty_tuple();
    pickle_.new_object();
    add_content(object.members);
    pickle_.build();
  }

  formats::PickleWriter& pickle_;
  const std::function<void(const PythonTensor&)>& push_;
};

}  // namespace

void write_python_values(const Path& path, const PythonValue& value) {
  formats::PickleWriter pickle;
  Pickler(pickle, [](const PythonTensor&) { HEARTH_CHECK(false); }).add(value);
  formats::write_torch_pickle(path, pickle);
}

void write_python_file(const Path& path, const PythonValue& value) {
  std::vector<PythonTensor> tensors;
  formats::TorchFileWriter writer(path, [&](formats::PickleWriter& pickle, const auto& push) {
    Pickler(pickle, [&](const PythonTensor& tensor) {
      push(tensor.info);
      tensors.push_back(tensor);
    }).add(value);
  });
  for (const PythonTensor& tensor : tensors)
    tensor.write([&](std::span<const std::byte> bytes) { writer.write(bytes); });
  writer.finish();
}

std::vector<mesh::TensorInfo> write_python_references(const Path& path, const PythonValue& value) {
  std::vector<PythonTensor> tensors;
  formats::PickleWriter pickle;
  Pickler(pickle, [&](const PythonTensor& tensor) {
    formats::push_torch_reference(pickle, std::ssize(tensors));
    tensors.push_back(tensor);
  }).add(value);
  formats::write_torch_pickle(path, pickle);
  const Path folder = path.string() + ".tensors";
  make_folders(folder);
  std::vector<mesh::TensorInfo> infos;
  for (const PythonTensor& tensor : tensors) {
    formats::TorchFileWriter writer(folder / fmt::format("tensor_{}.pt", infos.size()), tensor.info);
    tensor.write([&](std::span<const std::byte> bytes) { writer.write(bytes); });
    writer.finish();
    infos.push_back(tensor.info);
  }
  sync_folder(folder);
  return infos;
}

}  // namespace hearth::convert
