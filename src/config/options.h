// SPDX-License-Identifier: Apache-2.0
// Options of `hearth-train` commands apart from the run file, as plain values. commands/ parses them and train/ obeys
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"

namespace hearth::config {

struct TrainOptions {
  Path run_toml;
  std::vector<std::string> sets;  // "section.key=value"
  bool restart = false;           // starts over although there is a checkpoint; the old run is moved aside
  bool verbose = false;           // the start prints every key
  int64_t ranks = 0;              // processes to start on this host; 0: as the run file says
  bool launched = false;          // srun, mpirun or torchrun started this process
  int64_t max_restarts = 0;       // restarts after failures, in a row without a new checkpoint
  bool is_trial = false;          // its folder is removed at the end, so no hints about it are printed
};

struct PreflightOptions {
  Path run_toml;                  // empty: the devices and nodes alone
  std::vector<std::string> sets;  // "section.key=value"
  int64_t ranks = 0;              // processes to start on this host; 0: as the run file says, or one
  int64_t steps = 2;              // steps of the real run; 0: no steps
  Path folder;                    // to write in; empty: the run folder, or the current folder
  bool json = false;              // one JSON object
  Path bad_nodes;                 // a file for the names of bad nodes, one a line; empty: none
  bool exclude_bad = false;       // requeues the Slurm job, and keeps it from these nodes
  // From the cluster file. A figure that is 0 or empty is not checked.
  double least_share = 0.9;
  double gemm_flops = 0, fabric_bytes_s = 0;
  std::string fabric_library;
};

struct EvalOptions {
  Path checkpoint;
  // Folders made by `hearth data build`, "DIR" or "NAME=DIR". Empty: the validation sets of the checkpoint's run, or
  // its data.
  std::vector<std::string> data{};
  std::string split{};           // empty: the set's own, or "validation"
  std::vector<int64_t> ngram{};  // orders of n-gram models to compare with; empty: no n-gram models
  // Datasets whose training documents the n-gram models count; empty: the datasets of the checkpoint's run.
  std::vector<Path> ngram_data{};
  // Multiple-choice tasks, "FILE" or "NAME=FILE" (infer/choice_task.h). With tasks and without `data`, only the tasks
  // are evaluated.
  std::vector<std::string> tasks{};
  int64_t shots = 0;            // solved examples before each question: the first ones of `shots_from`
  Path shots_from{};            //
  std::string delimiter = " ";  // between a question and each choice
  Path samples{};               // a file for the log-likelihood of each choice; empty: none
  int64_t window = 0;           // positions of a window, with --stride; 0: the model's
  int64_t stride = 0;           // tokens between windows that overlap; 0: windows follow each other
  uint64_t seed = 0;            // for the positions that a masked model has to predict
  int64_t mc_num = 0;           // masked_diffusion: draws of hidden tokens for each sequence; 0: 128
  int64_t batch_size = 8;       // sequences at a time
  int64_t threads = 0;          // CPU threads; 0: all that the process may use
  std::string device = "cpu";   // or "cuda"
  bool json = false;            // one JSON object instead of lines for people
};

struct ScoreOptions {
  Path run;
  int64_t every = 0;        // scores only steps that are multiples of this; 0: all
  bool tasks_only = false;  // without the validation loss
  EvalOptions eval{};       // its checkpoint is not read
};

struct GenerateOptions {
  Path checkpoint{};
  std::string prompt{};    // empty: the text begins like a document
  std::string fill{};      // a text with masks, instead of a prompt
  Path prompts{};          // a file of prompts, instead of one; its texts go to `out` (infer/generate_prompts.h)
  int64_t batch_size = 0;  // prompts at a time; 0: eight
  int64_t max_tokens = 200;
  bool max_tokens_given = false;
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // 0: all
  double top_p = 1;
  double min_p = 0;                 // drops tokens less likely than this share of the likeliest one
  std::vector<std::string> stop{};  // strings that end the text
  // masked_diffusion: forward passes, and tokens of a block; 0: max_tokens
  int64_t steps = 0, block_length = 0;
  uint64_t seed = 0;
  int64_t threads = 0;
  std::string device = "cpu";  // or "cuda"
  // Only for recordings.
  int64_t n_fixed = -1;      // neurons that the prompt fixes; 0: all that it has, -1: as in the training
  int64_t context_bins = 0;  // bins of the prompt; the rest is compared with the output. 0: all
  Path out{};                // the generated bins as .npy; or the texts of `prompts`
  Path picture{};            // recorded and generated bins side by side, as .png
};

// The options of `hearth bench step` and `bench ops`.
struct BenchStepOptions {
  RunConfig config;    // from the run file or the defaults, with the shape options applied
  int64_t steps = 10;  // timed steps; for bench ops: calls of each kernel
  int64_t warmup = 3;  // steps before them, not timed
  bool json = false;   // one JSON object instead of lines for people
  // Waits for a line on stdin before each step and prints one after it: for runs in alternation with other programs.
  bool turns = false;
};

struct BenchGemmOptions {
  std::string device = "cpu";     // or "cuda"
  std::string dtype = "float32";  // or "bfloat16", "float64"
  int64_t threads = 0;            // CPU threads; 0: all that the process may use
  bool json = false;              // one JSON object
};

struct BenchCommOptions {
  int64_t ranks = 0;  // processes to start on this host; 0: the launcher's, or two
  int64_t mib = 32;   // size of the tensor on each rank
  int64_t repeats = 20;
  std::string backend = "auto";  // comm.backend
  std::string library;           // comm.nccl_library
  std::string device = "cpu";    // where the tensors are
  bool json = false;             // one JSON object
};

struct BenchRanksOptions {
  int64_t ranks = 5120;
  int64_t repeats = 50;  // steps
  bool json = false;     // one JSON object
};

}  // namespace hearth::config
