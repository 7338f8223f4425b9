// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/stacked.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>

#include "base/error.h"
#include "config/families.h"
#include "formats/dcp.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;
using Shape = std::vector<int64_t>;

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";

// The tensor without the ending that says how it is packed.
std::string_view without_ending(std::string_view name) {
  for (const std::string_view ending : {kBlocks, kScales})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

// Hearth's names of what is in the tensor, by the columns that alternate; empty: it is no stacked tensor. LlamaModel's
// files, and their kin, have no "model." before names.
std::vector<std::string> names_in(std::string_view stored, std::string_view family) {
  const std::string plain = unwrapped(without_ending(stored));
  for (const std::string& name : {plain, "model." + plain, std::string(without_model(plain))}) {
    std::vector<std::string> names = stacked_in_hugging_face(name, family);
    if (!names.empty()) return names;
  }
  return {};
}

std::string of_expert(const std::string& name, int64_t expert) { return numbered(name, expert); }

class Splitter {
 public:
  Splitter(const Path& folder, const Description& description, Renaming& renaming)
      : folder_(folder.string()), model_(description.model), renaming_(renaming) {}

  // `scales`: null for a tensor that is not packed.
  void split(const OutsideTensor& tensor, const OutsideTensor* scales, const std::vector<std::string>& names) {
    const auto count = std::ssize(names);
    const Shape weight = shape_of(of_expert(names.front(), 0));
    const int64_t outputs = weight.front() * count;
    const bool is_bias = weight.size() == 1;
    if (scales != nullptr) {
      const int64_t inputs = is_bias ? 0 : weight[1], blocks = inputs / formats::kMxfp4Block;
      if (is_bias || inputs % formats::kMxfp4Block != 0)
        refuse(fmt::format("{} has numbers of four bits", tensor.info.name),
               fmt::format("they are in blocks of {}, and {} has {} inputs", formats::kMxfp4Block,
                           without_ending(tensor.info.name), inputs));
      require(tensor, {model_.num_experts, outputs, blocks, formats::kMxfp4BlockBytes}, DType::kUInt8);
      require(*scales, {model_.num_experts, outputs, blocks}, DType::kUInt8);
    } else {
      require(tensor, is_bias ? Shape{model_.num_experts, outputs} : Shape{model_.num_experts, weight[1], outputs},
              std::nullopt);
    }
    for (int64_t place = 0; place < count; ++place) {
      const std::string& name = names[static_cast<size_t>(place)];
      for (int64_t expert = 0; expert < model_.num_experts; ++expert) {
        const std::string own = of_expert(name, expert);
        renaming_.add(tensor.info.name, own, unwrapped(tensor.info.name));
        found_.push_back(scales == nullptr ? view(tensor, own, weight, expert, place, count)
                                           : packed_view(tensor, *scales, own, weight, expert, place, count));
      }
    }
  }

  std::vector<OutsideTensor> found() { return std::move(found_); }

  [[noreturn]] void refuse(const std::string& what, std::string why) const {
    throw user_error(fmt::format("{}: {}", folder_, what), std::move(why),
                     "get config.json and the weights of one model");
  }

 private:
  // The shape of a weight of a layer: those of this family are equal.
  Shape shape_of(const std::string& name) const {
    config::Model one = model_;
    one.n_layers = 1;
    const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(one, 0));
    const std::string rest = name.substr(name.find('.', std::string_view("layers.").size()));
    const int64_t index = plan.find("layers.0" + rest);
    HEARTH_CHECK(index >= 0, "{} is no weight of a layer", name);
    return plan.parameters[static_cast<size_t>(index)].shape;
  }

  void require(const OutsideTensor& tensor, const Shape& shape, std::optional<DType> dtype) const {
    const bool fits = dtype ? tensor.info.dtype == *dtype : is_floating_point(tensor.info.dtype);
    if (fits && tensor.info.shape == shape && tensor.pieces.size() == 1) return;
    refuse(fmt::format("{} is {} {}", tensor.info.name, dtype_name(tensor.info.dtype),
                       formats::format_shape(tensor.info.shape)),
           fmt::format("the sizes of config.json make it {} {}", dtype ? dtype_name(*dtype) : "floating-point numbers",
                       formats::format_shape(shape)));
  }

  static OutsideTensor view(const OutsideTensor& tensor, const std::string& name, const Shape& shape, int64_t expert,
                            int64_t place, int64_t count) {
    OutsideTensor part = tensor;
    part.info.name = name;
    part.info.shape = shape;
    OutsideTensor::Piece& piece = part.pieces.front();
    const Shape strides = piece.layout.strides;
    piece.box = {Shape(shape.size()), shape};
    piece.layout.sizes = shape;
    piece.layout.strides = {strides.back() * count};
    if (shape.size() == 2) piece.layout.strides.push_back(strides[1]);
    piece.layout.data_offset += (expert * strides[0] + place * strides.back()) * dtype_size(tensor.info.dtype);
    return part;
  }

  static OutsideTensor packed_view(const OutsideTensor& blocks, const OutsideTensor& scales, const std::string& name,
                                   const Shape& shape, int64_t expert, int64_t place, int64_t count) {
    const OutsideTensor::Piece &of_blocks = blocks.pieces.front(), &of_scales = scales.pieces.front();
    const int64_t row_blocks = shape[1] / formats::kMxfp4Block, row = expert * shape[0] * count + place;
    const int64_t row_bytes = row_blocks * formats::kMxfp4BlockBytes;
    OutsideTensor part;
    part.info = {name, DType::kBFloat16, shape};
    OutsideTensor::Piece& piece = part.pieces.emplace_back();
    piece.box = {Shape(2), shape};
    piece.file = of_blocks.file;
    piece.layout = {DType::kBFloat16, shape, {shape[1], 1}, of_blocks.layout.data_offset + row * row_bytes};
    piece.mxfp4 = {of_scales.file,
                   {.offset = piece.layout.data_offset,
                    .stride = count * row_bytes,
                    .scales_offset = of_scales.layout.data_offset + row * row_blocks,
                    .scales_stride = count * row_blocks}};
    return part;
  }

  const std::string folder_;
  const config::Model& model_;
  Renaming& renaming_;
  std::vector<OutsideTensor> found_;
};

bool is_contiguous(const OutsideTensor& tensor) {
  if (tensor.pieces.size() != 1) return false;
  const formats::TensorLayout& layout = tensor.pieces.front().layout;
  int64_t stride = 1;
  for (size_t d = layout.sizes.size(); d-- > 0; stride *= layout.sizes[d])
    if (layout.strides[d] != stride) return false;
  return layout.member.length == 0;
}

}  // namespace

std::vector<OutsideTensor> split_stacked(const Path& folder, const Description& description,
                                         std::vector<OutsideTensor>& tensors, Renaming& renaming,
                                         std::vector<std::string>& notes) {
  const std::string_view family = config::family_of(description.model).name;
  Splitter splitter(folder, description, renaming);
  std::vector<OutsideTensor> others, stacked;
  for (OutsideTensor& tensor : tensors)
    (names_in(tensor.info.name, family).empty() ? others : stacked).push_back(std::move(tensor));
  tensors = std::move(others);
  bool is_packed = false;
  for (const OutsideTensor& tensor : stacked) {
    const std::string_view name = tensor.info.name, plain = without_ending(name);
    const auto with = [&](std::string_view ending) {
      const auto found = std::find_if(stacked.begin(), stacked.end(), [&](const OutsideTensor& one) {
        return one.info.name == fmt::format("{}{}", plain, ending);
      });
      return found == stacked.end() ? nullptr : &*found;
    };
    const OutsideTensor *const blocks = with(kBlocks), *const scales = with(kScales);
    if (name != plain && (blocks == nullptr || scales == nullptr))
      splitter.refuse(fmt::format("{} has no {}{} beside it", name, plain, blocks == nullptr ? kBlocks : kScales),
                      "numbers of four bits are blocks and their scales");
    if (name.ends_with(kScales)) continue;
    const bool packed = name != plain;
    if (packed && (!is_contiguous(*blocks) || !is_contiguous(*scales)))
      splitter.refuse(fmt::format("{} is not as safetensors has it", name), "numbers of four bits are read from there");
    is_packed = is_packed || packed;
    splitter.split(tensor, packed ? scales : nullptr, names_in(name, family));
  }
  if (is_packed) notes.emplace_back("experts of 4 bits (MXFP4) are read as bfloat16, without a loss");
  return splitter.found();
}

std::vector<int64_t> stacked_shape(const std::vector<int64_t>& weight, int64_t count) {
  if (weight.size() == 1) return {1, weight[0] * count};
  return {1, weight[1], weight[0] * count};
}

void write_stacked(checkpoint::Reader& reader, std::span<const Transfer> parts, int64_t count,
                   ConvertProgress& progress, const std::function<void(std::span<const std::byte>)>& write) {
  std::vector<std::byte> stacked;
  for (size_t first = 0; first < parts.size(); first += static_cast<size_t>(count)) {
    const Shape& shape = parts[first].to.shape;
    const auto outputs = static_cast<size_t>(shape[0]), inputs = static_cast<size_t>(shape.size() == 1 ? 1 : shape[1]);
    const auto size = static_cast<size_t>(dtype_size(parts[first].to.dtype)), alternating = static_cast<size_t>(count);
    stacked.resize(outputs * inputs * alternating * size);
    for (size_t place = 0; place < alternating; ++place) {
      transfer(reader, parts[first + place], progress, [&](const mesh::Box& box, std::span<const std::byte> rows) {
        const auto begin = static_cast<size_t>(box.offsets[0]), end = begin + static_cast<size_t>(box.sizes[0]);
        for (size_t input = 0; input < inputs; ++input) {
          for (size_t output = begin; output < end; ++output) {
            std::memcpy(stacked.data() + ((input * outputs + output) * alternating + place) * size,
                        rows.data() + ((output - begin) * inputs + input) * size, size);
          }
        }
      });
    }
    write(stacked);
  }
}

}  // namespace hearth::convert
