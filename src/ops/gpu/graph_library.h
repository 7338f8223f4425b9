// SPDX-License-Identifier: Apache-2.0
// LibTorch's CUDA graphs in a shared object of our own (src/graph), which is loaded when the first graph is made.
// hearth-train is thus built without the CUDA toolkit's headers, and runs without LibTorch's CUDA half.
//
// Exceptions pass through: both sides are built together, with the same LibTorch.
#pragma once

namespace hearth::ops {

inline constexpr const char* kGraphObject = "libhearth_cuda_graph.so";

struct GraphLibrary {
  // Records the GPU work of `work(argument)`, which runs with another current stream; nothing is computed. Tensors that
  // it allocates belong to the graph. Tensors from outside must keep their addresses.
  void* (*record)(void (*work)(void* argument), void* argument);
  // Enqueues it on the current stream.
  void (*replay)(void* graph);
  void (*destroy)(void* graph);
};

// The entry of the shared object: HEARTH_GRAPH_ENTRY.
using OpenGraphLibrary = const GraphLibrary* (*)();

}  // namespace hearth::ops
