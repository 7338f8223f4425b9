// SPDX-License-Identifier: Apache-2.0
// Attention within a window of positions.
#include <fmt/format.h>

#include "attention_cases.h"

namespace hearth::ops::test {
namespace {

// Windows that no block divides, of two positions, and of all but one; also where a document or a row begins.
TEST(AttentionWindow, HidesWhatIsFurtherAway) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool causal : {true, false}) {
      for (const bool several : {false, true}) {
        for (const int64_t reach : {1, 2, 30, 77, 198}) {
          SCOPED_TRACE(fmt::format("{} causal {} documents {} reach {}", c10::toString(type), causal, several, reach));
          const Shape s{2, 200, 4, 2, 24};
          const at::Tensor starts = several ? several_documents(s.B, s.S) : at::Tensor();
          expect_right(s, {.causal = causal, .document_starts_N = starts, .reach = reach}, type);
          expect_right_part(s, plan::chunks_of({1, 2, 2}, s.S), 100,
                            {.causal = causal, .document_starts_N = starts, .reach = reach}, type);
        }
      }
    }
  }
  // Several tasks share one head's keys.
  expect_right(kLong, {.causal = true, .reach = 300}, at::kFloat);
}

TEST(AttentionWindow, DecodingSeesTheWindowOnly) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const Shape s{2, 50, 4, 2, 16};
    const Inputs x = inputs(s, type);
    for (const int64_t reach : {0, 7, 48}) {
      const at::Tensor expected = expected_of(x, {.reach = reach}).out, out = at::empty_like(x.dout);
      for (const auto& [first, end] : {std::pair<int64_t, int64_t>{0, 20}, {20, 23}, {23, 24}, {24, 50}}) {
        decode_attention(out.slice(1, first, end), x.q.slice(1, first, end), x.k, x.v, end, reach);
      }
      EXPECT_LE(relative_error(out, expected), kAttentionError) << reach;
    }
  }
}

}  // namespace
}  // namespace hearth::ops::test
