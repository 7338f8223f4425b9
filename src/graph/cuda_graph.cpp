// SPDX-License-Identifier: Apache-2.0
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>

#include <memory>

#include "ops/gpu/graph_library.h"

namespace hearth::ops {
namespace {

// A capture needs a stream other than the default one. Only this thread's calls are checked for what a graph cannot
// hold: other threads may read or write files through the GPU's memory meanwhile.
void* record(void (*work)(void*), void* argument) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  try {
    work(argument);
  } catch (...) {
    // The stream must leave its capture, or all later calls fail. The error of capture_end() adds nothing to the first.
    try {
      graph->capture_end();
    } catch (const c10::Error&) {
    }
    throw;
  }
  graph->capture_end();
  return graph.release();
}

void replay(void* graph) { static_cast<at::cuda::CUDAGraph*>(graph)->replay(); }

void destroy(void* graph) { delete static_cast<at::cuda::CUDAGraph*>(graph); }

}  // namespace
}  // namespace hearth::ops

extern "C" __attribute__((visibility("default"))) const hearth::ops::GraphLibrary* HEARTH_GRAPH_ENTRY() {
  static constexpr hearth::ops::GraphLibrary library = {hearth::ops::record, hearth::ops::replay, hearth::ops::destroy};
  return &library;
}
