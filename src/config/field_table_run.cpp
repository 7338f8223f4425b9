// SPDX-License-Identifier: Apache-2.0
// The rows of a training, its data and its machine, and those of lists.
#include "config/field_row.h"

namespace hearth::config {

// clang-format off
void add_training(FieldTable& t) {
  t.section("training", &RunConfig::training, {
    {"seq_len", &Training::seq_len, kRefuse, "tokens", "length of a sequence", between(1, 1 << 24)},
    {"local_batch_size", &Training::local_batch_size, kMayChange, "sequences",
     "sequences that a rank computes at a time", between(1, 1 << 20)},
    {"global_batch_size", &Training::global_batch_size, kMayChange, "sequences",
     "sequences of a step over all ranks; gradients accumulate until it is reached; -1 means local_batch_size on each "
     "rank, once", or_special(-1, between(1, 1 << 30))},
    {"steps", &Training::steps, kMayChange, "steps",
     "length of the training; give exactly one of steps, tokens and epochs", at_least(0)},
    {"tokens", &Training::tokens, kMayChange, "tokens",
     "length of the training, rounded up to whole steps", at_least(0)},
    {"epochs", &Training::epochs, kMayChange, "epochs",
     "length of the training, passes over the data, rounded up to whole steps", between(0, 1e9)},
    {"max_norm", &Training::max_norm, kMayChange, "",
     "gradients are scaled down to this global norm; 0 means no clipping", at_least(0)},
    {"token_weights", &Training::token_weights, kMayChange, "",
     "a .npy with the weight of each id in the training loss (hearth data stats --token-weights); weight 0: the id "
     "does not count"},
    {"seed", &Training::seed, kRefuse, "", "of the initial weights and the order of the data", at_least(0)},
    {"device", &Training::device, kMayChange, "",
     "the device: the CPU, or a GPU, NVIDIA's or AMD's, which \"cuda\" stands for as in PyTorch"},
    {"cuda_graph", &Training::cuda_graph, kMayChange, "",
     "a micro-batch's forward and backward are recorded as a CUDA graph and started by one call: for models so small "
     "that a GPU waits for the host", {}, {is("training.device", DeviceKind::kCuda)}},
    {"dtype", &Training::dtype, kRefuse, "",
     "element type of the weights; gradients are at least float32, moments too unless optimizer.moments_dtype is "
     "given"},
    {"mixed_precision_param", &Training::mixed_precision_param, kMayChange, "",
     "element type in which weights and activations are multiplied; sums stay float32; on a GPU the default is "
     "bfloat16 where nothing is given", one_of(DType::kFloat32, DType::kBFloat16)},
    {"threads", &Training::threads, kMayChange, "threads",
     "CPU threads; 0 means all that the process may use; another number changes the last bits of the results",
     between(0, 4096)},
  });
}

void add_parallelism(FieldTable& t) {
  const Condition piped = is_not("parallelism.pipeline_parallel_degree", 1);
  t.section("parallelism", &RunConfig::parallelism, {
    {"data_parallel_replicate_degree", &Parallelism::data_parallel_replicate_degree, kMayChange, "copies",
     "copies of the sharded weights (HSDP): each set of data_parallel_shard_degree ranks holds one, and only sums of "
     "gradient shards go between them", between(1, 1 << 20)},
    {"data_parallel_shard_degree", &Parallelism::data_parallel_shard_degree, kMayChange, "ranks",
     "processes that share the weights and the batch; -1, or no value: as many as were started (--ranks, srun, mpirun, "
     "torchrun)", between(-1, 1 << 20)},
    {"zero_stage", &Parallelism::zero_stage, kMayChange, "",
     "what ranks hold only a shard of (ZeRO): 1: moments; 2: gradients, too; 3: weights, too, as in torchtitan's FSDP. "
     "A higher stage takes less memory and communicates more", between(1, 3)},
    {"reduce_once_per_step", &Parallelism::reduce_once_per_step, kMayChange, "",
     "ranks add up the gradients of a step's micro-batches whole, and reduce them once (FSDP's no_sync): less traffic, "
     "and as much memory for gradients as with stage 1", {}, {is("parallelism.zero_stage", 3)}},
    {"context_parallel_degree", &Parallelism::context_parallel_degree, kMayChange, "ranks",
     "ranks that share every sequence, for long windows: each has some positions, and in attention some heads "
     "(DeepSpeed-Ulysses); ranks beyond the number of heads gather keys and values. They share weights as "
     "data_parallel_shard_degree ranks do", between(1, 1 << 20)},
    {"tensor_parallel_degree", &Parallelism::tensor_parallel_degree, kMayChange, "ranks",
     "ranks that share every layer (tensor and sequence parallel): each has some heads, a part of the feed-forward and "
     "of the vocabulary. They communicate in every layer: keep them in one node", between(1, 1 << 20)},
    {"pipeline_parallel_degree", &Parallelism::pipeline_parallel_degree, kMayChange, "ranks",
     "ranks that have different layers (pipeline parallel): they hand on micro-batches and communicate least, so they "
     "may be on different nodes", between(1, 1 << 20)},
    {"expert_parallel_degree", &Parallelism::expert_parallel_degree, kMayChange, "ranks",
     "ranks that have different experts, each as a whole; tokens are sent to the ranks of their experts. It divides "
     "data_parallel_shard_degree x context_parallel_degree x tensor_parallel_degree, whose ranks it shares, and "
     "model.num_experts. 1: all ranks have all experts, and tensor_parallel_degree cuts each", between(1, 1 << 20),
     {is_not("model.num_experts", 0)}},
    {"pipeline_parallel_schedule", &Parallelism::pipeline_parallel_schedule, kMayChange, "",
     "the order of forwards and backwards: 1F1B takes less memory than GPipe; Interleaved1F1B has several stages per "
     "rank and waits less; InterleavedZeroBubble also fills waits with gradients of weights, and needs zero_stage = 1",
     {}, {piped}},
    {"pipeline_parallel_microbatch_size", &Parallelism::pipeline_parallel_microbatch_size, kMayChange, "sequences",
     "what a pipeline hands on at once: local_batch_size sequences pass through it in micro-batches of this size",
     between(1, 1 << 20), {piped}},
    {"pipeline_parallel_layers_per_stage", &Parallelism::pipeline_parallel_layers_per_stage, kMayChange, "layers",
     "layers of a stage, at most, where embedding and output count as the next two keys say; each rank has as few "
     "stages as that allows; 0 means one stage per rank, and two for Interleaved1F1B and InterleavedZeroBubble",
     between(0, 1 << 20), {piped}},
    {"pipeline_parallel_first_stage_less_layers", &Parallelism::pipeline_parallel_first_stage_less_layers, kMayChange,
     "layers", "layers that the first stage has less, for its token embedding", between(0, 1 << 20), {piped}},
    {"pipeline_parallel_last_stage_less_layers", &Parallelism::pipeline_parallel_last_stage_less_layers, kMayChange,
     "layers", "layers that the last stage has less, for its output matrix", between(0, 1 << 20), {piped}},
  });
}

void add_checkpoint(FieldTable& t) {
  const Condition loads = given("checkpoint.initial_load_path");
  t.section("checkpoint", &RunConfig::checkpoint, {
    {"folder", &Checkpoint::folder, kMayChange, "",
     "where checkpoints go, relative to the run folder; or s3://BUCKET/FOLDER"},
    {"interval", &Checkpoint::interval, kMayChange, "steps",
     "between checkpoints; 0 means only the last step", at_least(0)},
    {"interval_seconds", &Checkpoint::interval_seconds, kMayChange, "s",
     "between checkpoints, in addition to interval; 0 means never", at_least(0)},
    {"interval_epochs", &Checkpoint::interval_epochs, kMayChange, "epochs",
     "between checkpoints, in addition to interval: after the step that ends each such part; an epoch is that of "
     "training.epochs, every sequence of all sources once; 0 means never", at_least(0)},
    {"extra_steps", &Checkpoint::extra_steps, kMayChange, "steps",
     "further steps after which there is a checkpoint; these are never deleted", at_least(0)},
    {"async_mode", &Checkpoint::async_mode, kMayChange, "",
     "async: the training waits while its state is copied in the host's memory, and goes on while the copy is written; "
     "disabled: it waits until the checkpoint is written and verified"},
    {"keep_latest_k", &Checkpoint::keep_latest_k, kMayChange, "checkpoints",
     "newest checkpoints to keep; older ones are deleted, but never the last verified one; 0 keeps all", at_least(0)},
    {"keep_every", &Checkpoint::keep_every, kMayChange, "steps",
     "checkpoints of steps that this number divides are kept, too; 0 means none", at_least(0),
     {is_not("checkpoint.keep_latest_k", 0)}},
    {"keep_best", &Checkpoint::keep_best, kMayChange, "checkpoints",
     "checkpoints with the lowest validation losses are kept, too: of those whose step was also validated", at_least(0),
     {is_not("checkpoint.keep_latest_k", 0), is_not("validation.freq", 0)}},
    {"last_save_model_only", &Checkpoint::last_save_model_only, kMayChange, "",
     "the checkpoint of the run's last step has the weights alone: a longer training cannot go on from it, only start "
     "from its weights"},
    {"export_dtype", &Checkpoint::export_dtype, kMayChange, "",
     "element type of the weights in that checkpoint, rounded to nearest", one_of(DType::kFloat32, DType::kBFloat16),
     {is("checkpoint.last_save_model_only", true)}},
    {"last_save_in_hf", &Checkpoint::last_save_in_hf, kMayChange, "",
     "that checkpoint is also written in Hugging Face's format, in a folder next to it: its name and -hf", {},
     {is("checkpoint.last_save_model_only", true)}},
    {"initial_load_path", &Checkpoint::initial_load_path, kNoEffect, "",
     "a checkpoint folder, ours, PyTorch's, Hugging Face's or Meta's, or a run folder for its newest one, to start "
     "from if the run has none; relative to the run file's folder"},
    {"initial_load_model_only", &Checkpoint::initial_load_model_only, kNoEffect, "",
     "take its weights only and start at step 0; false takes optimizer, step and data position too: a branch", {},
     {loads}},
    {"exclude_from_loading", &Checkpoint::exclude_from_loading, kNoEffect, "",
     "states that a branch does not load: the optimizer's moments, the position in the data, the step",
     one_of({"optimizer", "dataloader", "train_state"}), {is("checkpoint.initial_load_model_only", false)}},
    {"fresh", &Checkpoint::fresh, kNoEffect, "",
     "parameters that start from initial values, not from initial_load_path: names, their beginnings, or with * for "
     "any characters", {}, {loads}},
    {"drop", &Checkpoint::drop, kNoEffect, "",
     "weights of initial_load_path that the model lacks and that are left out, by the same patterns", {}, {loads}},
    {"freeze", &Checkpoint::freeze, kRefuse, "",
     "parameters that are not trained, by the same patterns; they take no memory for moments"},
  });
}

void add_run(FieldTable& t) {
  const Condition validates = is_not("validation.freq", 0);
  t.section("validation", &RunConfig::validation, {
    {"freq", &Validation::freq, kMayChange, "steps",
     "between measurements on the held-out documents, and at step 0; 0 means never", at_least(0)},
    {"steps", &Validation::steps, kMayChange, "global batches",
     "how much of each set is measured; -1 means all of it", or_special(-1, at_least(1)), {validates}},
    {"generate", &Validation::generate, kMayChange, "",
     "prompts that the model continues at each measurement, or recordings (.npy, relative to this file); the samples "
     "stand in the log and in the report", {}, {validates}},
    {"generate_tokens", &Validation::generate_tokens, kMayChange, "tokens",
     "of each sample, at most", at_least(1), {given("validation.generate")}},
    {"generate_temperature", &Validation::generate_temperature, kMayChange, "",
     "of the samples; 0 takes the likeliest token each time", at_least(0), {given("validation.generate")}},
    {"generate_context_bins", &Validation::generate_context_bins, kMayChange, "time bins",
     "of each recording, which the model reads and continues; the report shows the bins after them next to the "
     "model's; 0 means all", at_least(0), {given("validation.generate")}},
    {"mc_num", &Validation::mc_num, kMayChange, "",
     "masked_diffusion: draws of hidden tokens for each sequence; the loss is their mean, a bound of the text's",
     between(1, 1 << 20), {validates, is("objective.kind", ObjectiveKind::kMaskedDiffusion)}},
  });
  t.section("metrics", &RunConfig::metrics, {
    {"log_freq", &Metrics::log_freq, kMayChange, "steps",
     "between lines of output, if the output is not a terminal, and between points in TensorBoard's files",
     at_least(1)},
    {"enable_tensorboard", &Metrics::enable_tensorboard, kMayChange, "",
     "also write the metrics as TensorBoard's event files, with torchtitan's tags"},
    {"save_tb_folder", &Metrics::save_tb_folder, kMayChange, "",
     "the folder of these files, relative to the run folder", {}, {is("metrics.enable_tensorboard", true)}},
  });
  t.section("profiling", &RunConfig::profiling, {
    {"enable_profiling", &Profiling::enable_profiling, kMayChange, "",
     "write traces of some steps, one file a rank, for Perfetto or chrome://tracing"},
    {"save_traces_folder", &Profiling::save_traces_folder, kMayChange, "",
     "the folder of the traces, relative to the run folder", {}, {is("profiling.enable_profiling", true)}},
    {"profile_freq", &Profiling::profile_freq, kMayChange, "steps",
     "between traces or snapshots; each is of a step that this number divides, and a trace also of those before it",
     at_least(1), {either_is("profiling.enable_profiling", "profiling.enable_memory_snapshot", true)}},
    {"profiler_active", &Profiling::profiler_active, kMayChange, "steps",
     "that a trace shows", at_least(1), {is("profiling.enable_profiling", true)}},
    {"enable_memory_snapshot", &Profiling::enable_memory_snapshot, kMayChange, "",
     "write what the memory of a rank is used for, beside the plan's figures, every profile_freq steps"},
    {"save_memory_snapshot_folder", &Profiling::save_memory_snapshot_folder, kMayChange, "",
     "the folder of these files, relative to the run folder", {}, {is("profiling.enable_memory_snapshot", true)}},
  });
  t.section("comm", &RunConfig::comm, {
    {"backend", &Comm::backend, kMayChange, "",
     "how tensors go between ranks: through one host's memory or MPI on CPUs, through NCCL (or RCCL) on GPUs; auto "
     "takes NCCL on GPUs, and the memory where all ranks share a host"},
    {"nccl_library", &Comm::nccl_library, kMayChange, "",
     "the file of NCCL or RCCL; none: libnccl.so.2 or librccl.so.1, where the loader finds it"},
    {"mpi_library", &Comm::mpi_library, kMayChange, "",
     "Hearth's libhearth_mpi.so for another MPI than the build's; none: the one next to the program"},
    {"init_timeout_seconds", &Comm::init_timeout_seconds, kMayChange, "s",
     "all ranks have to start within this time; before the first step has ended, a rank that waits longer for the "
     "others gives up; one that reads or writes files is waited for", above(0)},
    {"train_timeout_seconds", &Comm::train_timeout_seconds, kMayChange, "s",
     "a rank that waits longer for the others gives up and names the missing ranks", above(0)},
  });
}

void add_data(FieldTable& t) {
  t.section("data", &RunConfig::data, {
    {"path", &Data::path, kMayChange, "",
     "a folder made by hearth data build; relative to the run file's folder; it may move, its content may not change"},
    {"weight_unit", &Data::weight_unit, kMayChange, "",
     "the unit of the sources' shares; documents: a source with longer documents gives more tokens", {},
     {given("data.source")}},
    {"weight_rule", &Data::weight_rule, kRefuse, "",
     "the order of sources in a mixture: slots spreads each evenly; neox is GPT-NeoX's rule", {},
     {given("data.source")}},
    {"order", &Data::order, kRefuse, "",
     "the order of sequences: shuffle needs no table; neox is GPT-NeoX's order; sequential is that of the dataset, the "
     "same in each epoch"},
    {"packing", &Data::packing, kRefuse, "",
     "the packing of documents: concat cuts them at sequence ends; best_fit cuts only documents longer than a "
     "sequence, and pads"},
    {"stride", &Data::stride, kRefuse, "",
     "where sequences start: exact predicts every token once a pass; torchtitan leaves out the first of each sequence "
     "and, as neox does, an end that fills none"},
    {"on_damage", &Data::on_damage, kMayChange, "",
     "the reaction to a damaged block: stop the run and name the block, or substitute another sequence and log it"},
    {"prefetch_threads", &Data::prefetch_threads, kMayChange, "threads",
     "threads per rank that read batches ahead", between(1, 256)},
    {"prefetch_steps", &Data::prefetch_steps, kMayChange, "steps", "batches to read ahead at most", between(1, 10000)},
  });
}

void add_machine(FieldTable& t) {
  const Condition spikes = is_not("numerics.spike_policy", Policy::kOff);
  t.section("memory", &RunConfig::memory, {
    {"loss_chunk_tokens", &Memory::loss_chunk_tokens, kMayChange, "tokens",
     "logits exist for this many tokens at a time; -1 means 1024 on a CPU, and on a GPU as many as 1 GiB holds, from "
     "1024 to 8192", or_special(-1, between(1, 1 << 30))},
    {"recompute", &Memory::recompute, kMayChange, "",
     "activations that backward computes again, with the same bits, to save memory: outputs of norms and SwiGLU "
     "(nearly free), attention as well, or whole blocks; auto takes the cheapest that fits"},
    {"recompute_layers", &Memory::recompute_layers, kMayChange, "layers",
     "that recompute, from the first on; -1 means all", or_special(-1, at_least(0)),
     {is_not("memory.recompute", RecomputeChoice::kNone, RecomputeChoice::kAuto)}},
    {"limit", &Memory::limit, kMayChange, "",
     "memory for the tensors of all ranks of this machine, such as 48 GiB; empty means the machine's memory"},
    {"margin", &Memory::margin, kMayChange, "",
     "memory of a GPU that a plan leaves free, such as 2 GiB; empty means 0.5 GiB for one GPU, 2 GiB for up to 8, and "
     "4 GiB for more"},
  });
  t.section("numerics", &RunConfig::numerics, {
    {"loss_average", &Numerics::loss_average, kMayChange, "",
     "global: every label of a step weighs the same; per_rank: the mean of the means of all ranks and micro-batches, "
     "as torchtitan's"},
    {"stochastic_rounding", &Numerics::stochastic_rounding, kMayChange, "",
     "weights and moments in bfloat16 are rounded up or down at random: small changes count on average", {},
     {is("training.dtype", DType::kBFloat16)}},
    {"fp8", &Numerics::fp8, kMayChange, "",
     "linear layers, but not the output matrix, multiply in float8 (E4M3, a factor for each row)"},
    {"fp8_recipe", &Numerics::fp8_recipe, kMayChange, "",
     "rowwise_hp_wgrad: a layer's output and its input's gradient; rowwise: its weight's gradient as well, on NVIDIA's "
     "Hopper", {}, {is("numerics.fp8", true)}},
    {"reproducible", &Numerics::reproducible, kMayChange, "",
     "training gives the same bits for 1, 2, 4, ... ranks of as many threads each, at one local_batch_size; costs "
     "memory and communication"},
    {"nan_policy", &Numerics::nan_policy, kMayChange, "",
     "the reaction to a loss or gradient that is NaN or infinite: stop the run, skip the update, or rewind to the last "
     "checkpoint and continue after the data of this step", one_of(Policy::kStop, Policy::kSkip, Policy::kRewind)},
    {"spike_policy", &Numerics::spike_policy, kMayChange, "",
     "the reaction to a loss or gradient norm far above those of earlier steps; off: the update is applied"},
    {"spike_deviations", &Numerics::spike_deviations, kMayChange, "",
     "the limit for a spike: standard deviations above the mean of the last spike_window steps", above(0, 1e6),
     {spikes}},
    {"spike_window", &Numerics::spike_window, kMayChange, "steps",
     "applied steps that a step is compared with; there are no spikes until half of them exist", between(2, 100000),
     {spikes}},
    {"skip_limit", &Numerics::skip_limit, kMayChange, "steps",
     "skipped updates in a row; one more stops the run", at_least(1),
     {either_is("numerics.nan_policy", "numerics.spike_policy", Policy::kSkip)}},
    {"rewind_limit", &Numerics::rewind_limit, kMayChange, "",
     "rewinds of a run; one more stops it", at_least(1),
     {either_is("numerics.nan_policy", "numerics.spike_policy", Policy::kRewind)}},
  });
}

void add_lists(FieldTable& t) {
  t.list("optimizer.group", &RunConfig::optimizer, &Optimizer::group, {
    {"pattern", &OptimizerGroup::pattern, kMayChange, "",
     "of parameter names, or their beginnings: *norm*, layers.0, output"},
    {"lr_factor", &OptimizerGroup::lr_factor, kMayChange, "", "factor of the learning rate", between(0, 1e6)},
    {"weight_decay", &OptimizerGroup::weight_decay, kMayChange, "",
     "replaces optimizer.weight_decay and weight_decay_on; -1 means as without the group",
     or_special(-1, between(0, 100))},
  });
  t.list("validation.set", &RunConfig::validation, &Validation::set, {
    {"name", &ValidationSet::name, kMayChange, "",
     "its loss is called validation_loss.NAME in the log; letters, digits, - and _"},
    {"path", &ValidationSet::path, kMayChange, "", "a folder made by hearth data build"},
    {"split", &ValidationSet::split, kMayChange, "",
     "its split; empty means validation, or train if no documents were held out",
     one_of({"", "train", "validation", "test"})},
  });
  t.list("data.source", &RunConfig::data, &Data::source, {
    {"path", &DataSource::path, kMayChange, "",
     "a folder made by hearth data build; relative to the run file's folder; it may move, its content may not change"},
    {"weight", &DataSource::weight, kMayChange, "",
     "its weight relative to the other sources, on any scale; 0: not used, or only by a segment", between(0, 1e15)},
    {"epochs_max", &DataSource::epochs_max, kMayChange, "epochs",
     "passes over it at most; a run with more is refused before it starts; 0 means no limit", between(0, 1e9)},
  });
  t.list("data.segment", &RunConfig::data, &Data::segment, {
    {"from_tokens", &DataSegment::from_tokens, kMayChange, "tokens",
     "the segment's weights apply after this many tokens of the training, rounded up to whole sequences", at_least(1)},
    {"weights", &DataSegment::weights, kMayChange, "",
     "one per source, in their order; they replace the sources' weights", between(0, 1e15)},
  });
}
// clang-format on

std::span<const Field> list_fields() {
  static const std::vector<Field> all = [] {
    FieldTable table;
    add_lists(table);
    return std::move(table.fields);
  }();
  return all;
}

}  // namespace hearth::config
