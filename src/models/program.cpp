// SPDX-License-Identifier: Apache-2.0
#include "models/program.h"

#include <fmt/format.h>

#include <utility>

namespace hearth::models {

std::string Step::full_name() const {
  const std::string text = fmt::format("{}{}", name, is_repeated ? " again" : "");
  return layer < 0 ? text : fmt::format("layer {}: {}", layer, text);
}

std::span<const Op> Program::ops_of(Section section, int64_t layer) const {
  const auto found = sections_.find({section, layer});
  if (found == sections_.end()) return {};
  return std::span(ops_).subspan(found->second.first, found->second.second - found->second.first);
}

Ref Program::add_buffer(std::string_view name, int64_t layer, std::vector<int64_t> buffer_shape, DType dtype) {
  buffers_.push_back({.name = name, .layer = layer, .shape = std::move(buffer_shape), .dtype = dtype});
  return {static_cast<int32_t>(buffers_.size() - 1)};
}

Ref Program::varying_buffer(std::string_view name, int64_t layer, std::vector<int64_t> buffer_shape, DType dtype) {
  const Ref added = layer < 0 ? shared_buffer(name, std::move(buffer_shape), dtype)
                              : add_buffer(name, layer, std::move(buffer_shape), dtype);
  buffers_[static_cast<size_t>(added.buffer)].varies = true;
  return added;
}

Ref Program::shared_buffer(std::string_view name, std::vector<int64_t> buffer_shape, DType dtype) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const Buffer& known = buffers_[i];
    if (known.layer < 0 && known.name == name && known.shape == buffer_shape && known.dtype == dtype)
      return {static_cast<int32_t>(i)};
  }
  return add_buffer(name, -1, std::move(buffer_shape), dtype);
}

void Program::begin(Pass pass, Section section, int64_t layer) {
  pass_ = pass;
  section_ = {section, layer};
  sections_[section_] = {ops_.size(), ops_.size()};
  is_beside_ = false;
}

void Program::begin_beside(Section section) {
  begin(pass_, section);
  is_beside_ = true;
}

void Program::step(std::string_view name, bool is_repeated) {
  const bool is_of_layer = section_.first == Section::kForward || section_.first == Section::kBackward ||
                           section_.first == Section::kWeightGradients;
  steps_.push_back({pass_, is_of_layer ? section_.second : -1, name, is_repeated, ops_.size(), 0});
}

void Program::add(Op op) {
  ops_.push_back(op);
  sections_[section_].second = ops_.size();
  if (!is_beside_) ++steps_.back().num_ops;
}

void Program::add_row_buffers() {
  if (shape.tensor.size == 1) return;
  gathered_rows = shared_buffer("gathered_rows", {tokens(), shape.D});
  partial_rows = shared_buffer("partial_rows", {tokens(), shape.D});
}

Ref Program::all_rows(const Ref& own) {
  if (shape.tensor.size == 1) return own;
  add(GatherRows{gathered_rows, own});
  return gathered_rows;
}

void Program::sum_rows(const Ref& own) {
  if (shape.tensor.size > 1) add(SumRows{own, partial_rows});
}

void Program::linear_gradients(const Ref& dx, const Ref& dy, const Ref& own, const Weight& weight) {
  if (shape.tensor.size > 1) return add(SharedLinearGradients{dx, dy, own, weight, gathered_rows, partial_rows});
  add(LinearInputGradient{dx, dy, weight});
  add(LinearWeightGradient{weight, dy, own});
}

Refs reads_of(const Op& op) {
  return std::visit([](const auto& one) { return one.reads(); }, op);
}
Refs writes_of(const Op& op) {
  return std::visit([](const auto& one) { return one.writes(); }, op);
}

}  // namespace hearth::models
