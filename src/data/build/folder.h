// SPDX-License-Identifier: Apache-2.0
// The folder that a build writes to. BuildFolder finds out what it holds already, and makes it a dataset.
#pragma once

#include <memory>

#include "data/build/plan.h"

namespace hearth::data {

class BuildFolder {
 public:
  BuildFolder(const BuildOptions& options, const BuildPlan& plan) : options_(options), plan_(plan) {}

  // True if the folder holds this very dataset, whole: every shard is read. `manifest` has the plan's fields on entry
  // and is the one on disk afterwards. A manifest with other paths of the same files is corrected.
  bool complete(DatasetManifest& manifest);

  // Throws user_error if the folder holds another build, finished or not. The error names what differs from `planned`,
  // which has the plan's fields.
  void refuse_other_build(const DatasetManifest& planned) const;

  // Makes the folder and locks it; it holds no dataset until finish(). Removes the remains of an interrupted write, and
  // shards of another build.
  void open_for_writing();

  // Removes shards that the manifest does not name, then writes it.
  void finish(const DatasetManifest& manifest);

 private:
  std::string manifest_name() const;  // of the whole build, or of the part
  std::string tokenizer_temporary() const;
  Path lock_path() const;
  bool is_ours(const std::string& name) const;  // a complete or incomplete shard that no other part may have made
  std::string other_build(const DatasetManifest& planned) const;  // how a build in the folder differs, or empty

  const BuildOptions& options_;
  const BuildPlan& plan_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace hearth::data
