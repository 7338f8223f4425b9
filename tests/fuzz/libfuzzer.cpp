// SPDX-License-Identifier: Apache-2.0
// A target under libFuzzer: FUZZ_NAME [libFuzzer's flags] FOLDER. The seeds are written into FOLDER, which libFuzzer
// then reads as its corpus and extends.
#include <cstdint>

#include "target.h"

extern "C" int LLVMFuzzerInitialize(const int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const hearth::Path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder)) continue;
    int n = 0;
    for (const std::string& seed : hearth::fuzz::seeds()) {
      hearth::File file = hearth::File::create(folder / ("seed-" + std::to_string(n++)));
      file.write(seed);
      file.close();
    }
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hearth::fuzz::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
