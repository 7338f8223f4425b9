// What the commands of `hearth-train` take besides the run file: plain values, as commands/ parses them and train/
// obeys them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::config {

struct TrainOptions {
  Path run_toml;
  std::vector<std::string> sets;  // "section.key=value"
  bool restart = false;           // start over where a checkpoint is; the old run is moved aside
  bool verbose = false;           // the start prints every key
};

struct EvalOptions {
  Path checkpoint;
  // Folders made by `hearth data build`, "DIR" or "NAME=DIR"; empty: the validation sets of the checkpoint's run, or
  // its data.
  std::vector<std::string> data{};
  std::string split{};           // empty: the set's own, or "validation"
  std::vector<int64_t> ngram{};  // orders of the n-gram models shown beside; empty: none
  // Datasets whose documents for training they count; empty: those that the checkpoint's run trains on.
  std::vector<Path> ngram_data{};
  uint64_t seed = 0;           // of the positions that a masked model has to predict
  int64_t batch_size = 8;      // sequences at a time
  int64_t threads = 0;         // CPU threads; 0: all the process may use
  std::string device = "cpu";  // or "cuda"
  bool json = false;           // one JSON object instead of lines for people
};

struct GenerateOptions {
  Path checkpoint{};
  std::string prompt{};  // empty: the text begins where a document does
  std::string fill{};    // a text with masks, instead of a prompt
  int64_t max_tokens = 200;
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  uint64_t seed = 0;
  int64_t threads = 0;
  std::string device = "cpu";  // or "cuda"
  // Of recordings alone.
  int64_t n_fixed = -1;      // neurons that the prompt is given; 0: those that it has, -1: what the model learnt
  int64_t context_bins = 0;  // of the prompt; the rest is what really came. 0: all
  Path out{};                // the generated bins as .npy
  Path picture{};            // what really came beside what was generated, as .png
};

}  // namespace hearth::config
