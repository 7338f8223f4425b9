// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace hearth::emulator {
namespace {

// --- switching stacks
// -------------------------------------------------------------------------------------------------

constexpr size_t kStackBytes = size_t{256} << 10;  // mapped; only used pages are touched
// Stacks begin at this many different distances from a page's end, so that not all use the same lines of the caches.
constexpr size_t kStackStarts = 61;

#if defined(__x86_64__)

// A context is a stack pointer; the callee-saved registers are on the stack below it.
using Context = void*;
extern "C" void hearth_emulator_switch(Context* from, Context to);
asm(R"(
.text
.type hearth_emulator_switch, @function
hearth_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size hearth_emulator_switch, .-hearth_emulator_switch
)");

void prepare(Context* context, std::byte* stack, size_t bytes, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(stack + bytes);
  *--top = nullptr;  // entry's return address: it never returns
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  *context = top;
}
void switch_context(Context* from, Context* to) { hearth_emulator_switch(from, *to); }

#else

using Context = ucontext_t;
void prepare(Context* context, std::byte* stack, size_t bytes, void (*entry)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = bytes;
  makecontext(context, entry, 0);
}
void switch_context(Context* from, Context* to) { swapcontext(from, to); }

#endif

struct Unmap {
  void operator()(std::byte* stack) const { munmap(stack, kStackBytes); }
};
using Stack = std::unique_ptr<std::byte, Unmap>;

Stack new_stack() {
  void* memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return Stack(static_cast<std::byte*>(memory));
}

// --- one block's threads
// ----------------------------------------------------------------------------------------------

enum class State { kNew, kReady, kAtBlock, kAtWarp, kDone };

// A stack and its context. It runs several threads in sequence: new ones cost the address sanitizer much time.
struct Fiber {
  Context context = {};
  Stack stack;
};

struct Thread {
  State state = State::kNew;
  int line = 0;
  uint32_t shuffles = 0;
  std::unique_ptr<Fiber> fiber;  // from the first instruction to the last
  uint64_t slots[2] = {};
};

std::atomic<int> num_lanes = 32;

class Block {
 public:
  int run(int64_t blocks, int threads, void (*body)(const void*), const void* context);
  void wait(State state, int line);
  void* slot_of(int64_t thread) { return &threads_[static_cast<size_t>(thread)].slots[current_->shuffles % 2]; }
  void next_slot() { ++current_->shuffles; }
  const char* error() const { return error_; }

 private:
  static void entry();
  void resume(size_t index);
  int run_block();
  // Resumes threads whose barrier is complete; false if there is no such thread.
  bool open_barriers();
  bool open(size_t begin, size_t end, State barrier);

  std::vector<Thread> threads_;
  std::vector<std::unique_ptr<Fiber>> free_fibers_;
  size_t num_fibers_ = 0;
  Context scheduler_ = {};
  Thread* current_ = nullptr;
  size_t num_threads_ = 0;
  void (*body_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  uint64_t scramble_ = 1;
  char error_[160] = "";
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
#endif
};

Block& block() {
  thread_local Block the_block;
  return the_block;
}

void Block::entry() {
  Block& self = block();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
#endif
  for (;;) {
    self.body_(self.argument_);
    self.wait(State::kDone, 0);
  }
}

void Block::wait(State state, int line) {
  current_->state = state;
  current_->line = line;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
  switch_context(&current_->fiber->context, &scheduler_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

void Block::resume(size_t index) {
  Thread& thread = threads_[index];
  if (thread.state == State::kNew) {
    if (free_fibers_.empty()) {
      free_fibers_.push_back(std::make_unique<Fiber>());
      free_fibers_.back()->stack = new_stack();
      const size_t unused = num_fibers_++ % kStackStarts * 64;
      prepare(&free_fibers_.back()->context, free_fibers_.back()->stack.get(), kStackBytes - unused, &entry);
    }
    thread.fiber = std::move(free_fibers_.back());
    free_fibers_.pop_back();
  }
  current_ = &thread;
  threadIdx.x = static_cast<uint32_t>(index);
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, thread.fiber->stack.get(), kStackBytes);
#endif
  switch_context(&scheduler_, &thread.fiber->context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  if (thread.state == State::kDone) free_fibers_.push_back(std::move(thread.fiber));
}

bool Block::open(size_t begin, size_t end, State barrier) {
  for (size_t i = begin; i < end; ++i) {
    if (threads_[i].state != barrier || threads_[i].line != threads_[begin].line) return false;
  }
  for (size_t i = begin; i < end; ++i) threads_[i].state = State::kReady;
  return true;
}

bool Block::open_barriers() {
  bool opened = open(0, num_threads_, State::kAtBlock);
  const auto warp = static_cast<size_t>(lanes());
  for (size_t i = 0; i < num_threads_; i += warp) {
    opened = open(i, std::min(i + warp, num_threads_), State::kAtWarp) || opened;
  }
  return opened;
}

// A stride that visits each of n places once: the first odd number from the scramble on without a common factor.
size_t stride_for(size_t n, uint64_t scramble) {
  for (size_t stride = static_cast<size_t>(scramble % n) | 1;; stride += 2) {
    size_t a = n, b = stride % n;
    while (b != 0) a = std::exchange(b, a % b);
    if (a == 1) return stride % n;
  }
}

int Block::run_block() {
  for (size_t i = 0; i < num_threads_; ++i) {
    threads_[i].state = State::kNew;
    threads_[i].shuffles = 0;
  }
  size_t done = 0;
  const int warp_bits = std::countr_zero(static_cast<unsigned>(lanes()));
  while (done < num_threads_) {
    scramble_ = scramble_ * 6364136223846793005u + 1442695040888963407u;
    const size_t stride = stride_for(num_threads_, scramble_ >> 33);
    const auto asleep =
        static_cast<uint32_t>(scramble_ >> 16 & scramble_ >> 27);  // a quarter of the warps: others get ahead
    bool all_wait = true;
    for (size_t i = 0, thread = (scramble_ >> 40) % num_threads_; i < num_threads_; ++i) {
      const State state = threads_[thread].state;
      if (state == State::kNew || state == State::kReady) {
        if ((asleep >> (thread >> warp_bits) & 1u) == 0) {
          resume(thread);
          if (threads_[thread].state == State::kDone) ++done;
        } else {
          all_wait = false;
        }
      }
      thread += stride;
      if (thread >= num_threads_) thread -= num_threads_;  // a division takes as long as a switch of fibers
    }
    if (done < num_threads_ && !open_barriers() && all_wait) {
      for (size_t i = 0; i < num_threads_; ++i) {
        if (threads_[i].state == State::kDone) continue;
        std::snprintf(error_, sizeof error_, "not all threads reach the barrier in line %d that thread %zu waits at",
                      threads_[i].line, i);
        break;
      }
      for (Thread& thread : threads_) thread.fiber.reset();  // the fibers' frames are dropped: kernels own nothing
      return kDivergentBarrier;
    }
  }
  return 0;
}

int Block::run(int64_t blocks, int threads, void (*body)(const void*), const void* context) {
  num_threads_ = static_cast<size_t>(threads);
  if (threads_.size() < num_threads_) threads_.resize(num_threads_);
  body_ = body;
  argument_ = context;
  blockDim.x = static_cast<uint32_t>(threads);
  gridDim.x = static_cast<uint32_t>(blocks);
  const size_t stride = stride_for(static_cast<size_t>(blocks), scramble_ >> 33);
  for (size_t i = 0, index = static_cast<size_t>(blocks) / 2; i < static_cast<size_t>(blocks); ++i) {
    blockIdx.x = static_cast<uint32_t>(index);
    if (const int code = run_block(); code != 0) return code;
    index = (index + stride) % static_cast<size_t>(blocks);
  }
  return 0;
}

}  // namespace

int lanes() { return num_lanes; }
void set_lanes(int lanes) { num_lanes = lanes; }
int run(int64_t blocks, int threads, void (*body)(const void*), const void* context) {
  return block().run(blocks, threads, body, context);
}
const char* error_text() { return block().error(); }
void wait_for_block(int line) { block().wait(State::kAtBlock, line); }
void wait_for_warp(int line) { block().wait(State::kAtWarp, line); }
void* slot_of(int64_t thread) { return block().slot_of(thread); }
void next_slot() { block().next_slot(); }

}  // namespace hearth::emulator
