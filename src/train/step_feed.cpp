// SPDX-License-Identifier: Apache-2.0
#include "train/step_feed.h"

#include <utility>

#include "base/error.h"
#include "metrics/throughput.h"
#include "trace/spans.h"
#include "train/signals.h"
#include "train/step.h"

namespace hearth::train {

void StepFeed::begin(int64_t t, uint64_t sample) {
  if (prepared_) note();  // another step's: its requests still count
  if (!loader_) saved();
  loader_.emplace(run_.data.splits(), run_.loading(sample));
  prepared_.reset();
  if (t <= run_.steps) prepare(t);
}

void StepFeed::prepare(int64_t t) {
  Prepared& next = prepared_.emplace();
  next.t = t;
  const double waited_before_s = loader_->waited_s();
  StepNote mine;
  try {
    const trace::SpanScope span(trace::SpanKind::kData, "data wait");
    next.step.batch = loader_->next();
    mine.counts = counted_weights(next.step.batch);
    mine.substitutes = next.step.batch.substitutes;
  } catch (...) {
    next.failure = std::current_exception();
    mine.failed = true;
  }
  mine.leave = leave_requested();
  mine.save = take_save_request() || clock_is_due();
  mine.written_step = written_step_;
  next.step.data_wait_s = loader_->waited_s() - waited_before_s;
  next.step.next_sample = loader_->next_sample();
  next.posted = control_.post("the notes about a step", to_bytes(mine, data_index_), merge_step_notes);
}

const StepNote& StepFeed::note() {
  HEARTH_CHECK(prepared_, "no step is prepared");
  if (!prepared_->note) {
    const trace::SpanScope span(trace::SpanKind::kWait, "wait for notes");
    prepared_->note = agreed_note(control_.collect(prepared_->posted), std::ssize(data_ranks_));
    asked_to_leave_ |= prepared_->note->leave;
    asked_to_save_ |= prepared_->note->save;
  }
  return *prepared_->note;
}

StepFeed::Step StepFeed::take(int64_t t) {
  HEARTH_CHECK(prepared_ && prepared_->t == t, "step {} is not prepared", t);
  if (note().failed) {
    control_.together("the data", [&] {
      if (prepared_->failure) std::rethrow_exception(prepared_->failure);
    });
  }
  Step step = std::move(prepared_->step);
  step.note = *prepared_->note;
  prepared_.reset();
  if (t < run_.steps) prepare(t + 1);
  return step;
}

void StepFeed::hear_requests() {
  asked_to_leave_ |= leave_requested();
  asked_to_save_ |= take_save_request() || clock_is_due();
}

bool StepFeed::clock_is_due() const {
  const double interval_s = run_.config.checkpoint.interval_seconds;
  return interval_s > 0 && control_.rank() == 0 && metrics::monotonic_seconds() - saved_s_ >= interval_s;
}

void StepFeed::saved() {
  saved_s_ = metrics::monotonic_seconds();
  asked_to_save_ = false;
}

}  // namespace hearth::train
