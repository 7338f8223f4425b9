// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ops/access.h"
#include "ops/cpu/flash_attention.h"
#include "ops/cpu/scratch.h"
#include "ops/cpu/simd-inl.h"
#include "ops/gpu/calls.h"
#include "ops/gpu/gpu.h"
#include "ops/reference.h"
#include "trace/spans.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// One query of one head against `length` cached rows; `p` is scratch of that length. `sink`: minus infinity for none.
template <class T>
HWY_INLINE void decode_row(T* out, const T* q, const T* k, const T* v, int64_t stride_k, int64_t stride_v,
                           int64_t length, int64_t K, float scale, float sink, float* p) {
  const F32 d;
  float largest = sink;
  for (int64_t j = 0; j < length; ++j) {
    V32 dot = hn::Zero(d);
    for_lanes(d, K, [&](int64_t i, int64_t count) HWY_ATTR {
      dot = hn::MulAdd(load(d, q + i, count), load(d, k + j * stride_k + i, count), dot);
    });
    p[j] = scale * sum(d, dot);
    largest = std::max(largest, p[j]);
  }
  double denominator = static_cast<double>(std::exp(sink - largest));
  for (int64_t j = 0; j < length; ++j) {
    p[j] = std::exp(p[j] - largest);
    denominator += static_cast<double>(p[j]);
  }
  for_lanes(d, K, [&](int64_t i, int64_t count) HWY_ATTR {
    V32 total = hn::Zero(d);
    for (int64_t j = 0; j < length; ++j) {
      total = hn::MulAdd(hn::Set(d, p[j]), load(d, v + j * stride_v + i, count), total);
    }
    store(hn::Mul(total, hn::Set(d, static_cast<float>(1 / denominator))), d, out + i, count);
  });
}

void decode_f32(float* out, const float* q, const float* k, const float* v, int64_t stride_k, int64_t stride_v,
                int64_t length, int64_t K, float scale, float sink, float* p) {
  decode_row(out, q, k, v, stride_k, stride_v, length, K, scale, sink, p);
}
void decode_bf16(c10::BFloat16* out, const c10::BFloat16* q, const c10::BFloat16* k, const c10::BFloat16* v,
                 int64_t stride_k, int64_t stride_v, int64_t length, int64_t K, float scale, float sink, float* p) {
  decode_row(out, q, k, v, stride_k, stride_v, length, K, scale, sink, p);
}

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(decode_f32);
HWY_EXPORT(decode_bf16);

namespace {

void check_shapes(const at::Tensor& q_BQHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK) {
  HEARTH_CHECK(q_BQHK.dim() == 4 && k_BSGK.dim() == 4 && k_BSGK.sizes() == v_BSGK.sizes());
  HEARTH_CHECK(q_BQHK.size(0) == k_BSGK.size(0) && q_BQHK.size(3) == k_BSGK.size(3));
  HEARTH_CHECK(q_BQHK.size(2) % k_BSGK.size(2) == 0, "{} query heads, {} key heads", q_BQHK.size(2), k_BSGK.size(2));
  HEARTH_CHECK(q_BQHK.stride(3) == 1 && k_BSGK.stride(3) == 1 && v_BSGK.stride(3) == 1, "heads are not contiguous");
}

void check_queries(const plan::Chunks& queries, int64_t Q, int64_t S) {
  if (Q == 0) return;
  HEARTH_CHECK(queries.first >= 0 && (queries.length >= Q || queries.second >= queries.first + queries.length) &&
                   queries.position(Q - 1) < S,
               "{} queries from {} and {} on, with {} keys", Q, queries.first, queries.second, S);
}

// A window that hides nothing would only choose a slower kernel.
AttentionMask without_idle(AttentionMask mask, int64_t S) {
  if (mask.reach >= S - 1) mask.reach = -1;
  return mask;
}

// The keys of [B, S] that each query of [B, Q] sees.
const VisibleKeys* visible_keys(const AttentionMask& mask, int64_t B, int64_t Q, int64_t S) {
  auto* visible = thread_scratch<VisibleKeys>(Scratch::kDescription, B * Q);
  const bool rows = !mask.document_starts_N.defined();
  const int64_t reach = mask.reach < 0 ? S : mask.reach;
  const int64_t N = rows ? B : mask.document_starts_N.numel();
  const int32_t* starts = rows ? nullptr : flat<const int32_t>(mask.document_starts_N, N);
  HEARTH_CHECK(N > 0, "no document");
  int64_t query = 0;
  for (int64_t i = 0; i < N; ++i) {
    const int64_t begin = rows ? i * S : starts[i], end = rows ? begin + S : i + 1 < N ? starts[i + 1] : B * S;
    HEARTH_CHECK(begin < end && begin / S == (end - 1) / S && (i > 0 || begin == 0),
                 "document {} of {} is from {} to {}, with rows of {}", i, N, begin, end, S);
    for (; query < B * Q; ++query) {
      const int64_t t = query / Q * S + mask.queries.position(query % Q);
      if (t >= end) break;
      visible[query].begin = static_cast<int32_t>(std::max(begin, t - reach) % S);
      visible[query].end = static_cast<int32_t>((mask.causal ? t : std::min(end - 1, t + reach)) % S + 1);
    }
  }
  return visible;
}

auto decode_kernel(float) { return HWY_DYNAMIC_DISPATCH(decode_f32); }
auto decode_kernel(c10::BFloat16) { return HWY_DYNAMIC_DISPATCH(decode_bf16); }

template <class T>
void decode(const HeadTensor<T>& out, const HeadTensor<const T>& q, const HeadTensor<const T>& k,
            const HeadTensor<const T>& v, int64_t length, int64_t reach, double given_scale, const float* sinks) {
  const int64_t H = q.N, N = q.S, group = H / k.N;
  const float scale = given_scale > 0 ? static_cast<float>(given_scale) : 1 / std::sqrt(static_cast<float>(q.K));
  const auto kernel = decode_kernel(T());
  parallel(q.B * H * N, 2 * length * q.K, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(length));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / (H * N), h = item / N % H, i = item % N;
      const int64_t last = length - N + i, first = reach < 0 ? 0 : std::max<int64_t>(0, last - reach);
      kernel(out.at(b, i, h), q.at(b, i, h), k.at(b, first, h / group), v.at(b, first, h / group), k.stride_s,
             v.stride_s, last + 1 - first, q.K, scale,
             sinks == nullptr ? -std::numeric_limits<float>::infinity() : sinks[h], scores.data());
    }
  });
}

}  // namespace

void attention_forward(const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ, const at::Tensor& q_BQHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask, double scale) {
  const trace::SpanScope span(trace::SpanKind::kOp, "attention_forward");
  check_shapes(q_BQHK, k_BSGK, v_BSGK);
  const int64_t B = q_BQHK.size(0), Q = q_BQHK.size(1), H = q_BQHK.size(2), S = k_BSGK.size(1);
  HEARTH_CHECK(out_BQHK.sizes() == q_BQHK.sizes() && lse_BHQ.sizes() == at::IntArrayRef({B, H, Q}));
  check_queries(mask.queries, Q, S);
  if (q_BQHK.numel() == 0) return;
  if (on_gpu(q_BQHK)) {
    return gpu::attention_forward(out_BQHK, lse_BHQ, q_BQHK, k_BSGK, v_BSGK, without_idle(mask, S), scale);
  }
  const VisibleKeys* visible = visible_keys(mask, B, Q, S);
  with_element_type(q_BQHK, [&]<class T>(T) {
    const auto out = heads<T>(out_BQHK);
    const auto q = heads<const T>(q_BQHK), k = heads<const T>(k_BSGK), v = heads<const T>(v_BSGK);
    if constexpr (std::is_same_v<T, double>) {
      reference::attention_forward(out, flat<double>(lse_BHQ, B * H * Q), q, k, v, visible, scale);
    } else {
      flash_forward(FlashForward<T>{out, flat<float>(lse_BHQ, B * H * Q), q, k, v, visible, static_cast<float>(scale)});
    }
  });
}

void attention_backward(const at::Tensor& dq_BQHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BQHK, const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ,
                        const at::Tensor& q_BQHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask, double scale) {
  const trace::SpanScope span(trace::SpanKind::kOp, "attention_backward");
  check_shapes(q_BQHK, k_BSGK, v_BSGK);
  check_shapes(dq_BQHK, dk_BSGK, dv_BSGK);
  const int64_t B = q_BQHK.size(0), Q = q_BQHK.size(1), H = q_BQHK.size(2), S = k_BSGK.size(1);
  HEARTH_CHECK(dk_BSGK.sizes() == k_BSGK.sizes() && lse_BHQ.sizes() == at::IntArrayRef({B, H, Q}));
  check_queries(mask.queries, Q, S);
  HEARTH_CHECK(dq_BQHK.sizes() == q_BQHK.sizes() && dout_BQHK.sizes() == q_BQHK.sizes() &&
               out_BQHK.sizes() == q_BQHK.sizes());
  if (q_BQHK.numel() == 0) return;
  if (on_gpu(q_BQHK)) {
    return gpu::attention_backward(dq_BQHK, dk_BSGK, dv_BSGK, dout_BQHK, out_BQHK, lse_BHQ, q_BQHK, k_BSGK, v_BSGK,
                                   without_idle(mask, S), scale);
  }
  const VisibleKeys* visible = visible_keys(mask, B, Q, S);
  with_element_type(q_BQHK, [&]<class T>(T) {
    const auto dq = heads<T>(dq_BQHK), dk = heads<T>(dk_BSGK), dv = heads<T>(dv_BSGK);
    const auto dout = heads<const T>(dout_BQHK), out = heads<const T>(out_BQHK);
    const auto q = heads<const T>(q_BQHK), k = heads<const T>(k_BSGK), v = heads<const T>(v_BSGK);
    if constexpr (std::is_same_v<T, double>) {
      for (const at::Tensor& gradient : {dq_BQHK, dk_BSGK, dv_BSGK}) gradient.zero_();  // the reference adds to them
      const double* lse = flat<const double>(lse_BHQ, B * H * Q);
      reference::attention_backward(dq, dk, dv, dout, out, lse, q, k, v, visible, scale);
    } else {
      const float* lse = flat<const float>(lse_BHQ, B * H * Q);
      flash_backward(FlashBackward<T>{dq, dk, dv, dout, out, lse, q, k, v, visible, static_cast<float>(scale)});
    }
  });
}

void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length, int64_t reach, double scale,
                      const at::Tensor& sinks_H) {
  const trace::SpanScope span(trace::SpanKind::kOp, "decode_attention");
  check_shapes(q_BNHK, k_cache_BCGK, v_cache_BCGK);
  const int64_t B = q_BNHK.size(0), N = q_BNHK.size(1), H = q_BNHK.size(2);
  HEARTH_CHECK(out_BNHK.sizes() == q_BNHK.sizes() && N >= 1 && N <= length && length <= k_cache_BCGK.size(1));
  if (is_float64(q_BNHK)) {
    std::vector<VisibleKeys> visible;
    for (int64_t i = 0; i < B * N; ++i) {
      const auto last = static_cast<int32_t>(length - N + i % N);
      visible.push_back({reach < 0 ? 0 : std::max(0, last - static_cast<int32_t>(reach)), last + 1});
    }
    const at::Tensor lse_BHN = at::empty({B, H, N}, q_BNHK.options());
    reference::attention_forward<double>(heads<double>(out_BNHK), flat<double>(lse_BHN, B * H * N),
                                         heads<const double>(q_BNHK), heads<const double>(k_cache_BCGK),
                                         heads<const double>(v_cache_BCGK), visible.data(), scale);
    if (sinks_H.defined()) add_sinks(out_BNHK, lse_BHN, sinks_H);
    return;
  }
  if (N == length && N > 1) {  // a prompt: as in training
    const at::Tensor lse_BHS = at::empty({B, H, N}, q_BNHK.options().dtype(at::kFloat));
    attention_forward(out_BNHK, lse_BHS, q_BNHK, k_cache_BCGK.narrow(1, 0, N), v_cache_BCGK.narrow(1, 0, N),
                      {.causal = true, .reach = reach}, scale);
    if (sinks_H.defined()) add_sinks(out_BNHK, lse_BHS, sinks_H);
    return;
  }
  const at::Tensor sinks = sinks_H.defined() ? sinks_H.to(at::kFloat).contiguous() : at::Tensor();
  if (on_gpu(q_BNHK)) {
    return gpu::decode_attention(out_BNHK, q_BNHK, k_cache_BCGK, v_cache_BCGK, length, reach, {}, {}, scale, sinks);
  }
  with_element_type(q_BNHK, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, double>) {
      decode(heads<T>(out_BNHK), heads<const T>(q_BNHK), heads<const T>(k_cache_BCGK), heads<const T>(v_cache_BCGK),
             length, reach, scale, sinks.defined() ? flat<const float>(sinks, H) : nullptr);
    }
  });
}

void decode_attention_of_rows(const at::Tensor& out_NHK, const at::Tensor& q_NHK, const at::Tensor& k_cache_RCGK,
                              const at::Tensor& v_cache_RCGK, const at::Tensor& rows_N, const at::Tensor& lengths_N,
                              double scale, const at::Tensor& sinks_H) {
  const int64_t N = q_NHK.size(0);
  HEARTH_CHECK(rows_N.numel() == N && lengths_N.numel() == N);
  if (on_gpu(q_NHK)) {
    const trace::SpanScope span(trace::SpanKind::kOp, "decode_attention");
    return gpu::decode_attention(out_NHK.unsqueeze(1), q_NHK.unsqueeze(1), k_cache_RCGK, v_cache_RCGK, 0, -1, rows_N,
                                 lengths_N, scale,
                                 sinks_H.defined() ? sinks_H.to(at::kFloat).contiguous() : at::Tensor());
  }
  for (int64_t n = 0; n < N; ++n) {
    const int64_t row = flat<const int32_t>(rows_N, N)[n];
    decode_attention(out_NHK.narrow(0, n, 1).unsqueeze(0), q_NHK.narrow(0, n, 1).unsqueeze(0),
                     k_cache_RCGK.narrow(0, row, 1), v_cache_RCGK.narrow(0, row, 1),
                     flat<const int32_t>(lengths_N, N)[n], /*reach=*/-1, scale, sinks_H);
  }
}

}  // namespace hearth::ops
#endif
