// SPDX-License-Identifier: Apache-2.0
// Threads that read portions and write bundles. One thread reads a portion in order. Its bundles are written by that
// thread or by others, so one large file keeps all threads busy.
#pragma once

#include <cstdint>
#include <functional>

#include "data/build/bundle.h"

namespace hearth::data {

// Calls read(portion, emit) once for each portion in [first, end), started in order; `read` passes its bundles to
// emit(bundle). Calls write(bundle) once for each bundle. At most 2 * threads bundles exist at a time. After an
// exception no further portion or bundle is started. The exception of the lowest portion is thrown again when all
// threads have returned.
void run_portions(size_t first, size_t end, int64_t threads,
                  const std::function<void(size_t portion, const std::function<void(Bundle)>& emit)>& read,
                  const std::function<void(Bundle)>& write);

}  // namespace hearth::data
