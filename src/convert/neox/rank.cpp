#include "convert/neox/rank.h"

#include <fmt/format.h>

#include <algorithm>

namespace hearth::convert {

std::vector<int64_t> NeoxRank::layers(int64_t first, int64_t last) const {
  const int64_t norm = s_.L() + 3, output = s_.L() + 4;
  const auto has = [&](int64_t number) { return first <= number && number < last; };
  std::vector<int64_t> numbers;
  if (has(0) || (s_.tied && has(output))) numbers.push_back(0);
  for (int64_t number = std::max<int64_t>(first, 2); number < std::min(last, s_.L() + 2); ++number)
    numbers.push_back(number);
  if (has(norm)) numbers.push_back(norm);
  if (!s_.tied && has(output)) numbers.push_back(output);
  return numbers;
}

std::vector<RankTensor> NeoxRank::layer(int64_t number) const {
  if (number == 0) return {slicer_.rows("word_embeddings.weight", "tok_embeddings.weight")};
  if (number == s_.L() + 3) return {slicer_.whole("norm.scale", "norm.weight")};
  if (number == s_.L() + 4) return {slicer_.rows("final_linear.weight", "output.weight")};
  return block(number - 2);
}

RankTensor NeoxRank::queries_keys_values(const std::string& prefix) const {
  const Transfer &q = slicer_.find(prefix + "wq.weight"), &k = slicer_.find(prefix + "wk.weight"),
                 &v = slicer_.find(prefix + "wv.weight");
  const int64_t K = s_.K, queries = s_.H / ranks_, keys = s_.G / ranks_;
  RankTensor tensor{{"attention.query_key_value.weight", DType::kFloat32, {}}, {}, {}};
  if (!slots_ && s_.H != s_.G) {
    RankSlicer::append_rows(tensor, q, rank_ * queries * K, queries * K);
    for (const Transfer* source : {&k, &v}) RankSlicer::append_rows(tensor, *source, rank_ * keys * K, keys * K);
    return tensor;
  }
  const int64_t share = K * keys / queries;
  for (int64_t slot = rank_ * queries; slot < (rank_ + 1) * queries; ++slot) {
    RankSlicer::append_rows(tensor, q, slot * K, K);
    for (const Transfer* source : {&k, &v}) RankSlicer::append_rows(tensor, *source, slot * share, share);
  }
  return tensor;
}

std::vector<RankTensor> NeoxRank::block(int64_t i) const {
  const std::string prefix = fmt::format("layers.{}.", i);
  std::vector<RankTensor> tensors = {slicer_.whole("input_layernorm.scale", prefix + "attention_norm.weight"),
                                     queries_keys_values(prefix + "attention."),
                                     slicer_.columns("attention.dense.weight", prefix + "attention.wo.weight"),
                                     slicer_.whole("post_attention_layernorm.scale", prefix + "ffn_norm.weight")};
  const std::string gate = prefix + "feed_forward.w1.weight", up = prefix + "feed_forward.w3.weight",
                    down = prefix + "feed_forward.w2.weight";
  if (slots_) {
    tensors.push_back(slicer_.rows("mlp.w1.weight", gate));
    tensors.push_back(slicer_.rows("mlp.w3.weight", up));
    tensors.push_back(slicer_.columns("mlp.w2.weight", down));
  } else {
    tensors.push_back(slicer_.rows("mlp.linear1.weight", up, gate));
    tensors.push_back(slicer_.columns("mlp.linear2.weight", down));
  }
  return tensors;
}

}  // namespace hearth::convert
