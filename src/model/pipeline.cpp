// SPDX-License-Identifier: Apache-2.0
#include "model/pipeline.h"

#include <vector>

namespace hearth::model {
namespace {

using plan::ActionKind;

comm::Work start_transfer(const plan::Pipeline& pipeline, const plan::Action& action, const at::Tensor& values,
                          comm::Group& group) {
  const bool to_next = action.kind == ActionKind::kSendForward || action.kind == ActionKind::kRecvBackward;
  const int64_t other = pipeline.rank_of(action.stage + (to_next ? 1 : -1));
  const bool sends = action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
  return group.start([&group, values, other, sends] { sends ? group.send(values, other) : group.recv(values, other); });
}

}  // namespace

void run_pipeline(const plan::Pipeline& pipeline, const plan::RankSchedule& schedule, comm::Group* group,
                  const PipelineWork& work) {
  std::vector<std::vector<comm::Work>> transfers;  // the last one of each slot of each stage
  for (const int64_t slots : schedule.slots) transfers.emplace_back(static_cast<size_t>(slots));
  for (const plan::PlacedAction& placed : schedule.actions) {
    const plan::Action& action = placed.action;
    comm::Work& transfer =
        transfers[static_cast<size_t>(action.stage / pipeline.ranks)][static_cast<size_t>(placed.slot)];
    if (plan::is_transfer(action.kind)) {
      transfer = start_transfer(pipeline, action, work.transferred(placed), *group);
    } else {
      transfer.wait();
      work.compute(placed);
    }
  }
  for (const auto& slots : transfers)
    for (const comm::Work& transfer : slots) transfer.wait();
}

}  // namespace hearth::model
