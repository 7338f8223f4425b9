// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/graph.h"

#include "base/error.h"
#include "base/program.h"
#include "base/shared_object.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/graph_library.h"

namespace hearth::ops {
namespace {

const GraphLibrary& load() {
  const char* const fix = "remove training.cuda_graph, or build Hearth again on a machine with the CUDA toolkit";
  const auto path = beside_program(kGraphObject);
  if (!path)
    throw user_error("this build of Hearth has no CUDA graphs",
                     fmt::format("{} is not in the program's folder", kGraphObject), fix);
  void* entry =
      load_entry(*path, HEARTH_ENTRY_NAME(HEARTH_GRAPH_ENTRY), fmt::format("cannot load {}", path->string()), fix);
  return *reinterpret_cast<OpenGraphLibrary>(entry)();
}

const GraphLibrary& library() {
  static const GraphLibrary& loaded = load();
  return loaded;
}

}  // namespace

void open_graphs() {
  if (std::string_view(open_gpu().platform).starts_with("HIP"))
    throw user_error("there are no graphs on AMD's GPUs",
                     "LibTorch has other names for them there, and they are untested", "remove training.cuda_graph");
  library();
}

void Graph::record(std::function<void()> work) {
  HEARTH_CHECK(!recorded_);
  work_ = std::move(work);
  if (!device_.is_cpu()) {
    const auto call = [](void* argument) { (*static_cast<std::function<void()>*>(argument))(); };
    graph_ = {library().record(call, &work_), library().destroy};
  }
  recorded_ = true;
}

void Graph::replay() {
  HEARTH_CHECK(recorded_);
  if (graph_) {
    library().replay(graph_.get());
  } else {
    work_();
  }
}

}  // namespace hearth::ops
