// SPDX-License-Identifier: Apache-2.0
// A mixture of experts from a dense model: sparse upcycling (arXiv 2212.05055).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/random.h"
#include "convert/convert.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

void check(const config::Model& dense, const Upcycling& by) {
  const auto refuse = [](std::string message, std::string why, std::string fix) {
    throw user_error(std::move(message), std::move(why), std::move(fix));
  };
  if (dense.num_experts > 0)
    refuse("--upcycle is for a model without experts", fmt::format("IN has {} in a layer", dense.num_experts),
           "leave it out");
  if (!dense.gated_ffn || dense.ffn_bias)
    refuse("--upcycle is for gated feed-forwards without biases",
           dense.gated_ffn ? "IN has model.ffn_bias = true" : "IN has model.gated_ffn = false", "take another model");
  if (by.experts < 2 || by.top_k < 1 || by.top_k > by.experts)
    refuse(fmt::format("--upcycle {} with --moe-top-k {}", by.experts, by.top_k),
           "a token takes some of at least two experts", "give more experts, or a smaller --moe-top-k");
}

// "layers.3.moe.experts.17.MATRIX.weight" -> "layers.3.feed_forward.MATRIX.weight"; other names stay.
std::string name_in_dense(const std::string& name) {
  constexpr std::string_view kExperts = ".moe.experts.";
  const size_t at = name.find(kExperts);
  if (at == std::string::npos) return name;
  const size_t matrix = name.find('.', at + kExperts.size());
  return name.substr(0, at) + ".feed_forward" + name.substr(matrix);
}

}  // namespace

std::vector<Transfer> upcycle(config::Model& model, const Upcycling& by, const std::vector<Transfer>& dense) {
  check(model, by);
  model.num_experts = by.experts;
  model.moe_top_k = by.top_k;
  model.moe_hidden_dim = model.hidden_dim;
  // The weights of a token's experts add up to one. The experts are equal at first, so their sum is the dense result.
  model.route_norm = true;
  std::map<std::string, const Transfer*> found;
  for (const Transfer& tensor : dense) found[tensor.to.name] = &tensor;
  std::vector<Transfer> tensors;
  DType last{};  // of the parameter before: a router is as its block
  for (const plan::Parameter& p : plan::parameter_plan(plan::model_shape(model, 0)).parameters) {
    const auto at = found.find(name_in_dense(p.name));
    if (at == found.end()) {
      tensors.push_back({.from = {}, .to = {p.name, last, p.shape}, .drawn = Drawn{p.init_std, p.init_bound}});
      continue;
    }
    last = at->second->to.dtype;
    tensors.push_back({.from = at->second->from, .to = {p.name, last, p.shape}, .drawn = {}});
  }
  return tensors;
}

}  // namespace hearth::convert
