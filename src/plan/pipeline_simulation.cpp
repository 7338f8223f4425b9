// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_simulation.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace hearth::plan {
namespace {

constexpr double kNotYet = -1;

// When each action of a step ended.
class EndTimes {
 public:
  EndTimes(const Pipeline& pipeline, bool has_transfers)
      : pipeline_(pipeline),
        has_transfers_(has_transfers),
        forwards_(static_cast<size_t>(pipeline.num_stages() * pipeline.micro_batches), kNotYet),
        backwards_(forwards_),
        inputs_(has_transfers ? forwards_ : std::vector<double>()),
        gradients_(inputs_) {}

  // The time at which everything is there that a computation or a send needs, or kNotYet.
  double ready(const Action& action) const {
    const size_t i = index(action.stage, action.micro_batch);
    switch (action.kind) {
      case ActionKind::kForward:
        if (action.stage == 0) return 0;
        return crosses_ranks() ? inputs_[i] : forwards_[index(action.stage - 1, action.micro_batch)];
      case ActionKind::kBackward:
      case ActionKind::kInputGradient: {
        if (action.stage == pipeline_.num_stages() - 1) return forwards_[i];
        const double gradient =
            crosses_ranks() ? gradients_[i] : backwards_[index(action.stage + 1, action.micro_batch)];
        return gradient == kNotYet || forwards_[i] == kNotYet ? kNotYet : std::max(gradient, forwards_[i]);
      }
      case ActionKind::kSendForward:
        return forwards_[i];
      case ActionKind::kWeightGradient:
      case ActionKind::kSendBackward:
        return backwards_[i];
      default:
        return 0;
    }
  }

  void set(const Action& action, double time) {
    const size_t i = index(action.stage, action.micro_batch);
    if (action.kind == ActionKind::kForward) forwards_[i] = time;
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient) backwards_[i] = time;
    if (action.kind == ActionKind::kRecvForward) inputs_[i] = time;
    if (action.kind == ActionKind::kRecvBackward) gradients_[i] = time;
  }

 private:
  // Neighbouring stages are on different ranks, but on a single rank.
  bool crosses_ranks() const { return has_transfers_ && pipeline_.ranks > 1; }
  size_t index(int64_t stage, int64_t micro_batch) const {
    return static_cast<size_t>(stage * pipeline_.micro_batches + micro_batch);
  }

  const Pipeline& pipeline_;
  bool has_transfers_;
  std::vector<double> forwards_, backwards_, inputs_, gradients_;
};

// The receive of a send.
Action partner(const Action& send) {
  if (send.kind == ActionKind::kSendForward) return {ActionKind::kRecvForward, send.stage + 1, send.micro_batch};
  return {ActionKind::kRecvBackward, send.stage - 1, send.micro_batch};
}

bool is_send(ActionKind kind) { return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward; }

// What a rank sends when a computation has ended.
std::optional<Action> send_after(const Pipeline& pipeline, const Action& action) {
  if (pipeline.ranks == 1) return std::nullopt;
  if (action.kind == ActionKind::kForward && action.stage + 1 < pipeline.num_stages())
    return Action{ActionKind::kSendForward, action.stage, action.micro_batch};
  const bool is_gradient = action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
  if (is_gradient && action.stage > 0) return Action{ActionKind::kSendBackward, action.stage, action.micro_batch};
  return std::nullopt;
}

// What a rank computes, or transfers, in order: the actions of a list that are of this sort.
struct Stream {
  const RankActions* list;
  bool computes, transfers;
  size_t next = 0;
  double free_at = 0;

  const Action* head() {
    while (next < list->size() && !(is_transfer((*list)[next].kind) ? transfers : computes)) ++next;
    return next < list->size() ? &(*list)[next] : nullptr;
  }
  void advance(double time) {
    ++next;
    free_at = time;
  }
};

double duration(const Action& action, const PipelineTimes& times) {
  const StageTimes& stage = times.stages[static_cast<size_t>(action.stage)];
  if (action.kind == ActionKind::kForward) return stage.forward;
  if (action.kind == ActionKind::kInputGradient) return stage.input_gradient;
  if (action.kind == ActionKind::kWeightGradient) return stage.weight_gradient;
  return stage.input_gradient + stage.weight_gradient;
}

// Runs the first action of stream `s` if it can run. A send runs its receive, too. `transfers` is where the first
// rank's transfers are in `streams`.
bool run_head(const Pipeline& pipeline, std::vector<Stream>& streams, size_t s, size_t transfers,
              const PipelineTimes& times, EndTimes& ends) {
  const Action* head = streams[s].head();
  if (head == nullptr || (is_transfer(head->kind) && !is_send(head->kind))) return false;
  const double ready = ends.ready(*head);
  if (ready == kNotYet) return false;
  double start = std::max(streams[s].free_at, ready);
  if (!is_send(head->kind)) {
    const double end = start + duration(*head, times);
    ends.set(*head, end);
    streams[s].advance(end);
    return true;
  }
  const Action recv = partner(*head);
  Stream& other = streams[transfers + static_cast<size_t>(pipeline.rank_of(recv.stage))];
  const Action* other_head = other.head();
  if (other_head == nullptr || *other_head != recv) return false;
  const double end = std::max(start, other.free_at) + times.transfer;
  ends.set(recv, end);
  streams[s].advance(end);
  other.advance(end);
  return true;
}

}  // namespace

std::vector<RankActions> with_transfers(const Pipeline& pipeline, const std::vector<RankActions>& actions) {
  struct Running {
    size_t next = 0;  // in the rank's actions
    int64_t end = 0;
    bool is_busy = false;
  };
  std::vector<Running> ranks(actions.size());
  std::vector<RankActions> lists(actions.size());
  for (size_t rank = 0; rank < actions.size(); ++rank) lists[rank].reserve(3 * actions[rank].size());
  const auto add = [&](const Action& action) {
    lists[static_cast<size_t>(pipeline.rank_of(action.stage))].push_back(action);
  };
  const auto transfer = [&](const Action& send) {
    add(send);
    add(partner(send));
  };
  RankActions outputs, gradients;  // the sends of a tick
  EndTimes ends(pipeline, /*has_transfers=*/false);
  bool is_running = true;
  for (int64_t tick = 0; is_running; ++tick) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      Running& r = ranks[rank];
      if (!r.is_busy || r.end != tick) continue;
      const Action& action = actions[rank][r.next++];
      ends.set(action, static_cast<double>(tick));
      if (const std::optional<Action> send = send_after(pipeline, action))
        (send->kind == ActionKind::kSendForward ? outputs : gradients).push_back(*send);
      r.is_busy = false;
    }
    // The ends of a tick come in the order of the ranks. In a tick, a rank receives before it sends: its next
    // computation needs what it receives.
    std::for_each(outputs.begin(), outputs.end(), transfer);
    std::for_each(gradients.rbegin(), gradients.rend(), transfer);
    outputs.clear();
    gradients.clear();
    is_running = false;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      Running& r = ranks[rank];
      if (!r.is_busy && r.next < actions[rank].size() && ends.ready(actions[rank][r.next]) != kNotYet) {
        const Action& action = actions[rank][r.next];
        add(action);
        r.is_busy = true;
        r.end = tick + (action.kind == ActionKind::kBackward ? 2 : 1);
      }
      is_running = is_running || r.is_busy;
    }
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    HEARTH_CHECK(ranks[rank].next == actions[rank].size(), "rank {} never computes {}", rank,
                 to_string(actions[rank][ranks[rank].next]));
  return lists;
}

PipelineTimes equal_times(const Pipeline& pipeline, const StageTimes& stage, double transfer) {
  return {std::vector<StageTimes>(static_cast<size_t>(pipeline.num_stages()), stage), transfer};
}

PipelineStep simulate(const Pipeline& pipeline, const std::vector<RankActions>& actions, const PipelineTimes& times,
                      TransferMode transfers) {
  HEARTH_CHECK(std::ssize(times.stages) == pipeline.num_stages());
  EndTimes ends(pipeline, /*has_transfers=*/true);
  const bool overlapped = transfers == TransferMode::kOverlapped;
  std::vector<Stream> streams;
  for (const RankActions& list : actions) streams.push_back({&list, true, !overlapped});
  if (overlapped)
    for (const RankActions& list : actions) streams.push_back({&list, false, true});
  for (bool runs = true; runs;) {
    runs = false;
    for (size_t s = 0; s < streams.size(); ++s)
      while (run_head(pipeline, streams, s, overlapped ? actions.size() : 0, times, ends)) runs = true;
  }
  PipelineStep step;
  for (Stream& stream : streams) {
    if (stream.head() != nullptr) return {.is_stuck = true};
    step.time = std::max(step.time, stream.free_at);
  }
  double busy = 0;
  for (const RankActions& list : actions)
    for (const Action& action : list)
      if (!is_transfer(action.kind)) busy += duration(action, times);
  step.bubble = step.time > 0 ? 1 - busy / (step.time * static_cast<double>(pipeline.ranks)) : 0;
  return step;
}

}  // namespace hearth::plan
