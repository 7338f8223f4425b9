// SPDX-License-Identifier: Apache-2.0
#include "trace/spans.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace hearth::trace {

constinit thread_local SpanPlace span_place;

const char* name_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kStep:
      return "step";
    case SpanKind::kPhase:
      return "phase";
    case SpanKind::kLayer:
      return "layer";
    case SpanKind::kOp:
      return "op";
    case SpanKind::kCollective:
      return "collective";
    case SpanKind::kWait:
      return "wait";
    case SpanKind::kData:
      return "data";
    case SpanKind::kKernel:
      return "kernel";
    case SpanKind::kGpuCopy:
      return "gpu_memcpy";
    case SpanKind::kGpuFill:
      break;
  }
  return "gpu_memset";
}

int64_t monotonic_ns() {
  using std::chrono::steady_clock;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

void SpanRecorder::add(const Span& span) {
  const std::lock_guard lock(mutex_);
  if (!is_on() || span.begin_ns < window_.begin_ns) return;  // it began in another window, or before any
  if (window_.spans.size() < kMostSpans)
    window_.spans.push_back(span);
  else
    ++window_.left_out;
}

const char* SpanRecorder::kept(std::string_view text) {
  const std::lock_guard lock(mutex_);
  return texts_.emplace(text).first->c_str();
}

int32_t SpanRecorder::thread(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = numbers_.try_emplace(::gettid(), static_cast<int32_t>(threads_.size()));
  if (is_new) threads_.emplace_back(name);
  return found->second;
}

int32_t SpanRecorder::stream(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = streams_.try_emplace(name, static_cast<int32_t>(threads_.size()));
  if (is_new) threads_.push_back(name);
  return found->second;
}

void SpanRecorder::start() {
  const std::lock_guard lock(mutex_);
  window_ = {};
  window_.begin_ns = monotonic_ns();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  window_.begin_wall_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  is_on_ = true;
}

SpanRecorder::Window SpanRecorder::stop() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  window_.threads = threads_;
  return std::exchange(window_, {});
}

SpanSeat::SpanSeat(SpanRecorder* recorder, std::string_view thread_name) : before_(span_place) {
  span_place = {recorder, recorder == nullptr ? 0 : recorder->thread(thread_name)};
}

void SpanScope::begin(SpanKind kind, const char* name, int64_t number) {
  recorder_ = span_place.recorder;
  span_ = {.kind = kind, .thread = span_place.thread, .begin_ns = monotonic_ns(), .name = name, .number = number};
}

void SpanScope::describe(int64_t bytes, const FlightSeat& seat) {
  span_.bytes = bytes;
  std::string ranks;
  for (const int64_t rank : seat.ranks()) ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank);
  span_.group = ranks.empty() ? "all ranks" : recorder_->kept("ranks " + ranks);
}

void SpanScope::end() {
  span_.end_ns = monotonic_ns();
  recorder_->add(span_);
}

}  // namespace hearth::trace
