// SPDX-License-Identifier: Apache-2.0
// GPU work that is enqueued as one piece: recorded once, then only replayed. A replay costs the host microseconds for
// any number of kernels. Every replay repeats the decisions that the host made while it recorded.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace hearth::ops {

// Throws user_error if this build or this GPU's LibTorch has no graphs. After open_gpu().
void open_graphs();

class Graph {
 public:
  // On a CPU a graph is its function, called again.
  explicit Graph(at::Device device) : device_(device) {}
  Graph(const Graph&) = delete;

  bool recorded() const { return recorded_; }

  // Records the GPU work of `work` as the graph; nothing is computed. `work` may allocate, but may not wait for the GPU
  // or copy from the host. Run `work` once before without recording, so that libraries choose and prepare their
  // kernels. The memory that it reads and writes must keep its address.
  void record(std::function<void()> work);

  // Enqueues the whole graph.
  void replay();

 private:
  at::Device device_;
  bool recorded_ = false;
  std::function<void()> work_;
  std::unique_ptr<void, void (*)(void*)> graph_{nullptr, nullptr};  // only on a GPU
};

}  // namespace hearth::ops
