#include <fmt/format.h>

#include <algorithm>

#include "convert/nxd.h"

namespace hearth::convert {
namespace {

class NxdRank {
 public:
  NxdRank(const std::vector<Transfer>& tensors, const plan::ModelShape& shape, const NxdLayout& layout,
          const NxdPlace& counts, const NxdPlace& place)
      : slicer_(tensors, counts.first, place.first),
        s_(shape),
        layout_(layout),
        ranks_(counts.first),
        stages_(counts.second),
        rank_(place.first),
        stage_(place.second) {}

  std::vector<RankTensor> run() {
    if (stage_ == 0) found_.push_back(slicer_.rows("model.embed_tokens.weight", "tok_embeddings.weight"));
    const int64_t layers = s_.L() / stages_;
    for (int64_t i = stage_ * layers; i < (stage_ + 1) * layers; ++i) add_layer(i);
    if (stage_ == stages_ - 1) {
      found_.push_back(slicer_.whole("model.norm.weight", "norm.weight"));
      found_.push_back(slicer_.rows("lm_head.weight", s_.tied ? "tok_embeddings.weight" : "output.weight"));
    }
    return std::move(found_);
  }

 private:
  void add_layer(int64_t i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    add_attention(ours + "attention.", theirs + "self_attn.");
    found_.push_back(slicer_.rows(theirs + "mlp.gate_up_proj.weight", ours + "feed_forward.w1.weight",
                                  ours + "feed_forward.w3.weight"));
    found_.push_back(slicer_.columns(theirs + "mlp.down_proj.weight", ours + "feed_forward.w2.weight"));
    found_.push_back(slicer_.whole(theirs + "input_layernorm.weight", ours + "attention_norm.weight"));
    found_.push_back(slicer_.whole(theirs + "post_attention_layernorm.weight", ours + "ffn_norm.weight"));
  }

  void add_attention(const std::string& ours, const std::string& theirs) {
    const Transfer &q = slicer_.find(ours + "wq.weight"), &o = slicer_.find(ours + "wo.weight");
    const int64_t first_q = nxd_first_query(s_.H, s_.G, ranks_, rank_) * s_.K, of_q = s_.H / ranks_ * s_.K;
    const int64_t keys = std::max<int64_t>(1, s_.G / ranks_), first_k = ranks_ > s_.G ? rank_ % s_.G : rank_ * keys;
    std::vector<RankTensor> parts(3);
    RankSlicer::append_rows(parts[0], q, first_q, of_q);
    RankSlicer::append_rows(parts[1], slicer_.find(ours + "wk.weight"), first_k * s_.K, keys * s_.K);
    RankSlicer::append_rows(parts[2], slicer_.find(ours + "wv.weight"), first_k * s_.K, keys * s_.K);
    if (layout_.qkv == NxdQkv::kFused) {
      for (const size_t part : {size_t{1}, size_t{2}}) {
        parts[0].info.shape[0] += parts[part].info.shape[0];
        parts[0].slices.push_back(parts[part].slices[0]);
      }
      parts.resize(1);
      // With a key for each query, another module does it.
      parts[0].info.name = theirs + (s_.H == s_.G ? "qkv_proj.weight" : "qkv_proj.weight_qkv");
    } else {
      for (size_t part = 0; part < 3; ++part) {
        const char letter = "qkv"[part];
        parts[part].info.name = theirs + (layout_.qkv == NxdQkv::kModule ? fmt::format("qkv_proj.weight_{}", letter)
                                                                         : fmt::format("{}_proj.weight", letter));
      }
    }
    for (RankTensor& part : parts) found_.push_back(std::move(part));
    const int64_t rows = o.to.shape[0];
    found_.push_back({{theirs + "o_proj.weight", o.to.dtype, {rows, of_q}}, {{&o, {{0, first_q}, {rows, of_q}}}}, {}});
  }

  const RankSlicer slicer_;
  const plan::ModelShape& s_;
  const NxdLayout& layout_;
  const int64_t ranks_, stages_, rank_, stage_;
  std::vector<RankTensor> found_;
};

}  // namespace

std::vector<RankTensor> nxd_tensors(const std::vector<Transfer>& tensors, const plan::ModelShape& shape,
                                    const NxdLayout& layout, const NxdPlace& counts, const NxdPlace& place) {
  return NxdRank(tensors, shape, layout, counts, place).run();
}

}  // namespace hearth::convert
