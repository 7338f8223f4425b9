// SPDX-License-Identifier: Apache-2.0
// A complete description of a run: the content of its TOML file. All other code only reads it.
//
// Section and key names are torchtitan's (2025) if it has the key. The table in config/field_table.cpp gives each field
// its name, unit, default, bounds and help. Parsing, checking, `hearth config show`, --help and docs/config.md come
// from it. Every key here is obeyed by code.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/block_options.h"
#include "config/choices.h"
#include "mesh/mesh.h"

namespace hearth::config {

struct Job {
  std::string dump_folder = ".";  // the run folder: checkpoints/, metrics.jsonl; relative to the TOML's folder
  std::string description;
};

// The values of model.layer_types, as transformers has them.
inline constexpr std::string_view kFullAttention = "full_attention", kSlidingAttention = "sliding_attention";

struct Model : BlockOptions {
  std::string name = "llama3";  // the family that `flavor` is looked up in
  std::string flavor;           // a named shape of the family; given keys override it. Empty: the keys alone
  int64_t dim = 256;
  int64_t n_layers = 4;
  int64_t n_heads = 4;
  int64_t n_kv_heads = 0;         // 0: n_heads
  int64_t head_dim = 0;           // 0: dim / n_heads
  int64_t hidden_dim = 0;         // 0: computed from ffn_dim_multiplier and multiple_of, as Meta does
  double ffn_dim_multiplier = 0;  // 0: none
  int64_t multiple_of = 64;
  int64_t moe_hidden_dim = 0;  // of an expert; 0: hidden_dim
  int64_t n_dense_layers = 0;  // the first layers, which have no experts
  NormType norm_type = NormType::kRmsNorm;
  double norm_eps = 1e-5;
  double rope_theta = 10000;
  RopeType rope_type = RopeType::kLlama3;
  double rope_scaling_factor = 1;                              // 1: none
  double rope_low_freq_factor = 1, rope_high_freq_factor = 4;  // llama3
  int64_t rope_original_seq_len = 8192;
  double rope_beta_fast = 32, rope_beta_slow = 1;               // yarn
  bool rope_truncate = true;                                    // yarn
  double rope_attention_factor = 0;                             // yarn, longrope; 0: follows from other keys
  double rope_mscale_all_dim = 0;                               // yarn: of DeepSeek's scores; 0: not
  std::vector<double> rope_short_factor{}, rope_long_factor{};  // longrope
  double partial_rotary_factor = 1;                             // the share of a head that rotates
  double rope_local_theta = 0;                                  // of layers with a window; 0: as all others
  double query_position_scale = 0;
  RopePairs rope_pairs = RopePairs::kInterleaved;
  AttentionScope attention_scope = AttentionScope::kWindow;
  int64_t sliding_window = 0;               // tokens that a position sees, itself included; 0: all
  int64_t full_attention_interval = 0;      // every n-th layer has no window. 0: all have it, or layer_types says which
  int64_t first_full_attention_layer = -1;  // the first of these, from 0; -1: the last of the first interval
  std::vector<std::string> layer_types;
  InitLaw init = InitLaw::kTorchtitan;
  InitLaw output_init = InitLaw::kScaledNormal;  // law of wo and w2, unless init is torchtitan
  double init_std = 0.02;                        // for normal and scaled_normal
  bool depth_init = true;                        // of torchtitan
  bool enable_weight_tying = false;
  int64_t vocab_size = 0;  // 0: the tokenizer's
};

// [objective]: what the model learns to predict.
struct Objective {
  ObjectiveKind kind = ObjectiveKind::kCausalLm;
  double z_loss = 0;
  // masked_lm
  double mlm_probability = 0.3;
  double mlm_probability_end = 0;  // at the end of the training; 0: it does not change
  bool whole_words = false;
  std::string mask_token;  // a special token of the tokenizer; empty: [MASK], <mask> or <|mask|>
  int64_t mask_id = -1;    // instead of mask_token; -1: the id of mask_token
  double mask_replace_prob = 1, random_replace_prob = 0;
  bool mask_special_tokens = false, at_least_one_mask = true;
  bool count_bos = true;  // spike_lm
  // masked_diffusion, with mask_token and mask_id
  double diffusion_eps = 1e-3, random_length_prob = 0.01;
  bool shift_logits = false;

  double last_mlm_probability() const { return mlm_probability_end > 0 ? mlm_probability_end : mlm_probability; }
  bool diffuses() const { return kind == ObjectiveKind::kMaskedDiffusion; }
  // Hidden tokens are predicted, from both sides.
  bool masked() const { return kind == ObjectiveKind::kMaskedLm || diffuses(); }
};

// [[optimizer.group]]: parameters with their own learning rate or weight decay.
struct OptimizerGroup {
  std::string pattern;       // of parameter names: "*norm*"
  double lr_factor = 1;      // factor of the learning rate
  double weight_decay = -1;  // -1: as [optimizer] says
};

struct Optimizer {
  OptimizerName name = OptimizerName::kAdamW;
  OptimizerForm form = OptimizerForm::kTorch;
  double lr = 8e-4;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double weight_decay = 0.1;
  WeightDecayOn weight_decay_on = WeightDecayOn::kMatrices;
  DType moments_dtype = DType::kFloat32;  // or kBFloat16
  double muon_momentum = 0.95;
  bool muon_nesterov = true;
  int64_t muon_ns_steps = 5;
  MuonAdjustLrFn muon_adjust_lr_fn = MuonAdjustLrFn::kMatchRmsAdamW;
  std::vector<OptimizerGroup> group{};
};

struct LrScheduler {
  ScheduleRule rule = ScheduleRule::kTorchtitan;
  int64_t warmup_steps = 200;
  double warmup_fraction = 0;  // > 0: share of all steps, in place of warmup_steps
  double decay_ratio = -1;     // share of steps, at the end, that decay (WSD); -1: all after the warm-up
  DecayType decay_type = DecayType::kLinear;
  double min_lr_factor = 0;
  int64_t num_cycles = 1;  // for cosine_with_restarts
  double power = 1;        // for polynomial
  int64_t end_step = 0;    // last step of the decay (not for torchtitan's rules); 0: the run's last step
};

struct Training {
  int64_t seq_len = 2048;
  int64_t local_batch_size = 8;    // sequences per rank and micro-batch
  int64_t global_batch_size = -1;  // sequences per step; -1: local_batch_size * ranks
  int64_t steps = 0;               // exactly one of steps, tokens, epochs is positive
  int64_t tokens = 0;
  double epochs = 0;
  double max_norm = 1.0;  // 0: no clipping
  // Weights of the loss by the predicted token: a .npy, relative to the TOML's folder; empty: all 1.
  std::string token_weights;
  int64_t seed = 0;
  DeviceKind device = DeviceKind::kCpu;
  bool cuda_graph = false;                        // for small models: one call of the host starts a micro-batch
  DType dtype = DType::kFloat32;                  // or kFloat64, kBFloat16
  DType mixed_precision_param = DType::kFloat32;  // or kBFloat16: the type of products and activations
  int64_t threads = 0;                            // CPU threads of the process; 0: all that it may use
};

struct Parallelism {
  int64_t data_parallel_replicate_degree = 1;  // HSDP: copies of the sharded weights
  int64_t data_parallel_shard_degree = 1;      // ranks that share the weights; resolved: at least 1
  int64_t zero_stage = 1;                      // 1, 2 or 3 (plan/sharding.h)
  bool reduce_once_per_step = false;           // stage 3: fewer messages, for as much gradient memory as stage 1
  int64_t context_parallel_degree = 1;         // ranks that share every sequence
  int64_t tensor_parallel_degree = 1;          // ranks that share every layer
  int64_t pipeline_parallel_degree = 1;        // ranks that have different layers (plan/pipeline_plan.h)
  int64_t expert_parallel_degree = 1;          // ranks that have different experts; cuts no other axis (mesh/mesh.h)
  PipelineSchedule pipeline_parallel_schedule = PipelineSchedule::k1F1B;
  int64_t pipeline_parallel_microbatch_size = 1;   // sequences
  int64_t pipeline_parallel_layers_per_stage = 0;  // 0: one stage per rank, or two if the schedule interleaves
  int64_t pipeline_parallel_first_stage_less_layers = 1, pipeline_parallel_last_stage_less_layers = 1;

  mesh::Degrees degrees() const {
    return {.dp_replicate = data_parallel_replicate_degree,
            .dp_shard = data_parallel_shard_degree,
            .cp = context_parallel_degree,
            .tp = tensor_parallel_degree,
            .pp = pipeline_parallel_degree,
            .ep = expert_parallel_degree};
  }
  int64_t ranks() const { return degrees().size(); }
  // Ranks that read different sequences.
  int64_t data_ranks() const { return data_parallel_replicate_degree * data_parallel_shard_degree; }
  // Ranks that cut the weights of a replica into shards. Tensor and pipeline ranks hold other weights and do not count.
  int64_t shards() const { return data_parallel_shard_degree * context_parallel_degree; }
};

struct Checkpoint {
  std::string folder = "checkpoints";
  int64_t interval = 500;                       // steps; 0: only after the last step
  double interval_seconds = 0;                  // in addition to `interval`; 0: never
  double interval_epochs = 0;                   // in addition to `interval`; 0: never
  AsyncMode async_mode = AsyncMode::kDisabled;  // kAsync: the training waits only for a copy in memory
  int64_t keep_latest_k = 10;                   // 0: all
  int64_t keep_every = 0;                       // steps; 0: none
  int64_t keep_best = 0;                        // this many with the lowest validation loss are kept, too
  std::vector<double> extra_steps;              // whole numbers: after these steps a checkpoint is saved and kept
  bool last_save_model_only = false;            // a smaller last save, from which no run can resume
  DType export_dtype = DType::kFloat32;         // type of the last save's weights; or kBFloat16
  bool last_save_in_hf = false;                 // the last save also writes Hugging Face's format
  // A checkpoint to start from if the run folder has none; relative to the TOML's folder.
  std::string initial_load_path;
  bool initial_load_model_only = true;  // loads only weights and starts at step 0; false: loads everything, a branch
  std::vector<std::string> exclude_from_loading;  // not loaded by a branch: "optimizer", "dataloader", "train_state"
  std::vector<std::string> fresh, drop, freeze;   // patterns of parameter names (plan/name_pattern.h)
};

// [[validation.set]]: documents to measure the loss on, with a name of their own.
struct ValidationSet {
  std::string name;     // names its loss in the log
  std::string path;     // a folder made by `hearth data build`; relative to the TOML's folder
  std::string split{};  // "train", "validation", "test"; empty: "validation", or "train" if nothing was held out
};

struct Validation {
  int64_t freq = 0;                   // steps; 0: never
  int64_t steps = -1;                 // global batches of each set; -1: all
  std::vector<ValidationSet> set;     // empty: the held-out documents of the training data
  std::vector<std::string> generate;  // prompts, or recordings (.npy), that the model continues at each measurement
  int64_t generate_tokens = 64;       // at most this many in each sample
  double generate_temperature = 1;    // 0: always the likeliest token
  int64_t generate_context_bins = 0;  // bins of each recording that the model reads; 0: all
  int64_t mc_num = 128;               // masked_diffusion: draws of hidden tokens for each sequence
};

struct Metrics {
  int64_t log_freq = 10;
  bool enable_tensorboard = false;
  std::string save_tb_folder = "tb";  // relative to the run folder
};

struct Profiling {
  bool enable_profiling = false;
  std::string save_traces_folder = "profile_traces";  // relative to the run folder
  int64_t profile_freq = 10;                          // steps
  int64_t profiler_active = 1;                        // the last steps of each profile_freq that a trace shows
  bool enable_memory_snapshot = false;
  std::string save_memory_snapshot_folder = "memory_snapshot";  // relative to the run folder
};

struct Comm {
  CommBackend backend = CommBackend::kAuto;
  std::string nccl_library{};         // NCCL's or RCCL's file; empty: where the loader finds it
  std::string mpi_library{};          // libhearth_mpi.so of another MPI than the build's; empty: next to the program
  double init_timeout_seconds = 120;  // train_timeout_seconds until the first step has ended
  double train_timeout_seconds = 60;  // a rank that waits longer for others gives up and names the missing ranks
};

// [[data.source]]: one of several datasets that are mixed.
struct DataSource {
  std::string path;       // a folder made by `hearth data build`; relative to the TOML's folder
  double weight = 1;      // relative to the other weights; 0: not used (until a segment changes it)
  double epochs_max = 0;  // a run with more passes over it is refused at the start; 0: no limit
};

// [[data.segment]]: from a given token of the training on, the sources have other weights.
struct DataSegment {
  int64_t from_tokens = 1;      // starts at this token of the training
  std::vector<double> weights;  // one per source, in their order
};

struct Data {
  std::string path;  // a folder made by `hearth data build`; relative to the TOML's folder
  WeightUnit weight_unit = WeightUnit::kTokens;
  WeightRule weight_rule = WeightRule::kSlots;
  DataOrder order = DataOrder::kShuffle;
  Packing packing = Packing::kConcat;
  Stride stride = Stride::kExact;
  OnDamage on_damage = OnDamage::kStop;
  int64_t prefetch_threads = 1;
  int64_t prefetch_steps = 4;
  std::vector<DataSource> source;  // instead of `path`
  std::vector<DataSegment> segment;
};

struct Memory {
  int64_t loss_chunk_tokens = -1;  // logits exist for this many tokens at a time; -1: by the device
  RecomputeChoice recompute = RecomputeChoice::kNone;
  int64_t recompute_layers = -1;  // how many of the first layers recompute; -1: all
  std::string limit;              // memory for tensors, "48 GiB"; empty: all there is
  std::string margin;             // GPU memory that plans leave free: "2 GiB"; empty: by the number of ranks
};

struct Numerics {
  LossAverage loss_average = LossAverage::kGlobal;
  bool stochastic_rounding = false;  // for weights that are kept in bfloat16
  bool fp8 = false;                  // linear layers multiply in 8-bit floating point
  Fp8Recipe fp8_recipe = Fp8Recipe::kRowwiseHpWgrad;
  bool reproducible = false;          // same bits for any power of two of ranks; costs memory and messages
  Policy nan_policy = Policy::kStop;  // kOff is not allowed
  Policy spike_policy = Policy::kOff;
  double spike_deviations = 6;  // a loss this many standard deviations above the mean of a window is a spike
  int64_t spike_window = 128;   // steps in that window
  int64_t skip_limit = 20;      // skipped updates in a row before the run stops
  int64_t rewind_limit = 3;     // rewinds in the whole run before it stops

  std::optional<Fp8Recipe> float8() const { return fp8 ? std::optional(fp8_recipe) : std::nullopt; }
};

struct RunConfig {
  Job job;
  Model model;
  Objective objective;
  Optimizer optimizer;
  LrScheduler lr_scheduler;
  Training training;
  Parallelism parallelism;
  Checkpoint checkpoint;
  Validation validation;
  Metrics metrics;
  Profiling profiling;
  Comm comm;
  Data data;
  Memory memory;
  Numerics numerics;

  // Relative paths start here: the TOML's folder. Not a key.
  Path base_folder = ".";
  Path run_folder() const { return join_path(base_folder, job.dump_folder); }
  Path checkpoint_folder() const { return join_path(run_folder(), checkpoint.folder); }
  // The training datasets: data.source, or the single data.path. May be empty.
  std::vector<DataSource> sources() const {
    return data.source.empty() && !data.path.empty() ? std::vector<DataSource>{{data.path}} : data.source;
  }
  Path resolve(const std::string& path) const { return join_path(base_folder, path); }
  // Only if it is given. The folder of an hf: name is the one that `hearth fetch` fills.
  Path initial_load_path() const;
};

}  // namespace hearth::config
