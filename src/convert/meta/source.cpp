#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "convert/meta/params.h"
#include "convert/names.h"
#include "convert/rank_parts.h"
#include "convert/source.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

using checkpoint::OutsideTensor;

// One file of a model.
struct Shard {
  std::string name;
  std::vector<formats::TorchTensor> tensors;
  const formats::TorchTensor* find(const std::string& tensor) const {
    for (const formats::TorchTensor& candidate : tensors) {
      if (candidate.name == tensor) return &candidate;
    }
    return nullptr;
  }
};

std::vector<Shard> open_shards(const Path& folder) {
  std::vector<std::string> names;
  for (const std::string& name : list_folder(folder)) {
    if (name.starts_with("consolidated.") && name.ends_with(".pth")) names.push_back(name);
  }
  std::vector<Shard> shards;
  for (const std::string& name : names) {
    const std::string expected = fmt::format("consolidated.{:02}.pth", shards.size());
    if (name != expected)
      throw user_error(fmt::format("{} is missing", (folder / expected).string()),
                       fmt::format("{} is there, and the files are counted from 00", name), "download it again");
    const std::string origin = (folder / name).string();
    const File file = File::open_read(folder / name);
    formats::TorchFile found = formats::read_torch_file(file, origin);
    if (!found.others.empty())
      throw user_error(fmt::format("{}: {} is {}", origin, found.others[0].name, found.others[0].what),
                       "Meta's files have weights only", "leave it out of the file");
    std::erase_if(found.tensors, [](const formats::TorchTensor& tensor) { return is_computed(tensor.name); });
    shards.push_back({name, std::move(found.tensors)});
  }
  return shards;
}

// The dimension that the files share; nullopt: each has the whole.
std::optional<size_t> split_of(const std::string& tensor, const std::vector<int64_t>& shape, size_t files, int64_t dim,
                               const Path& folder) {
  if (tensor == "tok_embeddings.weight" && shape.size() == 2) return shape[1] == dim ? 0 : 1;
  const std::optional<size_t> split = meta_split(tensor);
  if (files > 1 && (split ? shape.size() != 2 : shape.size() != 1))
    throw user_error(fmt::format("{}: {} cannot be joined from {} files", folder.string(), tensor, files),
                     "it is no weight of Meta's models, so the dimension that the files share is not known");
  return files > 1 ? split : std::nullopt;
}

// Files at the end of the count are missed only by what the joined weights lack.
void require_all_files(const Path& folder, const checkpoint::Reader& reader, int64_t files, int64_t dim) {
  const mesh::TensorInfo* wq = reader.find("layers.0.attention.wq.weight");
  if (wq == nullptr || wq->shape.size() != 2 || wq->shape[0] == 0 || wq->shape[0] >= dim || dim % wq->shape[0] != 0)
    return;
  const int64_t all = files * dim / wq->shape[0];
  throw user_error(fmt::format("{} has {} of {} files", folder.string(), files, all),
                   fmt::format("consolidated.{:02}.pth is missing", files), "download the missing files");
}

class Joiner {
 public:
  Joiner(const Path& folder, const std::vector<Shard>& shards, const config::Model& model)
      : folder_(folder), shards_(shards), dim_(model.dim), keys_(model.n_kv_heads), head_(model.dim / model.n_heads) {}

  OutsideTensor join(const std::string& name) const {
    const formats::TensorLayout& first = shards_[0].find(name)->layout;
    const std::optional<size_t> split = split_of(name, first.sizes, shards_.size(), dim_, folder_);
    const size_t copies = copies_of(name, first.sizes);
    OutsideTensor whole{{name, first.dtype, first.sizes}, {}};
    int64_t end = 0;
    const Shard* before = &shards_[0];
    for (size_t index = 0; index < shards_.size(); ++index) {
      const Shard& shard = shards_[index];
      const formats::TorchTensor* part = shard.find(name);
      if (part == nullptr)
        throw damaged(fmt::format("{} lacks {}", (folder_ / shard.name).string(), name),
                      fmt::format("{} has it", shards_[0].name), "download the files again");
      if (part->layout.dtype != first.dtype || part->layout.sizes != first.sizes)
        throw damaged(fmt::format("{}: {} is {} {}", (folder_ / shard.name).string(), name,
                                  dtype_name(part->layout.dtype), formats::format_shape(part->layout.sizes)),
                      fmt::format("in {} it is {} {}", shards_[0].name, dtype_name(first.dtype),
                                  formats::format_shape(first.sizes)),
                      "download the files again");
      if (index % copies != 0) {
        require_equal(name, *before, shard);
        continue;
      }
      before = &shard;
      mesh::Box box{std::vector<int64_t>(first.sizes.size()), first.sizes};
      if (split) box.offsets[*split] = end;
      end += split ? first.sizes[*split] : 0;
      whole.pieces.push_back({box, shard.name, part->layout});
    }
    if (split) whole.info.shape[*split] = end;
    return whole;
  }

 private:
  // How many files after one another have the same part: all of norms, and of keys and values where there are more
  // files than keys.
  size_t copies_of(const std::string& name, const std::vector<int64_t>& sizes) const {
    if (!split_of(name, sizes, shards_.size(), dim_, folder_)) return shards_.size();
    const bool is_key = name.ends_with("attention.wk.weight") || name.ends_with("attention.wv.weight");
    const int64_t files = std::ssize(shards_);
    if (!is_key || files <= keys_ || files % keys_ != 0 || sizes[0] != head_) return 1;
    return static_cast<size_t>(files / keys_);
  }

  void require_equal(const std::string& name, const Shard& one, const Shard& other) const {
    const RankPart a{one.name, one.find(name)->layout}, b{other.name, other.find(name)->layout};
    if (!same_elements(folder_, a, b))
      throw damaged(fmt::format("{} and {} have different {}", (folder_ / one.name).string(), other.name, name),
                    "both have a copy of one part", "download the files again");
  }

  const Path& folder_;
  const std::vector<Shard>& shards_;
  int64_t dim_, keys_, head_;
};

}  // namespace

Source open_meta(const Path& folder) {
  const Path params = folder / "params.json";
  if (!path_exists(params))
    throw user_error(fmt::format("{} is missing", params.string()), "it has the model's shape", "download it");
  std::vector<std::string> notes;
  Description description = parse_meta_params(read_file(params), params.string(), notes);
  const std::vector<Shard> shards = open_shards(folder);
  const Joiner joiner(folder, shards, description.model);
  std::vector<OutsideTensor> tensors;
  for (const formats::TorchTensor& tensor : shards[0].tensors) tensors.push_back(joiner.join(tensor.name));
  checkpoint::Reader reader = checkpoint::Reader::over(folder, std::move(tensors));
  require_all_files(folder, reader, std::ssize(shards), description.model.dim);
  const mesh::TensorInfo *w1 = reader.find("layers.0.feed_forward.w1.weight"),
                         *embedding = reader.find("tok_embeddings.weight");
  if (w1 == nullptr || w1->shape.size() != 2 || embedding == nullptr || embedding->shape.size() != 2)
    throw user_error(fmt::format("{} is not a model of Meta's", folder.string()),
                     "it lacks layers.0.feed_forward.w1.weight or tok_embeddings.weight");
  description.model.hidden_dim = w1->shape[0];
  if (description.model.vocab_size < 0) description.model.vocab_size = embedding->shape[0];
  return {Kind::kMeta, std::move(reader), std::move(description), std::move(notes)};
}

}  // namespace hearth::convert
