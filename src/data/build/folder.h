// The folder that a build writes to: what is there already, and how it becomes a dataset.
#pragma once

#include <memory>

#include "data/build/plan.h"

namespace hearth::data {

class BuildFolder {
 public:
  BuildFolder(const BuildOptions& options, const BuildPlan& plan) : options_(options), plan_(plan) {}

  // True if the folder holds this very dataset, whole: every shard is read. `manifest`, of which the plan's half is
  // filled in, then is the one on disk. A manifest that names other paths of the same files is corrected.
  bool complete(Manifest& manifest);

  // Throws user_error if the folder holds another build, finished or not.
  void refuse_other_build() const;

  // Makes the folder and locks it; from here to finish() it holds no dataset. Removes what an interrupted write left,
  // and shards of another build.
  void open_for_writing();

  // Removes shards that the manifest does not name, then writes it.
  void finish(const Manifest& manifest);

 private:
  std::string manifest_name() const;  // the whole's, or the part's
  std::string tokenizer_temporary() const;
  Path lock_path() const;
  bool is_ours(const std::string& name) const;  // a shard, or the rest of one, that no other part may have made
  std::string find_other_build() const;         // the name of a file that shows it; empty: not found

  const BuildOptions& options_;
  const BuildPlan& plan_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace hearth::data
