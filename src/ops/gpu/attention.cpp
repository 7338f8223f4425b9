// Attention on a GPU: the vendor's kernel if it has a fast one, else ours.
//
// bfloat16, K a multiple of 8   whole rows, Hopper and newer: cuDNN; else FlashAttention-2, also with documents
//   everything else               kernels/attention.cu
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

#include "ops/gpu/access.h"
#include "ops/gpu/calls.h"

namespace hearth::ops::gpu {
namespace {

enum class Kernel { kOurs, kFlash, kCudnn };

// cuDNN's backward adds in no fixed order, and takes no heads above 128.
Kernel kernel_for(const at::Tensor& q_BSHK, const AttentionMask& mask) {
  const int64_t K = q_BSHK.size(3);
  if (!q_BSHK.is_cuda() || q_BSHK.scalar_type() != at::kBFloat16 || K % 8 != 0 || K > 256) return Kernel::kOurs;
  const bool hopper = open_gpu().major >= 9 && open_gpu().platform.starts_with("CUDA");
  const bool any_order = !at::globalContext().deterministicAlgorithms();
  return hopper && any_order && K <= 128 && !mask.document_starts_N.defined() ? Kernel::kCudnn : Kernel::kFlash;
}

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
  // lse [B, H, S], or packed [H, B * S] in the same memory.
  at::Tensor view_lse(const at::Tensor& lse_BHS) const {
    return begins.defined() ? lse_BHS.view({lse_BHS.size(1), lse_BHS.size(0) * lse_BHS.size(2)}) : lse_BHS;
  }
  std::optional<at::Tensor> optional_begins() const { return begins.defined() ? std::optional(begins) : std::nullopt; }
};

// The state of dropout's random numbers, which the operators require. We have no dropout.
at::Tensor no_random_state(const at::Tensor& like, at::IntArrayRef shape, at::ScalarType type) {
  return at::empty(shape, like.options().dtype(type));
}

}  // namespace

void attention_forward(const at::Tensor& out_BSHK, const at::Tensor& lse_BHS, const at::Tensor& q_BSHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask) {
  const int64_t B = q_BSHK.size(0), S = q_BSHK.size(1);
  switch (kernel_for(q_BSHK, mask)) {
    case Kernel::kOurs: {
      const auto type = type_of(q_BSHK);
      check_gpu(
          gpu_kernels().attention_forward(gpu_stream(), type, heads(out_BSHK, type), pointer<float>(lse_BHS),
                                          heads(q_BSHK, type), heads(k_BSGK, type), heads(v_BSGK, type), mask.causal,
                                          pointer<const int32_t>(mask.document_starts_N), num_documents(mask)),
          "attention_forward");
      return;
    }
    case Kernel::kFlash: {
      const Sequences rows(mask, B * S, S);
      const auto [out, lse, rng, unused, debug] = at::_flash_attention_forward(
          rows.view(q_BSHK), rows.view(k_BSGK), rows.view(v_BSGK), rows.optional_begins(), rows.optional_begins(),
          rows.longest, rows.longest, /*dropout_p=*/0, mask.causal, /*return_debug_mask=*/false);
      HEARTH_CHECK(lse.numel() == lse_BHS.numel(), "attention's denominators have an unexpected layout");
      rows.view(out_BSHK).copy_(out);
      rows.view_lse(lse_BHS).copy_(lse);
      return;
    }
    case Kernel::kCudnn: {
      const auto result = at::_scaled_dot_product_cudnn_attention(
          q_BSHK.transpose(1, 2), k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2), /*attn_bias=*/std::nullopt,
          /*compute_log_sumexp=*/true, /*dropout_p=*/0, mask.causal);
      out_BSHK.transpose(1, 2).copy_(std::get<0>(result));
      lse_BHS.copy_(std::get<1>(result).reshape(lse_BHS.sizes()));
      return;
    }
  }
}

void attention_backward(const at::Tensor& dq_BSHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BSHK, const at::Tensor& out_BSHK, const at::Tensor& lse_BHS,
                        const at::Tensor& q_BSHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask) {
  const int64_t B = q_BSHK.size(0), S = q_BSHK.size(1), H = q_BSHK.size(2);
  switch (kernel_for(q_BSHK, mask)) {
    case Kernel::kOurs: {
      const auto type = type_of(q_BSHK);
      const at::Tensor sums = scratch<float>(gpu_kernels().attention_scratch(B, S, H), q_BSHK);
      check_gpu(gpu_kernels().attention_backward(
                    gpu_stream(), type, heads(dq_BSHK, type), heads(dk_BSGK, type), heads(dv_BSGK, type),
                    heads(dout_BSHK, type), heads(out_BSHK, type), pointer<const float>(lse_BHS), heads(q_BSHK, type),
                    heads(k_BSGK, type), heads(v_BSGK, type), mask.causal,
                    pointer<const int32_t>(mask.document_starts_N), num_documents(mask), pointer<float>(sums)),
                "attention_backward");
      return;
    }
    case Kernel::kFlash: {
      const Sequences rows(mask, B * S, S);
      const auto [dq, dk, dv] = at::_flash_attention_backward(
          rows.view(dout_BSHK), rows.view(q_BSHK), rows.view(k_BSGK), rows.view(v_BSGK), rows.view(out_BSHK),
          rows.view_lse(lse_BHS), rows.begins, rows.begins, rows.longest, rows.longest, /*dropout_p=*/0, mask.causal,
          no_random_state(q_BSHK, {2}, at::kUInt64), no_random_state(q_BSHK, {}, at::kUInt64));
      rows.view(dq_BSHK).copy_(dq);
      rows.view(dk_BSGK).copy_(dk);
      rows.view(dv_BSGK).copy_(dv);
      return;
    }
    case Kernel::kCudnn: {
      const auto [dq, dk, dv] = at::_scaled_dot_product_cudnn_attention_backward(
          dout_BSHK.transpose(1, 2), q_BSHK.transpose(1, 2), k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2),
          out_BSHK.transpose(1, 2), lse_BHS.unsqueeze(3), no_random_state(q_BSHK, {}, at::kLong),
          no_random_state(q_BSHK, {}, at::kLong), /*attn_bias=*/{}, /*cum_seq_q=*/{}, /*cum_seq_k=*/{}, S, S,
          /*dropout_p=*/0, mask.causal);
      dq_BSHK.transpose(1, 2).copy_(dq);
      dk_BSGK.transpose(1, 2).copy_(dk);
      dv_BSGK.transpose(1, 2).copy_(dv);
      return;
    }
  }
}

void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length) {
  const auto type = type_of(q_BNHK);
  check_gpu(gpu_kernels().decode_attention(gpu_stream(), type, heads(out_BNHK, type), heads(q_BNHK, type),
                                           heads(k_cache_BCGK, type), heads(v_cache_BCGK, type), length),
            "decode_attention");
}

}  // namespace hearth::ops::gpu
