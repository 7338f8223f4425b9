// SPDX-License-Identifier: Apache-2.0
#include "model/expert_parallel.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "ops/moe/arrivals.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::model {
namespace {

std::vector<int64_t> times(const std::vector<int64_t>& counts, int64_t factor) {
  std::vector<int64_t> products;
  for (const int64_t count : counts) products.push_back(count * factor);
  return products;
}

void exchange(const Activations& a, const at::Tensor& to, const at::Tensor& from, const std::vector<int64_t>& rows_to,
              const std::vector<int64_t>& rows_from) {
  const int64_t columns = from.size(1);
  const std::vector<int64_t> elements_to = times(rows_to, columns), elements_from = times(rows_from, columns);
  a.experts->all_to_all(to, from, {.to = elements_to, .from = elements_from});
}

at::Tensor order_of(const Activations& a, const models::Arrivals& by) { return a(by.order).view({-1}); }

}  // namespace

void send_counts(const Activations& a, const models::SendCounts& op) {
  // Sent and received counts in one tensor: they come to the host in one copy.
  const int64_t E = a.program().buffer(op.of.ends).shape[1];
  const at::Tensor counts_2E = ops::empty({2, E}, DType::kInt64, a.device());
  ops::copy_(counts_2E.select(0, 0), ops::counts_of(a(op.of.ends)));
  a.experts->all_to_all(counts_2E.select(0, 1), counts_2E.select(0, 0));
  a.expert_rows().counts = std::make_shared<ops::Readback>(counts_2E);
}

void share_counts(const Activations& a, const models::ShareCounts& op) {
  const std::vector<int64_t> counts = ops::to_int64s(a.expert_rows().counts->wait());
  const int64_t R = a.experts->size(), E = std::ssize(counts) / 2, here = E / R;
  const ops::ArrivingRows arriving = ops::arriving_rows(std::span(counts).subspan(static_cast<size_t>(E)), R);
  ExpertRows& rows = a.expert_rows();
  rows.arriving = std::ssize(arriving.order);
  rows.to = arriving.of_rank;
  rows.from.clear();
  for (int64_t rank = 0; rank < R; ++rank) {
    const auto first = counts.begin() + rank * here;
    rows.from.push_back(std::accumulate(first, first + here, int64_t{0}));
  }
  ops::copy_(a(op.to.order).view({-1}), ops::from_int64(arriving.order, a.device()));
  ops::copy_(a(op.to.ends).view({-1}), ops::from_int32(arriving.ends, a.device()));
}

void send_rows(const Activations& a, const models::SendRows& op) {
  const ExpertRows& rows = a.expert_rows();
  exchange(a, a(op.arrived), a(op.from), rows.to, rows.from);
  ops::gather_rows(a(op.to), a(op.arrived), order_of(a, op.by));
}

void return_rows(const Activations& a, const models::ReturnRows& op) {
  const ExpertRows& rows = a.expert_rows();
  ops::scatter_rows(a(op.arrived), a(op.from), order_of(a, op.by));
  exchange(a, a(op.to), a(op.arrived), rows.from, rows.to);
}

}  // namespace hearth::model
