// SPDX-License-Identifier: Apache-2.0
// Saving, by R ranks. The order of calls, each rank in its own process or thread:
//
//   rank 0:     begin_save(temporary)                        the folder, new and empty
//   barrier
//   every rank: items = write_rank_file(temporary, rank, pieces)
//   rank 0 gathers the strings (Control::gather)
//   rank 0:     commit(temporary, final_folder_of(temporary), gathered, manifest)
//
// When commit() returns, every byte was fsynced, read back and compared with memory (checkpoint/read_back.h), and the
// folder has its final name.
// After an exception there is no new folder of that name, and an older one is still there.
//
// A store (s3://) cannot rename. There the temporary folder is also the final one, and it becomes a checkpoint when its
// last object, hearth.json, is written. The folder's name is new (checkpoint/step_folder.h), so nothing is removed
// before a save. remove_older_saves() (checkpoint/retain.h) removes older saves of the same step after the new one is
// whole.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_folder.h"
#include "formats/scalar.h"
#include "mesh/tensor_box.h"

namespace hearth::checkpoint {

// Local. Makes the parents, removes the rest of an interrupted save of this name, creates the folder. Sends nothing to
// a store.
void begin_save(const Path& temporary);

std::string rank_file_name(int64_t rank);  // __R_<rank>.distcp

// Local. Writes `pieces` as the rank's file, fsyncs it, reads it back and compares. Returns the list of its items for
// commit(). A rank without pieces writes no file and returns an empty list. The same piece (name and box) must come
// from one rank only. Throws an Error between two pieces if `stop` asks for it.
std::string write_rank_file(const Path& temporary, int64_t rank, std::span<const mesh::TensorPiece> pieces,
                            const std::stop_token& stop = {});

// The list of a file's items that write_rank_file would return.
struct ItemOf {
  mesh::TensorInfo info;
  formats::Item item;
};
std::string list_of_items(const std::string& file, std::span<const ItemOf> items);

// Throws the Error of write_rank_file if `stop` asks for it.
void check_stop(const Path& temporary, const std::stop_token& stop);

// Writes the same file piece by piece. Use it where a rank's pieces do not fit into memory together.
class RankFile {
 public:
  RankFile(const Path& temporary, int64_t rank);  // creates the file
  ~RankFile();
  RankFile(RankFile&&) noexcept;
  void add(const mesh::TensorPiece& piece);
  // A value that is no tensor. Only for write_metadata(): our own checkpoints have none.
  void add(const std::string& name, const formats::Scalar& value);
  // Fsyncs, reads back, compares. Returns the list of the items for commit().
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Local. Writes `.metadata` alone, in place of commit(): the folder is then a checkpoint of PyTorch's. It keeps its
// name.
void write_metadata(const Path& folder, std::span<const std::string> rank_items);

// Local, rank 0, after all ranks' write_rank_file. Checks that the items cover every tensor exactly once, writes the
// tokenizer's copy, `.metadata` and hearth.json, fsyncs, reads back, and renames TEMPORARY to FINAL. An existing FINAL
// (the same step, saved before) is replaced. After a crash in between, remove_leftovers() restores it. `before_rename`
// may throw: nothing is renamed then, and in a store hearth.json is not written.
void commit(const Path& temporary, const Path& final_folder, std::span<const std::string> rank_items, Manifest manifest,
            const std::function<void()>& before_rename = {});

}  // namespace hearth::checkpoint
