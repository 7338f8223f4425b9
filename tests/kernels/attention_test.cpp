// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

// Views of one packed buffer [B, S, H + 2G, K], as in the model.
struct Packed {
  at::Tensor all, q, k, v;
  Packed(const at::Tensor& packed, int64_t H, int64_t G)
      : all(packed), q(packed.narrow(2, 0, H)), k(packed.narrow(2, H, G)), v(packed.narrow(2, H + G, G)) {}
};

class AttentionKernel : public DeviceTest {
 protected:
  // Q: queries of each sequence; 0: all of them.
  void check(at::ScalarType type, int64_t H, int64_t G, int64_t K, int64_t S, const ops::AttentionMask& mask,
             int64_t Q = 0, double scale = 0) {
    const int64_t B = 2;
    if (Q == 0) Q = S;
    Packed x(random({B, S, H + 2 * G, K}, type), H, G), x64(wide(x.all), H, G), d64(at::empty_like(x64.all), H, G);
    for (Packed* views : {&x, &x64, &d64}) views->q = views->q.narrow(1, 0, Q);
    const Places places{S, mask.queries.first, mask.queries.second, mask.queries.length};
    const at::Tensor dout = random({B, Q, H, K}, type), out64 = doubles({B, Q, H, K}), lse64 = doubles({B, H, Q});
    ops::attention_forward(out64, lse64, x64.q, x64.k, x64.v, mask, scale);
    ops::attention_backward(d64.q, d64.k, d64.v, wide(dout), out64, lse64, x64.q, x64.k, x64.v, mask, scale);

    const auto* starts = data<int32_t>(mask.document_starts_N);
    const int64_t N = starts == nullptr ? 0 : mask.document_starts_N.numel();
    const at::Tensor out = at::empty_like(dout), lse = floats({B, H, Q});
    run(table().attention_forward(nullptr, type_of(out), heads(out), data<float>(lse), heads(x.q), heads(x.k),
                                  heads(x.v), places, mask.causal ? 1 : 0, mask.reach, starts, N,
                                  static_cast<float>(scale)));
    EXPECT_LE(relative_error(out, out64), bound(type, 1e-6));
    EXPECT_LE(relative_error(lse, lse64), 1e-6);
    Packed d(at::full_like(x.all, NAN), H, G);
    d.q = d.q.narrow(1, 0, Q);
    const at::Tensor scratch = floats({table().attention_scratch(B, Q, H)});
    run(table().attention_backward(nullptr, type_of(out), heads(d.q), heads(d.k), heads(d.v), heads(dout), heads(out),
                                   data<float>(lse), heads(x.q), heads(x.k), heads(x.v), places, mask.causal ? 1 : 0,
                                   mask.reach, starts, N, static_cast<float>(scale), data<float>(scratch)));
    EXPECT_LE(relative_error(d.q, d64.q), bound(type, 2e-6, 2));
    EXPECT_LE(relative_error(d.k, d64.k), bound(type, 2e-6, 2));
    EXPECT_LE(relative_error(d.v, d64.v), bound(type, 2e-6, 2));
  }
};

TEST_P(AttentionKernel, AgreesWithTheCpuInFloat64ForEveryMaskAndHeadWidth) {
  const at::Tensor starts = at::tensor({0, 1, 19, 37, 60, 61}, at::TensorOptions().dtype(at::kInt));
  for (const at::ScalarType type : kTypes) {
    for (const bool causal : {true, false}) {
      for (const bool documents : {false, true}) {
        for (const int64_t K : {5, 64, 130}) {
          SCOPED_TRACE(fmt::format("{} causal {} documents {} K {}", c10::toString(type), causal, documents, K));
          check(type, 4, 2, K, 37, {causal, documents ? starts : at::Tensor()});
        }
      }
    }
  }
}

// Chunks that do and do not end with a tile, and that begin and end in the middle of documents.
TEST_P(AttentionKernel, QueriesOfAPartOfTheSequencesAgreeWithTheCpu) {
  const at::Tensor starts = at::tensor({0, 1, 19, 40, 60, 61}, at::TensorOptions().dtype(at::kInt));
  for (const bool causal : {true, false}) {
    for (const bool documents : {false, true}) {
      for (const auto& [first, second] : {std::pair<int64_t, int64_t>{0, 35}, {5, 30}, {15, 20}}) {
        SCOPED_TRACE(fmt::format("causal {} documents {} from {} and {} on", causal, documents, first, second));
        check(at::kFloat, 4, 2, 64, 40, {causal, documents ? starts : at::Tensor(), 0, {first, second, 5}}, 10);
      }
    }
  }
}

TEST_P(AttentionKernel, WindowsAgreeWithTheCpu) {
  const at::Tensor starts = at::tensor({0, 1, 19, 40, 60, 61}, at::TensorOptions().dtype(at::kInt));
  for (const bool causal : {true, false}) {
    for (const bool documents : {false, true}) {
      for (const int64_t reach : {1, 5, 17, 38}) {
        SCOPED_TRACE(fmt::format("causal {} documents {} reach {}", causal, documents, reach));
        const at::Tensor begins = documents ? starts : at::Tensor();
        check(at::kFloat, 4, 2, 64, 40, {.causal = causal, .document_starts_N = begins, .reach = reach});
        check(at::kFloat, 4, 2, 64, 40,
              {.causal = causal, .document_starts_N = begins, .queries = {5, 30, 5}, .reach = reach}, 10);
      }
    }
  }
}

TEST_P(AttentionKernel, AScaleOfTheScoresIsTaken) {
  for (const at::ScalarType type : kTypes) check(type, 4, 2, 64, 37, {}, 0, 0.3);
}

TEST_P(AttentionKernel, WideHeadsWork) { check(at::kFloat, 3, 1, 256, 20, {}); }

TEST_P(AttentionKernel, HeadsThatAreTooWideAreRefused) {
  const at::Tensor x = floats({1, 1, 1, 257});
  const int code = table().attention_forward(nullptr, Type::kFloat32, heads(x), nullptr, heads(x), heads(x), heads(x),
                                             Places{1, 0, 1, 1}, 1, -1, nullptr, 0, 0);
  EXPECT_NE(code, 0);
  EXPECT_STREQ(table().error_text(code), "heads are wider than 256, the kernel's limit");
  EXPECT_EQ(table().decode_attention(nullptr, Type::kFloat32, heads(x), heads(x), heads(x), heads(x), 1, -1, nullptr,
                                     nullptr, 0, nullptr),
            code);
}

TEST_P(AttentionKernel, DecodingAgreesWithTheCpuInFloat64) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t K : {5, 64, 256}) {
      for (const int64_t length : {1, 3, 300, 517}) {
        SCOPED_TRACE(fmt::format("{} K {} length {}", c10::toString(type), K, length));
        const int64_t B = 2, H = 4, G = 2, C = 520;
        const at::Tensor k = random({B, C, G, K}, type), v = random({B, C, G, K}, type);
        for (const at::Tensor& cache : {k, v}) cache.narrow(1, length, C - length).fill_(NAN);
        for (const int64_t N : {int64_t{1}, std::min<int64_t>(3, length)}) {
          const double scale = length == 3 ? 0.3 : 0;
          const at::Tensor q = random({B, N, H, K}, type), out = at::empty_like(q), expected = doubles(q.sizes());
          for (const int64_t reach : {-1, 130}) {
            for (const bool has_sinks : {false, true}) {
              const at::Tensor sinks = has_sinks ? at::tensor({-1.5F, 0.0F, 2.0F, 30.0F}) : at::Tensor();
              ops::decode_attention(expected, wide(q), wide(k), wide(v), length, reach, scale, sinks);
              run(table().decode_attention(nullptr, type_of(q), heads(out), heads(q), heads(k), heads(v), length, reach,
                                           nullptr, nullptr, static_cast<float>(scale), data<float>(sinks)));
              EXPECT_LE(relative_error(out, expected), bound(type, 1e-6));
            }
          }
          EXPECT_LE(relative_error(out, expected), bound(type, 1e-6));
        }
      }
    }
  }
}

TEST_P(AttentionKernel, DecodingOfRowsReadsTheCacheOfEach) {
  for (const at::ScalarType type : kTypes) {
    const int64_t H = 4, G = 2, K = 24, C = 300;
    const std::vector<int32_t> rows = {2, 0, 3}, lengths = {300, 1, 129};  // row 1 rests
    const at::Tensor k = random({4, C, G, K}, type), v = random({4, C, G, K}, type);
    for (const at::Tensor& cache : {k, v}) {
      cache[1].fill_(NAN);
      for (size_t i = 0; i < 3; ++i) cache[rows[i]].narrow(0, lengths[i], C - lengths[i]).fill_(NAN);
    }
    const at::Tensor q = random({3, 1, H, K}, type), out = at::empty_like(q), expected = doubles(q.sizes());
    for (int64_t i = 0; i < 3; ++i) {
      const auto row = rows[static_cast<size_t>(i)];
      ops::decode_attention(expected.narrow(0, i, 1), wide(q).narrow(0, i, 1), wide(k).narrow(0, row, 1),
                            wide(v).narrow(0, row, 1), lengths[static_cast<size_t>(i)]);
    }
    run(table().decode_attention(nullptr, type_of(q), heads(out), heads(q), heads(k), heads(v), 0, -1, rows.data(),
                                 lengths.data(), 0, nullptr));
    EXPECT_LE(relative_error(out, expected), bound(type, 1e-6));
  }
}
HEARTH_ON_EACH_DEVICE(AttentionKernel);

}  // namespace
}  // namespace hearth::kernels::test
