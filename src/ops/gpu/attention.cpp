// SPDX-License-Identifier: Apache-2.0
// Attention on a GPU: the vendor's kernel if it has a fast one, else ours.
//
// bfloat16, K a multiple of 8   whole rows, Hopper and newer: cuDNN; else FlashAttention-2, also with documents, and
//                               on NVIDIA's GPUs with windows
//   a part of the queries       FlashAttention-2 for each chunk of them, on NVIDIA's GPUs and without documents
// everything else               kernels/attention.cu
//
// The vendors' operators return new tensors, which are copied to the plan's memory: two copies of [T, H*K] a layer,
// through memory that ATen's allocator keeps.
#include <ATen/Context.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention.h>
#include <ATen/ops/_scaled_dot_product_cudnn_attention_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/gpu/access.h"
#include "ops/gpu/calls.h"

namespace hearth::ops::gpu {
namespace {

enum class Kernel { kOurs, kFlash, kFlashChunks, kCudnn };

bool is_whole(const AttentionMask& mask) { return mask.queries == plan::Chunks(); }

// cuDNN's backward adds in no fixed order, and takes no heads above 128.
Kernel kernel_for(const at::Tensor& q_BQHK, const AttentionMask& mask) {
  const int64_t K = q_BQHK.size(3);
  if (!q_BQHK.is_cuda() || q_BQHK.scalar_type() != at::kBFloat16 || K % 8 != 0 || K > 256) return Kernel::kOurs;
  const bool is_cuda = open_gpu().platform.starts_with("CUDA"), hopper = open_gpu().major >= 9 && is_cuda;
  // Windows of AMD's kernels for PyTorch were not tried.
  if (mask.reach >= 0 && !is_cuda) return Kernel::kOurs;
  // FlashAttention-2 aligns the last query with the last key; AMD's kernels for PyTorch do not all do so.
  if (!is_whole(mask)) {
    const bool aligned = mask.causal || mask.reach < 0;  // else a window's end counts from the last key
    return is_cuda && aligned && !mask.document_starts_N.defined() ? Kernel::kFlashChunks : Kernel::kOurs;
  }
  const bool any_order = !at::globalContext().deterministicAlgorithms();
  // ATen's operator of cuDNN takes no windows.
  const bool plain = !mask.document_starts_N.defined() && mask.reach < 0;
  return hopper && any_order && K <= 128 && plain ? Kernel::kCudnn : Kernel::kFlash;
}

// As the operators take a scale; absent: 1 / sqrt(K).
std::optional<double> given(double scale) { return scale > 0 ? std::optional(scale) : std::nullopt; }

int64_t num_documents(const AttentionMask& mask) {
  return mask.document_starts_N.defined() ? mask.document_starts_N.numel() : 0;
}

// FlashAttention's form of sequences: their beginnings and the end of the last, [N + 1] int32. Undefined: whole rows.
struct Sequences {
  at::Tensor begins;
  int64_t longest;

  Sequences(const AttentionMask& mask, int64_t T, int64_t S) : longest(S) {
    if (!mask.document_starts_N.defined()) return;
    begins = at::cat({mask.document_starts_N, at::full({1}, T, mask.document_starts_N.options())});
    if (mask.longest_document > 0) longest = mask.longest_document;
  }
  // [B, S, N, K], or packed [B * S, N, K] with documents.
  at::Tensor view(const at::Tensor& x) const { return begins.defined() ? x.flatten(0, 1) : x; }
  // lse [B, H, S] with heads before rows, [H, B, S], where rows are packed: [H, B * S] has the same elements.
  at::Tensor lse_view(const at::Tensor& lse_BHS) const { return begins.defined() ? lse_BHS.transpose(0, 1) : lse_BHS; }
  at::Tensor packed_lse(const at::Tensor& lse_BHS) const {
    return begins.defined() ? lse_view(lse_BHS).flatten(1, 2) : lse_BHS;
  }
  std::optional<at::Tensor> optional_begins() const { return begins.defined() ? std::optional(begins) : std::nullopt; }
};

// The state of dropout's random numbers, which the operators require. We have no dropout.
at::Tensor no_random_state(const at::Tensor& like, at::IntArrayRef shape, at::ScalarType type) {
  return at::empty(shape, like.options().dtype(type));
}

// FlashAttention's window: positions before and behind a query; -1: all. It obeys the causal mask besides.
struct Window {
  std::optional<int64_t> left, right;
  explicit Window(const AttentionMask& mask) {
    if (mask.reach < 0) return;
    left = mask.reach;
    right = mask.causal ? 0 : mask.reach;
  }
};

// A chunk of queries with the keys that it sees: the last one sees the last key.
struct QueryChunk {
  int64_t first, rows, first_key, keys;

  at::Tensor queries(const at::Tensor& x) const { return x.narrow(1, first, rows); }
  at::Tensor keys_of(const at::Tensor& x) const { return x.narrow(1, first_key, keys); }
  at::Tensor sums(const at::Tensor& lse_BHQ) const { return lse_BHQ.narrow(2, first, rows); }
};
std::vector<QueryChunk> chunks_of(const AttentionMask& mask, int64_t Q, int64_t S) {
  std::vector<QueryChunk> chunks;
  const int64_t border = std::min(mask.queries.length, Q);
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, border}, {border, Q}}) {
    if (begin == end) continue;
    const int64_t first = mask.queries.position(begin), last = mask.queries.position(end - 1);
    const int64_t first_key = mask.reach < 0 ? 0 : std::max<int64_t>(0, first - mask.reach);
    chunks.push_back({begin, end - begin, first_key, (mask.causal ? last + 1 : S) - first_key});
  }
  return chunks;
}

}  // namespace

void attention_forward(const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ, const at::Tensor& q_BQHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask, double scale) {
  const int64_t B = q_BQHK.size(0), Q = q_BQHK.size(1), S = k_BSGK.size(1);
  const Window window(mask);
  switch (kernel_for(q_BQHK, mask)) {
    case Kernel::kOurs: {
      const auto type = type_of(q_BQHK);
      check_gpu(gpu_kernels().attention_forward(
                    gpu_stream(), type, heads(out_BQHK, type), pointer<float>(lse_BHQ), heads(q_BQHK, type),
                    heads(k_BSGK, type), heads(v_BSGK, type), places(mask.queries, S), mask.causal, mask.reach,
                    pointer<const int32_t>(mask.document_starts_N), num_documents(mask), static_cast<float>(scale)),
                "attention_forward");
      return;
    }
    case Kernel::kFlash: {
      const Sequences rows(mask, B * S, S);
      const auto [out, lse, rng, unused, debug] =
          at::_flash_attention_forward(rows.view(q_BQHK), rows.view(k_BSGK), rows.view(v_BSGK), rows.optional_begins(),
                                       rows.optional_begins(), rows.longest, rows.longest, /*dropout_p=*/0, mask.causal,
                                       /*return_debug_mask=*/false, given(scale), window.left, window.right);
      HEARTH_CHECK(lse.numel() == lse_BHQ.numel(), "attention's denominators have an unexpected layout");
      rows.view(out_BQHK).copy_(out);
      const at::Tensor lse_view = rows.lse_view(lse_BHQ);
      lse_view.copy_(lse.view(lse_view.sizes()));
      return;
    }
    case Kernel::kFlashChunks: {
      for (const QueryChunk& chunk : chunks_of(mask, Q, S)) {
        const auto [out, lse, rng, unused, debug] = at::_flash_attention_forward(
            chunk.queries(q_BQHK), chunk.keys_of(k_BSGK), chunk.keys_of(v_BSGK), std::nullopt, std::nullopt, chunk.rows,
            chunk.keys, /*dropout_p=*/0, mask.causal, /*return_debug_mask=*/false, given(scale), window.left,
            window.right);
        chunk.queries(out_BQHK).copy_(out);
        chunk.sums(lse_BHQ).copy_(lse);
      }
      return;
    }
    case Kernel::kCudnn: {
      const auto result = at::_scaled_dot_product_cudnn_attention(
          q_BQHK.transpose(1, 2), k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2), /*attn_bias=*/std::nullopt,
          /*compute_log_sumexp=*/true, /*dropout_p=*/0, mask.causal, /*return_debug_mask=*/false, given(scale));
      out_BQHK.transpose(1, 2).copy_(std::get<0>(result));
      lse_BHQ.copy_(std::get<1>(result).reshape(lse_BHQ.sizes()));
      return;
    }
  }
}

void attention_backward(const at::Tensor& dq_BQHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BQHK, const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ,
                        const at::Tensor& q_BQHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask, double scale) {
  const int64_t B = q_BQHK.size(0), Q = q_BQHK.size(1), H = q_BQHK.size(2), S = k_BSGK.size(1);
  const Window window(mask);
  switch (kernel_for(q_BQHK, mask)) {
    case Kernel::kOurs: {
      const auto type = type_of(q_BQHK);
      const at::Tensor sums = scratch<float>(gpu_kernels().attention_scratch(B, Q, H), q_BQHK);
      check_gpu(gpu_kernels().attention_backward(
                    gpu_stream(), type, heads(dq_BQHK, type), heads(dk_BSGK, type), heads(dv_BSGK, type),
                    heads(dout_BQHK, type), heads(out_BQHK, type), pointer<const float>(lse_BHQ), heads(q_BQHK, type),
                    heads(k_BSGK, type), heads(v_BSGK, type), places(mask.queries, S), mask.causal, mask.reach,
                    pointer<const int32_t>(mask.document_starts_N), num_documents(mask), static_cast<float>(scale),
                    pointer<float>(sums)),
                "attention_backward");
      return;
    }
    case Kernel::kFlash: {
      const Sequences rows(mask, B * S, S);
      const auto [dq, dk, dv] = at::_flash_attention_backward(
          rows.view(dout_BQHK), rows.view(q_BQHK), rows.view(k_BSGK), rows.view(v_BSGK), rows.view(out_BQHK),
          rows.packed_lse(lse_BHQ), rows.begins, rows.begins, rows.longest, rows.longest, /*dropout_p=*/0, mask.causal,
          no_random_state(q_BQHK, {2}, at::kUInt64), no_random_state(q_BQHK, {}, at::kUInt64), given(scale),
          window.left, window.right);
      rows.view(dq_BQHK).copy_(dq);
      rows.view(dk_BSGK).copy_(dk);
      rows.view(dv_BSGK).copy_(dv);
      return;
    }
    case Kernel::kFlashChunks: {
      dk_BSGK.zero_();
      dv_BSGK.zero_();
      for (const QueryChunk& chunk : chunks_of(mask, Q, S)) {
        const auto [dq, dk, dv] = at::_flash_attention_backward(
            chunk.queries(dout_BQHK), chunk.queries(q_BQHK), chunk.keys_of(k_BSGK), chunk.keys_of(v_BSGK),
            chunk.queries(out_BQHK), chunk.sums(lse_BHQ).contiguous(), {}, {}, chunk.rows, chunk.keys, /*dropout_p=*/0,
            mask.causal, no_random_state(q_BQHK, {2}, at::kUInt64), no_random_state(q_BQHK, {}, at::kUInt64),
            given(scale), window.left, window.right);
        chunk.queries(dq_BQHK).copy_(dq);
        chunk.keys_of(dk_BSGK).add_(dk);
        chunk.keys_of(dv_BSGK).add_(dv);
      }
      return;
    }
    case Kernel::kCudnn: {
      const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
          dout_BQHK.transpose(1, 2), q_BQHK.transpose(1, 2), k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2),
          out_BQHK.transpose(1, 2), lse_BHQ.unsqueeze(3), no_random_state(q_BQHK, {}, at::kLong),
          no_random_state(q_BQHK, {}, at::kLong), /*attn_bias=*/{}, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, S, S,
          /*dropout_p=*/0, mask.causal, given(scale));
      dq_BQHK.transpose(1, 2).copy_(dq);
      dk_BSGK.transpose(1, 2).copy_(dk);
      dv_BSGK.transpose(1, 2).copy_(dv);
      return;
    }
  }
}

void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length, int64_t reach, const at::Tensor& rows_B,
                      const at::Tensor& lengths_B, double scale, const at::Tensor& sinks_H) {
  const auto type = type_of(q_BNHK);
  check_gpu(gpu_kernels().decode_attention(gpu_stream(), type, heads(out_BNHK, type), heads(q_BNHK, type),
                                           heads(k_cache_BCGK, type), heads(v_cache_BCGK, type), length, reach,
                                           pointer<const int32_t>(rows_B), pointer<const int32_t>(lengths_B),
                                           static_cast<float>(scale), pointer<const float>(sinks_H)),
            "decode_attention");
}

}  // namespace hearth::ops::gpu
