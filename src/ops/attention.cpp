#include "ops/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention.cpp"
#include <hwy/foreach_target.h>
//
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ops/access.h"
#include "ops/reference.h"
#include "ops/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::ops::HWY_NAMESPACE {

// One query of one head against `length` cached rows; `p` is scratch of that length.
void decode_row(float* out, const float* q, const float* k, const float* v, int64_t stride_k, int64_t stride_v,
                int64_t length, int64_t K, float* p) {
  const F32 d;
  const float scale = 1 / std::sqrt(static_cast<float>(K));
  float largest = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < length; ++j) {
    V32 dot = hn::Zero(d);
    for_lanes(d, K, [&](int64_t i, int64_t count) HWY_ATTR {
      dot = hn::MulAdd(load(d, q + i, count), load(d, k + j * stride_k + i, count), dot);
    });
    p[j] = scale * sum(d, dot);
    largest = std::max(largest, p[j]);
  }
  double denominator = 0;
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

}  // namespace hearth::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::ops {

HWY_EXPORT(decode_row);

namespace {

// Query heads of one group are r = 0 .. H/G-1; those with the same r make G heads that pair with the G key/value heads,
// so attention without grouping runs on [B, G, S, K] views (ATen's order), once per r.
at::Tensor one_of_each_group(const at::Tensor& x_BSHK, int64_t G, int64_t r) {
  return x_BSHK.unflatten(2, {G, x_BSHK.size(2) / G}).select(3, r).transpose(1, 2);
}

at::Tensor lse_of_each_group(const at::Tensor& lse_BHS, int64_t G, int64_t r) {
  return lse_BHS.unflatten(1, {G, lse_BHS.size(1) / G}).select(2, r);
}

void check_shapes(const at::Tensor& q_BSHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK) {
  HEARTH_CHECK(q_BSHK.dim() == 4 && k_BSGK.dim() == 4 && k_BSGK.sizes() == v_BSGK.sizes());
  HEARTH_CHECK(q_BSHK.size(0) == k_BSGK.size(0) && q_BSHK.size(3) == k_BSGK.size(3));
  HEARTH_CHECK(q_BSHK.size(2) % k_BSGK.size(2) == 0, "{} query heads, {} key heads", q_BSHK.size(2), k_BSGK.size(2));
  HEARTH_CHECK(q_BSHK.stride(3) == 1 && k_BSGK.stride(3) == 1 && v_BSGK.stride(3) == 1, "heads are not contiguous");
}

// Positions begin .. end of sequence b see nothing but each other.
struct Document {
  int64_t b, begin, end;
  int64_t size() const { return end - begin; }
  at::Tensor of(const at::Tensor& x_BSHK) const { return x_BSHK.narrow(0, b, 1).narrow(1, begin, size()); }
  at::Tensor of_lse(const at::Tensor& lse_BHS) const { return lse_BHS.narrow(0, b, 1).narrow(2, begin, size()); }
};

std::vector<Document> documents(const AttentionMask& mask, int64_t B, int64_t S) {
  std::vector<Document> result;
  const int64_t N = mask.document_starts_N.numel();
  const int32_t* starts = flat<const int32_t>(mask.document_starts_N, N);
  HEARTH_CHECK(N > 0, "no document");
  for (int64_t i = 0; i < N; ++i) {
    const int64_t begin = starts[i], end = i + 1 < N ? starts[i + 1] : B * S;
    HEARTH_CHECK(begin < end && begin / S == (end - 1) / S && (i > 0 || begin == 0),
                 "document {} of {} reaches from {} to {} in rows of {}", i, N, begin, end, S);
    result.push_back({begin / S, begin % S, begin % S + end - begin});
  }
  return result;
}

struct Forward {
  at::Tensor out_BSHK, lse_BHS, q_BSHK, k_BSGK, v_BSGK;
};

void run(const Forward& t, bool causal) {
  const int64_t S = t.q_BSHK.size(1), H = t.q_BSHK.size(2), G = t.k_BSGK.size(2);
  if (!is_float32(t.q_BSHK)) {
    const at::Tensor lse = at::empty(t.lse_BHS.sizes(), t.lse_BHS.options());
    reference::attention_forward(heads<double>(t.out_BSHK), flat<double>(lse, lse.numel()),
                                 heads<const double>(t.q_BSHK), heads<const double>(t.k_BSGK),
                                 heads<const double>(t.v_BSGK), S, causal);
    t.lse_BHS.copy_(lse);
    return;
  }
  // Any strides but the last are welcome as inputs; the result is the operator's own and is copied where it belongs
  // (the kernel behind it, which would write there, is not exported).
  const at::Tensor k = t.k_BSGK.transpose(1, 2), v = t.v_BSGK.transpose(1, 2);
  for (int64_t r = 0; r < H / G; ++r) {
    const auto [out, lse] =
        at::_scaled_dot_product_flash_attention_for_cpu(one_of_each_group(t.q_BSHK, G, r), k, v, 0.0, causal);
    one_of_each_group(t.out_BSHK, G, r).copy_(out);
    lse_of_each_group(t.lse_BHS, G, r).copy_(lse);
  }
}

struct Backward {
  at::Tensor dq_BSHK, dk_BSGK, dv_BSGK, dout_BSHK, out_BSHK, lse_BHS, q_BSHK, k_BSGK, v_BSGK;
};

void run(const Backward& t, bool causal) {
  const int64_t H = t.q_BSHK.size(2), G = t.k_BSGK.size(2);
  if (!is_float32(t.q_BSHK)) {
    for (const at::Tensor& gradient : {t.dq_BSHK, t.dk_BSGK, t.dv_BSGK})
      gradient.zero_();  // the reference adds to them
    const at::Tensor lse = t.lse_BHS.contiguous();
    reference::attention_backward(heads<double>(t.dq_BSHK), heads<double>(t.dk_BSGK), heads<double>(t.dv_BSGK),
                                  heads<const double>(t.dout_BSHK), heads<const double>(t.out_BSHK),
                                  flat<const double>(lse, lse.numel()), heads<const double>(t.q_BSHK),
                                  heads<const double>(t.k_BSGK), heads<const double>(t.v_BSGK), causal);
    return;
  }
  const at::Tensor k = t.k_BSGK.transpose(1, 2), v = t.v_BSGK.transpose(1, 2);
  const at::Tensor dk_sum = t.dk_BSGK.transpose(1, 2), dv_sum = t.dv_BSGK.transpose(1, 2);
  for (int64_t r = 0; r < H / G; ++r) {
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        one_of_each_group(t.dout_BSHK, G, r), one_of_each_group(t.q_BSHK, G, r), k, v,
        one_of_each_group(t.out_BSHK, G, r), lse_of_each_group(t.lse_BHS, G, r), 0.0, causal);
    one_of_each_group(t.dq_BSHK, G, r).copy_(dq);
    if (r == 0) {
      dk_sum.copy_(dk);
      dv_sum.copy_(dv);
    } else {
      dk_sum.add_(dk);
      dv_sum.add_(dv);
    }
  }
}

}  // namespace

void attention_forward(const at::Tensor& out_BSHK, const at::Tensor& lse_BHS, const at::Tensor& q_BSHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask) {
  check_shapes(q_BSHK, k_BSGK, v_BSGK);
  const int64_t B = q_BSHK.size(0), S = q_BSHK.size(1), H = q_BSHK.size(2);
  HEARTH_CHECK(S == k_BSGK.size(1) && out_BSHK.sizes() == q_BSHK.sizes() &&
               lse_BHS.sizes() == at::IntArrayRef({B, H, S}) && lse_BHS.is_contiguous());
  if (q_BSHK.numel() == 0) return;
  if (!mask.document_starts_N.defined()) {
    run(Forward{out_BSHK, lse_BHS, q_BSHK, k_BSGK, v_BSGK}, mask.causal);
    return;
  }
  for (const Document& d : documents(mask, B, S)) {
    run(Forward{d.of(out_BSHK), d.of_lse(lse_BHS), d.of(q_BSHK), d.of(k_BSGK), d.of(v_BSGK)}, mask.causal);
  }
}

void attention_backward(const at::Tensor& dq_BSHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BSHK, const at::Tensor& out_BSHK, const at::Tensor& lse_BHS,
                        const at::Tensor& q_BSHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask) {
  check_shapes(q_BSHK, k_BSGK, v_BSGK);
  check_shapes(dq_BSHK, dk_BSGK, dv_BSGK);
  const int64_t B = q_BSHK.size(0), S = q_BSHK.size(1), H = q_BSHK.size(2);
  HEARTH_CHECK(S == k_BSGK.size(1) && dk_BSGK.sizes() == k_BSGK.sizes() &&
               lse_BHS.sizes() == at::IntArrayRef({B, H, S}) && lse_BHS.is_contiguous());
  HEARTH_CHECK(dq_BSHK.sizes() == q_BSHK.sizes() && dout_BSHK.sizes() == q_BSHK.sizes() &&
               out_BSHK.sizes() == q_BSHK.sizes());
  if (q_BSHK.numel() == 0) return;
  if (!mask.document_starts_N.defined()) {
    run(Backward{dq_BSHK, dk_BSGK, dv_BSGK, dout_BSHK, out_BSHK, lse_BHS, q_BSHK, k_BSGK, v_BSGK}, mask.causal);
    return;
  }
  for (const Document& d : documents(mask, B, S)) {
    run(Backward{d.of(dq_BSHK), d.of(dk_BSGK), d.of(dv_BSGK), d.of(dout_BSHK), d.of(out_BSHK), d.of_lse(lse_BHS),
                 d.of(q_BSHK), d.of(k_BSGK), d.of(v_BSGK)},
        mask.causal);
  }
}

void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length) {
  check_shapes(q_BNHK, k_cache_BCGK, v_cache_BCGK);
  const int64_t B = q_BNHK.size(0), N = q_BNHK.size(1), H = q_BNHK.size(2), group = H / k_cache_BCGK.size(2);
  HEARTH_CHECK(out_BNHK.sizes() == q_BNHK.sizes() && N >= 1 && N <= length && length <= k_cache_BCGK.size(1));
  if (!is_float32(q_BNHK)) {
    reference::attention_forward<double>(heads<double>(out_BNHK), nullptr, heads<const double>(q_BNHK),
                                         heads<const double>(k_cache_BCGK), heads<const double>(v_cache_BCGK), length,
                                         true);
    return;
  }
  if (N == length && N > 1) {  // a prompt: as in training
    const at::Tensor lse_BHS = at::empty({B, H, N}, q_BNHK.options());
    attention_forward(out_BNHK, lse_BHS, q_BNHK, k_cache_BCGK.narrow(1, 0, N), v_cache_BCGK.narrow(1, 0, N),
                      {.causal = true});
    return;
  }
  const auto out = heads<float>(out_BNHK);
  const auto q = heads<const float>(q_BNHK), k = heads<const float>(k_cache_BCGK), v = heads<const float>(v_cache_BCGK);
  const auto kernel = HWY_DYNAMIC_DISPATCH(decode_row);
  parallel(B * H * N, 2 * length * q.K, [&](int64_t begin, int64_t end) {
    std::vector<float> scores(static_cast<size_t>(length));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t b = item / (H * N), h = item / N % H, i = item % N;
      kernel(out.at(b, i, h), q.at(b, i, h), k.at(b, 0, h / group), v.at(b, 0, h / group), k.stride_s, v.stride_s,
             length - N + i + 1, q.K, scores.data());
    }
  });
}

}  // namespace hearth::ops
#endif
