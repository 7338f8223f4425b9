// SPDX-License-Identifier: Apache-2.0
#include "model/context_parallel.h"

#include <functional>

#include "ops/tensor.h"

namespace hearth::model {
namespace {

using Body = std::function<void(const at::Tensor& rows, const at::Tensor& parts)>;

struct Exchange {
  const Activations& a;
  const models::Ref buffer;
  const bool has_keys;
  const plan::ModelShape& s = a.shape();
  const int64_t C = s.head_ranks(), Q = a.S() / s.key_ranks, S = Q / C, K = s.K;  // S: positions of a rank
  const int64_t queries = s.attention_heads(), keys = s.attention_key_heads();

  // What this rank sends to, or receives from, each rank: [C, S, heads of a rank, K].
  at::Tensor parts() const {
    const int64_t heads = queries + (has_keys ? 2 * keys : 0);
    return a(buffer).view({-1}).narrow(0, 0, C * S * heads * K).view({C, S, heads, K});
  }

  // Calls body for queries, keys and values of a sequence, with both sides as [ranks with other heads, heads of a rank,
  // copies, S, K]; in rows there is one copy.
  void for_each_section(const at::Tensor& rows_SN, const at::Tensor& parts_CSNK, const Body& body) const {
    const at::Tensor rows = rows_SN.view({S, -1, K});
    const auto section = [&](int64_t row_head, int64_t num_heads, int64_t part_head, int64_t of_rank) {
      const int64_t copies = C * of_rank / num_heads;
      const at::Tensor in_rows = rows.narrow(1, row_head, num_heads).permute({1, 0, 2});
      const at::Tensor in_parts = parts_CSNK.narrow(2, part_head, of_rank).permute({0, 2, 1, 3});
      body(in_rows.unflatten(0, {C / copies, of_rank}).unsqueeze(2),
           in_parts.unflatten(0, {C / copies, copies}).transpose(1, 2));
    };
    section(0, s.H, 0, queries);
    if (!has_keys) return;
    section(s.H, s.G, queries, keys);
    section(s.H + s.G, s.G, queries + keys, keys);
  }

  // Calls body(its rows here, its heads) for each sequence of the micro-batch.
  void for_each_sequence(const at::Tensor& rows, const at::Tensor& heads, const Body& body) const {
    for (int64_t b = 0; b < a.B(); ++b) body(rows.narrow(0, b * S, S), heads.narrow(0, b * Q, Q));
  }
};

}  // namespace

void rows_to_heads(const Activations& a, const models::RowsToHeads& op) {
  const Exchange exchange{a, op.exchange, op.has_keys};
  const at::Tensor parts = exchange.parts();
  exchange.for_each_sequence(a(op.rows), a(op.heads), [&](const at::Tensor& own, const at::Tensor& all) {
    exchange.for_each_section(
        own, parts, [](const at::Tensor& from, const at::Tensor& to) { ops::copy_(to, from.expand(to.sizes())); });
    a.context.heads->all_to_all(all, parts);
  });
}

void heads_to_rows(const Activations& a, const models::HeadsToRows& op) {
  const Exchange exchange{a, op.exchange, op.has_keys};
  const at::Tensor parts = exchange.parts();
  exchange.for_each_sequence(a(op.rows), a(op.heads), [&](const at::Tensor& own, const at::Tensor& all) {
    a.context.heads->all_to_all(parts, all);
    exchange.for_each_section(own, parts, [](const at::Tensor& to, const at::Tensor& from) {
      from.size(2) == 1 ? ops::copy_(to, from) : ops::sum_copies(to, from);
    });
  });
}

namespace {

// Calls body(keys and values of sequence b in the order of its positions, the same in the order of the ranks) for
// each of 2R equal chunks: [S / 2R, 2*G*K].
void for_each_chunk(const Activations& a, const at::Tensor& sequence_SN, const at::Tensor& exchange_SN,
                    const std::function<void(const at::Tensor&, const at::Tensor&)>& body) {
  const int64_t R = a.shape().key_ranks;
  for (int64_t r = 0; r < R; ++r) {
    const plan::Chunks chunks = plan::chunks_of({.rank = r, .size = R, .key_ranks = R}, a.S());
    const int64_t n = chunks.length, at = r * 2 * n;
    body(sequence_SN.narrow(0, chunks.first, n), exchange_SN.narrow(0, at, n));
    body(sequence_SN.narrow(0, chunks.second, n), exchange_SN.narrow(0, at + n, n));
  }
}

// Keys and values of sequence b in [B*Q, (H+2G)*K] of a rank's heads: [Q, 2*G*K].
at::Tensor keys_of(const Activations& a, const at::Tensor& qkv, int64_t b) {
  const int64_t Q = a.S() / a.shape().key_ranks, queries = a.shape().attention_heads() * a.shape().K;
  return qkv.narrow(0, b * Q, Q).narrow(1, queries, qkv.size(1) - queries);
}

// This rank's part of the exchange: [Q, 2*G*K].
at::Tensor own_part(const Activations& a, const at::Tensor& exchange_SN) {
  const int64_t Q = a.S() / a.shape().key_ranks;
  return exchange_SN.narrow(0, a.context.keys->rank() * Q, Q);
}

}  // namespace

void gather_keys(const Activations& a, const models::GatherKeys& op) {
  const at::Tensor exchange = a(op.exchange), all = a(op.all), qkv = a(op.qkv);
  for (int64_t b = 0; b < a.B(); ++b) {
    ops::copy_(own_part(a, exchange), keys_of(a, qkv, b));
    a.context.keys->all_gather(exchange, own_part(a, exchange));
    for_each_chunk(a, all.narrow(0, b * a.S(), a.S()), exchange,
                   [](const at::Tensor& of_sequence, const at::Tensor& of_rank) { ops::copy_(of_sequence, of_rank); });
  }
}

void sum_key_gradients(const Activations& a, const models::SumKeyGradients& op) {
  const at::Tensor exchange = a(op.exchange), dall = a(op.dall), dqkv = a(op.dqkv);
  for (int64_t b = 0; b < a.B(); ++b) {
    for_each_chunk(a, dall.narrow(0, b * a.S(), a.S()), exchange,
                   [](const at::Tensor& of_sequence, const at::Tensor& of_rank) { ops::copy_(of_rank, of_sequence); });
    a.context.keys->reduce_scatter(own_part(a, exchange), exchange);
    ops::copy_(keys_of(a, dqkv, b), own_part(a, exchange));
  }
}

}  // namespace hearth::model
