// LibTorch's CUDA graphs behind a shared object of our own (src/graph), which is loaded when the first graph is made:
// hearth-train is built without the CUDA toolkit's headers, and runs without LibTorch's CUDA half.
//
// Exceptions pass through: both sides are built together, with one LibTorch.
#pragma once

namespace hearth::ops {

inline constexpr const char* kGraphObject = "libhearth_cuda_graph.so";

struct GraphLibrary {
  // A graph of what `work(argument)` enqueues on the current stream, which is another while it runs; nothing of it is
  // done. Tensors that it allocates stay the graph's own, those from outside must stay where they are.
  void* (*record)(void (*work)(void* argument), void* argument);
  // Enqueues it on the current stream.
  void (*replay)(void* graph);
  void (*destroy)(void* graph);
};

// The entry of the shared object: HEARTH_GRAPH_ENTRY.
using OpenGraphLibrary = const GraphLibrary* (*)();

}  // namespace hearth::ops
