// SPDX-License-Identifier: Apache-2.0
#include "plan/activations.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/quantity.h"
#include "models/stage_program.h"
#include "plan/context_parallel.h"

namespace hearth::plan {
namespace {

// From an op to an op, both included.
struct Interval {
  int64_t first, last;
};

// A buffer: when it is alive, and its place.
struct Block {
  int64_t size_bytes, offset_bytes = 0;
  int64_t rank, layer;  // of its name among all
  std::vector<Interval> alive{};
  bool is_in_slot = false;

  bool is_alive(int64_t op) const {
    return std::any_of(alive.begin(), alive.end(), [op](const Interval& t) { return t.first <= op && op <= t.last; });
  }
  bool meets(const Block& other) const {
    for (const Interval& a : alive)
      for (const Interval& b : other.alive)
        if (a.first <= b.last && b.first <= a.last) return true;
    return false;
  }
};

// Whether two parts of a buffer have a column in common.
bool meet(const models::Ref& a, const models::Ref& b) {
  if (a.columns == 0 || b.columns == 0) return true;
  return a.first < b.first + b.columns && b.first < a.first + a.columns;
}

// A block for each buffer of the program, with the times at which it is alive.
std::vector<Block> blocks_of(const models::Program& program) {
  constexpr int64_t kAlignmentBytes = 64;
  std::vector<Block> blocks;
  std::map<std::string_view, int64_t> ranks;
  for (const models::Buffer& buffer : program.buffers()) {
    int64_t size_bytes = dtype_size(buffer.dtype);
    for (const int64_t size : buffer.shape) size_bytes *= size;
    const int64_t rank = ranks.try_emplace(buffer.name, std::ssize(ranks)).first->second;
    blocks.push_back({.size_bytes = round_up(size_bytes, kAlignmentBytes), .rank = rank, .layer = buffer.layer});
  }
  const auto at = [&](const models::Ref& ref) -> Block& { return blocks[static_cast<size_t>(ref.buffer)]; };
  std::vector<models::Refs> unread(blocks.size());  // parts that were written last
  const auto write = [&](const models::Ref& ref, int64_t now, const std::string& step) {
    models::Refs& parts = unread[static_cast<size_t>(ref.buffer)];
    if (at(ref).alive.empty() || at(ref).alive.back().last < now) {
      at(ref).alive.push_back({now, now});
      // Its other parts are not alive until now. Where all is computed again, the same parts are.
      HEARTH_CHECK(ref.columns == 0 || parts.empty() || std::find(parts.begin(), parts.end(), ref) != parts.end(),
                   "\"{}\" writes a part of {}, and a step before it another one", step, program.buffer(ref).name);
      parts.clear();
    }
    parts.push_back(ref);
  };
  for (size_t i = 0; i < program.steps().size(); ++i) {
    const models::Step& step = program.steps()[i];
    const auto now = static_cast<int64_t>(i);
    for (const models::Op& op : program.ops_of(step)) {
      for (const models::Ref& ref : models::reads_of(op)) {
        HEARTH_CHECK(!at(ref).alive.empty(), "\"{}\" reads {} before it is written", step.full_name(),
                     program.buffer(ref).name);
        at(ref).alive.back().last = now;
        std::erase_if(unread[static_cast<size_t>(ref.buffer)],
                      [&](const models::Ref& part) { return meet(part, ref); });
      }
      for (const models::Ref& ref : models::writes_of(op)) write(ref, now, step.full_name());
    }
  }
  return blocks;
}

// Places the largest first, each at the lowest offset that is free whenever it is alive. Returns the arena's size.
int64_t place(std::vector<Block*> blocks) {
  const auto order = [](const Block* b) { return std::tuple(-b->size_bytes, b->rank, b->layer); };
  std::sort(blocks.begin(), blocks.end(), [&](const Block* a, const Block* b) { return order(a) < order(b); });
  int64_t total = 0;
  std::vector<const Block*> placed;  // by offset
  for (Block* block : blocks) {
    int64_t offset = 0;
    for (const Block* other : placed) {
      if (other->offset_bytes >= offset + block->size_bytes) break;
      if (other->offset_bytes + other->size_bytes > offset && block->meets(*other))
        offset = other->offset_bytes + other->size_bytes;
    }
    block->offset_bytes = offset;
    total = std::max(total, offset + block->size_bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), block,
                                   [](const Block* a, const Block* b) { return a->offset_bytes < b->offset_bytes; }),
                  block);
  }
  return total;
}

// Whether other micro-batches come while a buffer is alive: between two passes, or while another stage receives or
// sends it.
bool is_in_slot(const Block& block, const models::Program& program) {
  const auto pass_at = [&](int64_t step) { return program.steps()[static_cast<size_t>(step)].pass; };
  return std::any_of(block.alive.begin(), block.alive.end(),
                     [&](const Interval& t) { return pass_at(t.first) != pass_at(t.last); });
}

}  // namespace

void add_at_peak(ActivationBytes& sum, std::string_view name, int64_t bytes) {
  const auto found =
      std::find_if(sum.at_peak.begin(), sum.at_peak.end(), [&](const auto& item) { return item.first == name; });
  if (found == sum.at_peak.end()) return sum.at_peak.push_back({name, bytes});
  found->second += bytes;
}

ActivationPlan activation_plan(models::Program program, int64_t slots) {
  std::vector<Block> blocks = blocks_of(program);
  ActivationPlan plan{{}, std::move(program), {}};
  plan.num_slots = slots;
  const std::vector<models::Step>& steps = plan.program.steps();
  std::vector<Block*> shared;
  std::vector<int64_t> alive_bytes(steps.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    Block& block = blocks[i];
    if (block.alive.empty()) continue;
    const auto is = [i](const models::Ref& ref) { return ref.buffer == static_cast<int32_t>(i); };
    block.is_in_slot =
        slots > 0 && (is(plan.program.input) || is(plan.program.dstream) || is_in_slot(block, plan.program));
    if (block.is_in_slot) continue;
    shared.push_back(&block);
    for (const Interval& t : block.alive)
      for (int64_t step = t.first; step <= t.last; ++step) alive_bytes[static_cast<size_t>(step)] += block.size_bytes;
  }
  // Slots begin with the buffers of the first names.
  std::vector<Block*> kept;
  for (Block& block : blocks)
    if (block.is_in_slot) kept.push_back(&block);
  std::sort(kept.begin(), kept.end(),
            [](const Block* a, const Block* b) { return std::pair(a->rank, a->layer) < std::pair(b->rank, b->layer); });
  for (Block* block : kept) {
    block->offset_bytes = plan.slot_bytes;
    plan.slot_bytes += block->size_bytes;
  }
  const auto peak = std::max_element(alive_bytes.begin(), alive_bytes.end());
  plan.peak_bytes = *peak + slots * plan.slot_bytes;
  plan.peak_step = steps[static_cast<size_t>(peak - alive_bytes.begin())].full_name();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t bytes = blocks[i].is_in_slot                             ? slots * blocks[i].size_bytes
                          : blocks[i].is_alive(peak - alive_bytes.begin()) ? blocks[i].size_bytes
                                                                           : 0;
    add_at_peak(plan, plan.program.buffers()[i].name, bytes);
  }
  plan.shared_bytes = place(std::move(shared));
  plan.total_bytes = plan.shared_bytes + slots * plan.slot_bytes;
  for (const Block& block : blocks)
    plan.places.push_back({block.alive.empty() ? 0 : block.size_bytes, block.offset_bytes, block.is_in_slot});
  return plan;
}

int64_t loss_chunk(int64_t setting, const ModelShape& shape, DType compute, bool on_gpu) {
  constexpr int64_t kLeast = 1024, kMost = 8192, kBytes = int64_t{1} << 30;
  if (setting > 0) return setting;
  // By the largest part of the vocabulary: tensor-parallel ranks exchange statistics of each chunk.
  const int64_t all = std::max(shape.V, shape.vocabulary.total), vocabulary = div_ceil(all, shape.tensor.size);
  int64_t tokens = kLeast;
  while (on_gpu && tokens < kMost && 2 * tokens * vocabulary * dtype_size(compute) <= kBytes) tokens *= 2;
  return tokens;
}

ActivationPlan activation_plan(const ModelShape& s, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               Backward backward, std::span<const Recompute> recompute, int64_t slots) {
  HEARTH_CHECK(recompute.empty() || std::ssize(recompute) == s.L(), "{} levels for {} layers", recompute.size(), s.L());
  HEARTH_CHECK(divides_sequence({0, s.context, s.key_ranks}, S) && B * S / s.context % s.tensor.size == 0,
               "{} x {} positions for {} x {} ranks", B, S, s.context, s.tensor.size);
  return activation_plan(models::stage_program(s, {B, S, dtype, loss_chunk_tokens}, backward, recompute), slots);
}

}  // namespace hearth::plan
