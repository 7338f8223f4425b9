// SPDX-License-Identifier: Apache-2.0
// Spans of time of a rank's work, for a trace of some steps ([profiling], train/profiler.h). A rank has one recorder.
// Its threads take seats, and scopes in the code then record themselves there. A thread without a seat, or with a
// recorder that is off, pays one load and one branch for a scope.
//
// On a GPU these spans are the host's, in which it enqueues work. The GPU's own work has spans, too: one "thread" per
// stream, with times from ops/gpu/trace.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "trace/flight_recorder.h"

namespace hearth::trace {

// The category in a trace. kOp is computation; kCollective is a call of a group; kWait and kData are time in which the
// thread waits: for other ranks or a call under way, and for a batch. The last three are a GPU's, with the names that
// PyTorch's profiler has for them.
enum class SpanKind : int8_t { kStep, kPhase, kLayer, kOp, kCollective, kWait, kData, kKernel, kGpuCopy, kGpuFill };
const char* name_of(SpanKind kind);  // "step", "phase", ..., "kernel", "gpu_memcpy", "gpu_memset"

struct Span {
  SpanKind kind = SpanKind::kOp;
  int32_t thread = 0;
  int64_t begin_ns = 0, end_ns = 0;  // of monotonic_ns()
  const char* name = "";             // a literal, or of SpanRecorder::kept
  int64_t number = -1;               // of the layer or step; -1: none
  int64_t bytes = -1;                // of a collective; -1: none
  const char* group = nullptr;       // the ranks of a collective; null: none
};

int64_t monotonic_ns();

class SpanRecorder {
 public:
  // At most this many spans of a window are kept: about 100 MB.
  static constexpr size_t kMostSpans = size_t{1} << 20;

  struct Window {
    std::vector<Span> spans;           // spans that ended in the window, in the order of their ends
    int64_t left_out = 0;              // spans beyond kMostSpans
    int64_t begin_ns = 0;              // when it began
    int64_t begin_wall_ns = 0;         // the same time in ns since 1970
    std::vector<std::string> threads;  // by Span::thread
  };

  // Any thread may call these.
  bool is_on() const { return is_on_.load(std::memory_order_relaxed); }
  void add(const Span& span);
  // A copy of `text` that lives as long as the recorder.
  const char* kept(std::string_view text);
  // The number of the calling thread in the trace; `name` is what the trace calls it.
  int32_t thread(std::string_view name);
  // The number of a GPU's stream with this name. A trace shows it as a thread.
  int32_t stream(const std::string& name);

  // One thread calls these.
  void start();
  // The difference between monotonic_ns() and the time since 1970, at the beginning of the window.
  int64_t epoch_ns() const { return window_.begin_wall_ns - window_.begin_ns; }
  Window stop();

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex mutex_;  // guards the members below
  Window window_;
  std::unordered_set<std::string> texts_;
  std::unordered_map<int64_t, int32_t> numbers_;      // by the system's number of a thread
  std::unordered_map<std::string, int32_t> streams_;  // by name
  std::vector<std::string> threads_;
};

// Where the calling thread records.
struct SpanPlace {
  SpanRecorder* recorder = nullptr;
  int32_t thread = 0;
};
extern constinit thread_local SpanPlace span_place;

// The calling thread's recorder, whether on or off; null: none. For work that another thread does for this one.
inline SpanRecorder* span_recorder() { return span_place.recorder; }

// The calling thread records in `recorder`, if not null, until the end of the scope. The recorder must outlive it.
class SpanSeat {
 public:
  SpanSeat(SpanRecorder* recorder, std::string_view thread_name);
  ~SpanSeat() { span_place = before_; }
  SpanSeat(const SpanSeat&) = delete;
  SpanSeat& operator=(const SpanSeat&) = delete;

 private:
  SpanPlace before_;
};

// A span from here to the scope's end. `name`: a literal.
class SpanScope {
 public:
  SpanScope(SpanKind kind, const char* name, int64_t number = -1) {
    if (span_place.recorder != nullptr && span_place.recorder->is_on()) begin(kind, name, number);
  }
  // The span of a collective or transfer of the group with this seat.
  SpanScope(const char* name, int64_t bytes, const FlightSeat& seat) {
    if (span_place.recorder == nullptr || !span_place.recorder->is_on()) return;
    begin(SpanKind::kCollective, name, -1);
    describe(bytes, seat);
  }
  ~SpanScope() {
    if (recorder_ != nullptr) end();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  void begin(SpanKind kind, const char* name, int64_t number);
  void describe(int64_t bytes, const FlightSeat& seat);
  void end();

  SpanRecorder* recorder_ = nullptr;
  Span span_;
};

}  // namespace hearth::trace
