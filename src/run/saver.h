// SPDX-License-Identifier: Apache-2.0
// Saves the state of a training as checkpoints, at once or behind the training (checkpoint.async_mode).
//
// Behind: save() waits for the previous save, copies this rank's state and returns. This costs memory for the copy. A
// thread of each rank writes the copy. In their notes about steps (train/step_note.h) ranks tell each other how far
// they have written. When all have, advance() sends the lists of items to rank 0, whose thread completes the
// checkpoint. Only finish() waits for a disk. Every checkpoint is whole under its final name or not there, as with a
// save at once.
//
// An error of a thread is thrown by the next call on its rank.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "parallel/sharded_weights.h"
#include "run/snapshot.h"
#include "runfolder/lease.h"

namespace hearth::run {

class Saver {
 public:
  struct Options {
    Path checkpoints;
    std::optional<runfolder::Lease> lease = std::nullopt;      // of rank 0
    std::optional<checkpoint::KeepRules> keep = std::nullopt;  // applied after each save; empty: all checkpoints stay
    bool behind = false;
  };
  // Borrows `weights`. Behind: allocates the copy. Local.
  Saver(const parallel::ShardedWeights& weights, Options options);
  // Waits for the threads, which stop at their next piece.
  ~Saver();
  Saver(const Saver&) = delete;

  // Saves CHECKPOINTS/step-N, N = manifest.step, whose other fields the caller has filled in. At once: the checkpoint
  // has been read back and has its name when this returns. If this throws, the earlier checkpoints are unchanged.
  // `weights_as`: the weights alone, in this type; none: the whole state. Collective.
  void save(checkpoint::Manifest manifest, std::optional<DType> weights_as = std::nullopt);
  // The step of the last save whose part this rank has written; 0: none. Local.
  int64_t written_step();
  // Tells that all ranks have written their parts of all saves up to this step. Collective.
  void advance(int64_t written_step);
  // Returns when the last save has its name. Collective.
  void finish();

  // The folder that the last save()'s checkpoint has, or will have. Local.
  const Path& folder() const { return saved_.folder; }

  // A checkpoint that has its name.
  struct Saved {
    Path folder;
    double seconds = 0, waited_s = 0;  // time since the beginning of the save; time that the training waited for it
  };
  // The checkpoint that was completed since the last call, if this rank knows of one. Behind, only rank 0 knows before
  // finish(). Local.
  std::optional<Saved> completed();

 private:
  enum class Phase { kIdle, kWriting, kCommitting };
  void start(std::function<void(const std::stop_token&)> work);
  bool has_ended() const;  // whether wait() does not wait
  void wait();             // for the thread; throws its error
  void gather();           // the items of all ranks; rank 0 begins to commit. Collective

  const parallel::ShardedWeights& weights_;
  comm::Control& control_;
  const Options options_;
  Snapshot snapshot_;
  Phase phase_ = Phase::kIdle;     // of this rank's thread
  bool is_open_ = false;           // between save() and finish(), which all ranks enter together
  checkpoint::Manifest manifest_;  // of the save under way
  checkpoint::SaveNumber number_;  // of the save under way; rank 0 knows it
  Path temporary_;
  std::string items_;  // that this rank has written
  int64_t written_step_ = 0;
  std::future<void> done_;  // of the thread
  double begin_s_ = 0;
  Saved saved_;
  std::optional<Saved> completed_;
  std::jthread thread_;  // the last member: it uses the others until it has ended
};

// Saves once, at once. Collective.
void save_state(const parallel::ShardedWeights& weights, const Path& checkpoints, checkpoint::Manifest manifest);

}  // namespace hearth::run
