// SPDX-License-Identifier: Apache-2.0
// Writes a model in each kind's files. The folder exists and is empty; every file is fsynced. The file that makes the
// folder a model comes last, after check_source(): a store shows the folder before it is whole.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/manifest.h"
#include "checkpoint/save.h"
#include "convert/description.h"
#include "convert/nxd.h"
#include "convert/source.h"
#include "convert/transfer.h"
#include "plan/optimizer/lr_schedule.h"
#include "tokenizer/tokenizer.h"

namespace hearth::convert {

// What a target gets.
struct TargetModel {
  checkpoint::Reader& reader;
  const Description& description;                   // of the target; rope_pairs is the order that the reader gives
  DType dtype;                                      // of most weights
  std::vector<Transfer> tensors;                    // Hearth's names, in the order of the model
  const tokenizer::Tokenizer* tokenizer = nullptr;  // null: none is known
  std::string origin;                               // the source's folder, for the card
  int64_t max_file_bytes = 0;                       // of Hugging Face's files
  QkvLayout qkv_layout = QkvLayout::kSlots;         // of GPT-NeoX's files
  int64_t tensor_parallel = 1;                      // number of ranks that files of Meta, GPT-NeoX and NxD are for
  int64_t pipeline_parallel = 1;                    // number of stages that files of GPT-NeoX and NxD are for
  int64_t data_parallel = 1;                        // ranks that share the optimizer's state of GPT-NeoX or NxD
  NxdLayout nxd = {};                               // of NxD's files
  const TrainingState* training = nullptr;          // its moments are then among `tensors`; null: weights only
  const config::RunConfig* run = nullptr;           // the training's keys; null: not known
  std::string chat_template = {};                   // tokenizer/formats/chat_template.h; empty: none
  bool is_published = false;                        // a native target does not say where it was written
};

// Each returns notes for the console.
std::vector<std::string> write_hugging_face(const Path& folder, const TargetModel& model, ConvertProgress& progress);
std::vector<std::string> write_meta(const Path& folder, const TargetModel& model, ConvertProgress& progress);
std::vector<std::string> write_dcp(const Path& folder, const TargetModel& model, ConvertProgress& progress);
std::vector<std::string> write_torchtitan(const Path& folder, const TargetModel& model, ConvertProgress& progress);
std::vector<std::string> write_neox(const Path& folder, const TargetModel& model, ConvertProgress& progress);
std::vector<std::string> write_nxd(const Path& folder, const TargetModel& model, ConvertProgress& progress);
// For write_torchtitan with a training's state. join_moments replaces the moments of queries, keys and values in
// model.tensors by one tensor. add_torchtitan_state writes the rest of the state. Both throw user_error for a state
// that torchtitan's AdamW cannot store.
void join_moments(TargetModel& model);
std::vector<std::string> add_torchtitan_state(checkpoint::RankFile& file, const TargetModel& model);
// For write_neox with a training's state: the optimizer's files of one stage and rank of tensor parallel, the learning
// rate schedule in a rank's state, and the keys that continue the training in GPT-NeoX. check_neox_state throws
// user_error for a state that its AdamW or its schedule cannot store, and returns notes.
std::vector<std::string> check_neox_state(const TargetModel& model);
void write_neox_optimizer(const Path& step_folder, const TargetModel& model, int64_t stage, int64_t rank,
                          ConvertProgress& progress);
PythonDict neox_scheduler(const TargetModel& model);
void add_neox_training(nlohmann::ordered_json& keys, const TargetModel& model);
// Bytes of all files of the optimizer.
int64_t neox_optimizer_bytes(const TargetModel& model);
// For write_nxd with a training's state, in a step's folder: the optimizer's files of all ranks, and the counts of the
// training script. check_nxd_state throws user_error for a state that NxD's AdamW cannot store, and returns notes.
std::vector<std::string> check_nxd_state(const TargetModel& model);
int64_t nxd_optimizer_bytes(const TargetModel& model);
void write_nxd_optimizer(const Path& step_folder, const TargetModel& model, ConvertProgress& progress);

// Throws user_error unless ranks of tensor parallel divide the model. `has_copies`: several ranks may have one key.
void require_ranks(const plan::ModelShape& shape, int64_t ranks, bool has_copies);
// For folders of `program`, which have no tokenizer.
void note_missing_tokenizer(const TargetModel& model, std::string_view program, std::vector<std::string>& notes);

// For targets with a training's state. Throws user_error unless there are moments of AdamW for each of `parameters`.
// `program`: the program that needs them.
void require_moments(const TargetModel& model, const std::vector<std::string>& parameters, std::string_view program);
// The weights that have moments, in the model's order.
std::vector<std::string> trained_weights(const TargetModel& model);
// These weights' tensors in float32, as the optimizer has them. `name` maps a weight's name to the tensor's name.
std::vector<Transfer> in_float32(const TargetModel& model, std::string (*name)(const std::string& parameter));
// The updates that the moments of `parameters` have seen. Throws user_error where their numbers differ: `why` that is
// one.
int64_t common_updates(const TargetModel& model, std::span<const std::string> parameters, const std::string& why);
// The updates that the moments of all weights have seen. Throws user_error where weights have none, or other numbers.
int64_t updates_of_all_weights(const TargetModel& model, std::string_view program);
// Weight decay. Throws user_error for settings of the optimizer that differ further.
struct Decay {
  double matrices = 0, norms = 0;
};
Decay decay_of(const TargetModel& model, std::string_view program);
// The schedule of the training's keys. Throws user_error where only the data have its length.
plan::LrSchedule schedule_of(const TargetModel& model);
// The rate of the next step, before a group's factor. Throws as schedule_of does, where the source does not have it.
double next_rate(const TargetModel& model);

// `before`: the source's manifest, where it has one. The folder becomes `final_folder`, after `before_rename`.
std::vector<std::string> write_native(const Path& folder, const Path& final_folder, const TargetModel& model,
                                      const checkpoint::Manifest* before, ConvertProgress& progress,
                                      const std::function<void()>& before_rename);

// Throws damaged() if the elements that were read are not those that the source's checksums stand for.
void check_source(const TargetModel& model);

// Creates a file of text and fsyncs it.
void write_text_file(const Path& path, std::string_view text);

}  // namespace hearth::convert
