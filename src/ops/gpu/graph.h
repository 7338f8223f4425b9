// Work of a GPU that is enqueued as one piece: recorded once, then only started again. The host takes microseconds
// for it, however many kernels there are; what it decided while recording stays decided.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace hearth::ops {

// Throws user_error where this build or this GPU's LibTorch has no graphs. After open_gpu().
void open_graphs();

class Graph {
 public:
  // On a CPU a graph is its function, called again.
  explicit Graph(at::Device device) : device_(device) {}
  Graph(const Graph&) = delete;

  bool recorded() const { return recorded_; }

  // What `work` enqueues becomes the graph; nothing of it is done. It may allocate, but not wait for the GPU, nor copy
  // from the host. Let it run as it is once before: libraries choose and prepare their kernels then. What it reads and
  // writes must stay where it is.
  void record(std::function<void()> work);

  // Enqueues all of it.
  void replay();

 private:
  at::Device device_;
  bool recorded_ = false;
  std::function<void()> work_;
  std::unique_ptr<void, void (*)(void*)> graph_{nullptr, nullptr};  // of a GPU
};

}  // namespace hearth::ops
