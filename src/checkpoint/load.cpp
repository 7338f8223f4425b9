// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "checkpoint/item_files.h"
#include "checkpoint/load_metadata.h"
#include "formats/item.h"
#include "formats/member_crcs.h"
#include "formats/scalar.h"

namespace hearth::checkpoint {
namespace {

// An item's file and bytes, for messages.
std::string place(const Path& folder, const formats::Item& item) {
  return fmt::format("{}, bytes {} to {}", (folder / item.file).string(), item.offset, item.offset + item.length);
}

// The box is named only if the tensor is cut.
std::string label(const formats::StoredTensor& tensor, const formats::Item& item) {
  if (item.box.sizes == tensor.info.shape) return item.name;
  return fmt::format("{} at {}", item.name, formats::format_shape(item.box.offsets));
}

std::span<const int64_t> shape_of_row(const mesh::TensorInfo& info) {
  return std::span(info.shape).subspan(info.shape.empty() ? 0 : 1);
}

template <class Value>
double value_of(std::span<const std::byte> bytes) {
  Value value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

}  // namespace

struct Reader::State {
  Path folder;
  std::optional<Manifest> manifest;
  formats::Metadata metadata;
  std::vector<mesh::TensorInfo> infos;
  std::unordered_map<std::string, size_t> by_name;
  std::optional<ItemFiles> files;
  std::set<std::pair<std::string, int64_t>> checked;  // files and offsets of items with the right checksum
  formats::MemberCrcs crcs;                           // of items without a checksum
  // Of another program's files: the layout of each item, by tensor.
  std::vector<std::vector<formats::TensorLayout>> outside;
  std::map<const formats::Item*, OutsideTensor::Piece::Mxfp4> packed;  // by its item
  struct Run {
    size_t from;  // index in metadata.tensors
    int64_t first, count;
  };
  std::map<size_t, std::vector<Run>> derived;  // by index in metadata.tensors
  std::set<std::string> reordered;             // names in `metadata`
  int64_t head_width = 0, rotary_width = 0;
  PairOrder order = PairOrder::kHalves;

  const formats::StoredTensor* find(std::string_view name) const {
    for (const char* prefix : {"", "model."}) {
      const auto found = by_name.find(prefix + std::string(name));
      if (found != by_name.end()) return &metadata.tensors[found->second];
    }
    return nullptr;
  }

  // `box` of the tensor: as read() gives it; without another order of pairs; in the other order; from runs of rows.
  void read(const formats::StoredTensor& tensor, const mesh::Box& box, std::span<std::byte> out);
  void read_in_order(const formats::StoredTensor& tensor, const mesh::Box& box, std::span<std::byte> out);
  void read_runs(const std::vector<Run>& runs, const mesh::Box& box, std::span<std::byte> out);
  void read_reordered(const formats::StoredTensor& tensor, const mesh::Box& box, std::span<std::byte> out);
  void read_packed(const formats::StoredTensor& tensor, const OutsideTensor::Piece::Mxfp4& mxfp4, const mesh::Box& box,
                   std::span<std::byte> out);

  void check_checksum(const formats::StoredTensor& tensor, const formats::Item& item) {
    if (!manifest || checked.contains({item.file, item.offset})) return;
    const File& file = files->open(item.file);
    file.read_ahead(item.offset, item.length);
    const uint64_t found = formats::hash_range(file, item.offset, item.length);
    if (found != item.checksum)
      throw damaged(fmt::format("{} is damaged ({})", label(tensor, item), place(folder, item)),
                    fmt::format("checksum {}, expected {}", to_hex64(found), to_hex64(item.checksum)), kTakeAnother);
    checked.insert({item.file, item.offset});
  }

  formats::TensorLayout layout(const formats::StoredTensor& tensor, const formats::Item& item) {
    if (!outside.empty()) {
      const auto index = static_cast<size_t>(&tensor - metadata.tensors.data());
      return outside[index][static_cast<size_t>(&item - tensor.items.data())];
    }
    const std::string origin = fmt::format("{} ({})", label(tensor, item), place(folder, item));
    formats::TensorLayout layout =
        formats::read_tensor_layout(files->open(item.file), item.offset, item.length, origin);
    if (layout.dtype != tensor.info.dtype || layout.sizes != item.box.sizes)
      throw damaged(
          fmt::format("{} is not what .metadata says", origin),
          fmt::format("found {} {}, expected {} {}", dtype_name(layout.dtype), formats::format_shape(layout.sizes),
                      dtype_name(tensor.info.dtype), formats::format_shape(item.box.sizes)));
    return layout;
  }
};

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Reader Reader::open(const Path& folder, FileSizes sizes) {
  if (!folder_exists(folder))
    throw user_error(fmt::format("there is no checkpoint {}", folder.string()), "no such folder",
                     "give the folder of one step, RUN/checkpoints/step-...");
  auto state = std::make_unique<State>();
  state->folder = folder;
  state->files.emplace(folder);
  const Path manifest_path = folder / kManifestFile;
  if (path_exists(manifest_path)) {
    state->manifest = parse_manifest(read_file(manifest_path), manifest_path);
  } else if (!path_exists(folder / kMetadataFile)) {
    throw user_error(fmt::format("{} is not a checkpoint", folder.string()),
                     fmt::format("it has neither {} nor {}", kManifestFile, kMetadataFile),
                     "give the folder of one step, RUN/checkpoints/step-...");
  }
  state->metadata = load_metadata(folder, state->manifest);
  state->files->expect(state->metadata, state->manifest.has_value());
  if (sizes == FileSizes::kNow) state->files->check_sizes();
  for (const formats::StoredTensor& tensor : state->metadata.tensors) {
    state->by_name[tensor.info.name] = state->infos.size();
    state->infos.push_back(tensor.info);
  }
  return Reader(std::move(state));
}

Reader Reader::over(const Path& folder, std::vector<OutsideTensor> tensors) {
  auto state = std::make_unique<State>();
  state->folder = folder;
  state->files.emplace(folder);
  std::vector<std::pair<size_t, OutsideTensor::Piece::Mxfp4>> mxfp4s;
  for (OutsideTensor& tensor : tensors) {
    formats::StoredTensor& stored = state->metadata.tensors.emplace_back();
    std::vector<formats::TensorLayout>& layouts = state->outside.emplace_back();
    for (OutsideTensor::Piece& piece : tensor.pieces) {
      const int64_t bytes = piece.box.numel() * dtype_size(tensor.info.dtype);
      stored.items.push_back({tensor.info.name, piece.box, piece.file, piece.layout.data_offset, bytes, 0});
      layouts.push_back(std::move(piece.layout));
      if (piece.mxfp4) mxfp4s.emplace_back(state->metadata.tensors.size() - 1, std::move(*piece.mxfp4));
    }
    state->by_name[tensor.info.name] = state->infos.size();
    state->infos.push_back(tensor.info);
    stored.info = std::move(tensor.info);
  }
  for (auto& [index, packed] : mxfp4s)  // a packed tensor has one item
    state->packed[&state->metadata.tensors[index].items.front()] = std::move(packed);
  return Reader(std::move(state));
}

const Path& Reader::folder() const { return state_->folder; }
bool Reader::has_manifest() const { return state_->manifest.has_value(); }
std::unique_ptr<tokenizer::Tokenizer> Reader::open_tokenizer() const {
  const Manifest& m = manifest();
  const auto id = [](int64_t value) {
    return value < 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(value));
  };
  return tokenizer::open_kept_tokenizer(folder(), m.tokenizer, m.tokenizer_hash, {id(m.bos), id(m.eos)});
}

const Manifest& Reader::manifest() const {
  HEARTH_CHECK(has_manifest(), "{} has no manifest", state_->folder.string());
  return *state_->manifest;
}
const std::vector<mesh::TensorInfo>& Reader::tensors() const { return state_->infos; }
const formats::Metadata& Reader::metadata() const { return state_->metadata; }

const mesh::TensorInfo* Reader::find(std::string_view name) const {
  const formats::StoredTensor* tensor = state_->find(name);
  return tensor == nullptr ? nullptr : &tensor->info;
}

const mesh::TensorInfo& Reader::require(std::string_view name, DType dtype, const std::vector<int64_t>& shape) const {
  const std::string expected = fmt::format("expected {} {}", dtype_name(dtype), formats::format_shape(shape));
  const mesh::TensorInfo* info = find(name);
  if (info == nullptr) {
    std::string why = expected;
    for (const formats::OtherEntry& other : state_->metadata.others) {
      if (other.name == name) why += fmt::format(", found {}", other.what);
    }
    throw user_error(fmt::format("{} has no tensor {}", state_->folder.string(), name), why,
                     "`hearth inspect` lists its content");
  }
  if (info->dtype != dtype || info->shape != shape)
    throw user_error(
        fmt::format("{}: {} does not fit", state_->folder.string(), name),
        fmt::format("{}, found {} {}", expected, dtype_name(info->dtype), formats::format_shape(info->shape)),
        "give the run the model shape of the checkpoint (`hearth inspect` prints its configuration)");
  return *info;
}

void Reader::rename(const std::map<std::string, std::string>& names) {
  for (mesh::TensorInfo& info : state_->infos) {
    const auto found = names.find(info.name);
    if (found == names.end()) continue;
    const size_t index = state_->by_name.extract(found->first).mapped();
    state_->by_name[found->second] = index;
    info.name = state_->metadata.tensors[index].info.name = found->second;
  }
}

void Reader::derive(mesh::TensorInfo info, const std::vector<RowRun>& rows) {
  std::vector<State::Run> runs;
  int64_t count = 0;
  for (const RowRun& run : rows) {
    const size_t from = state_->by_name.at(run.from);
    const mesh::TensorInfo& source = state_->metadata.tensors[from].info;
    const bool fits = source.dtype == info.dtype && source.shape.size() == info.shape.size() && run.first >= 0 &&
                      (info.shape.empty() || run.count <= source.shape[0] - run.first) &&
                      std::ranges::equal(shape_of_row(info), shape_of_row(source));
    HEARTH_CHECK(fits, "rows of {} in {}", run.from, info.name);
    runs.push_back({from, run.first, run.count});
    count += run.count;
  }
  HEARTH_CHECK(info.shape.empty() ? runs.size() == 1 : count == info.shape[0], "{}: {} rows", info.name, count);
  HEARTH_CHECK(!state_->by_name.contains(info.name), "{} twice", info.name);
  const size_t index = state_->metadata.tensors.size();
  state_->by_name[info.name] = index;
  state_->derived[index] = std::move(runs);
  state_->infos.push_back(info);
  state_->metadata.tensors.push_back({std::move(info), {}});
}

void Reader::hide(const std::set<std::string>& names) {
  std::erase_if(state_->infos, [&](const mesh::TensorInfo& info) { return names.contains(info.name); });
  for (const std::string& name : names) state_->by_name.erase(name);
}

void Reader::reorder_pairs(std::set<std::string> names, int64_t head_width, int64_t rotary_width, PairOrder to) {
  state_->reordered = std::move(names);
  state_->head_width = head_width;
  state_->rotary_width = rotary_width;
  state_->order = to;
}

void Reader::State::read(const formats::StoredTensor& tensor, const mesh::Box& box, std::span<std::byte> out) {
  if (reordered.contains(tensor.info.name)) return read_reordered(tensor, box, out);
  read_in_order(tensor, box, out);
}

void Reader::State::read_runs(const std::vector<Run>& runs, const mesh::Box& box, std::span<std::byte> out) {
  if (box.sizes.empty()) return read(metadata.tensors[runs.front().from], box, out);
  const int64_t wanted_end = box.offsets[0] + box.sizes[0];
  const auto row_bytes = static_cast<int64_t>(out.size()) / box.sizes[0];
  int64_t row = 0;  // of the tensor that has these runs
  for (const Run& run : runs) {
    const int64_t begin = std::max(row, box.offsets[0]), end = std::min(row + run.count, wanted_end);
    if (begin < end) {
      mesh::Box part = box;
      part.offsets[0] = run.first + begin - row;
      part.sizes[0] = end - begin;
      read(metadata.tensors[run.from], part,
           out.subspan(static_cast<size_t>((begin - box.offsets[0]) * row_bytes),
                       static_cast<size_t>((end - begin) * row_bytes)));
    }
    row += run.count;
  }
}

void Reader::State::read_in_order(const formats::StoredTensor& tensor, const mesh::Box& box, std::span<std::byte> out) {
  const auto runs = derived.find(static_cast<size_t>(&tensor - metadata.tensors.data()));
  if (runs != derived.end()) return read_runs(runs->second, box, out);
  formats::check_coverage(tensor, box, folder.string());
  for (const formats::Item& item : tensor.items) {
    if (!mesh::overlaps(item.box, box)) continue;
    if (const auto of_item = packed.find(&item); of_item != packed.end())
      return read_packed(tensor, of_item->second, box, out);
    check_checksum(tensor, item);
    const formats::TensorLayout stored = layout(tensor, item);
    formats::ReadBytes seen;
    if (!manifest && stored.member.length > 0)
      seen = [&](int64_t at, std::span<const std::byte> bytes) { crcs.add(item.file, stored.member, at, bytes); };
    formats::copy_box(files->open(item.file), stored, item.box, box, out, seen);
  }
}

void Reader::State::read_packed(const formats::StoredTensor& tensor, const OutsideTensor::Piece::Mxfp4& mxfp4,
                                const mesh::Box& box, std::span<std::byte> out) {
  const formats::ByteRange range = formats::scales_of(mxfp4.rows, tensor.info.shape[1], box);
  std::vector<std::byte> scales(static_cast<size_t>(range.length));
  files->open(mxfp4.scales_file).read_at(range.offset, scales);
  formats::read_mxfp4(files->open(tensor.items.front().file), mxfp4.rows, scales, box, out);
}

// Reads the whole heads around `box` and takes its rows from them.
void Reader::State::read_reordered(const formats::StoredTensor& tensor, const mesh::Box& box,
                                   std::span<std::byte> out) {
  const int64_t K = head_width, first = box.offsets[0] / K * K;
  const int64_t end = std::min(round_up(box.offsets[0] + box.sizes[0], K), tensor.info.shape[0]);
  mesh::Box heads = box;
  heads.offsets[0] = first;
  heads.sizes[0] = end - first;
  const int64_t row_bytes = box.numel() / box.sizes[0] * dtype_size(tensor.info.dtype);
  std::vector<std::byte> stored(static_cast<size_t>(heads.sizes[0] * row_bytes));
  read_in_order(tensor, heads, stored);
  for (int64_t i = 0; i < box.sizes[0]; ++i) {
    const int64_t row = box.offsets[0] + i, of_head = row % K, half = rotary_width / 2;
    int64_t from = of_head;
    if (of_head < rotary_width)
      from = order == PairOrder::kHalves ? of_head % half * 2 + of_head / half : of_head % 2 * half + of_head / 2;
    std::memcpy(out.data() + i * row_bytes, stored.data() + (row - of_head + from - first) * row_bytes,
                static_cast<size_t>(row_bytes));
  }
}

void Reader::read(std::string_view name, const mesh::Box& box, std::span<std::byte> out) {
  const formats::StoredTensor* tensor = state_->find(name);
  if (tensor == nullptr) throw user_error(fmt::format("{} has no tensor {}", state_->folder.string(), name));
  const std::vector<int64_t>& shape = tensor->info.shape;
  HEARTH_CHECK(box.offsets.size() == shape.size() && box.sizes.size() == shape.size(), "box of {}", name);
  for (size_t d = 0; d < shape.size(); ++d)
    HEARTH_CHECK(box.offsets[d] >= 0 && box.sizes[d] >= 0 && box.offsets[d] + box.sizes[d] <= shape[d], "box of {}",
                 name);
  HEARTH_CHECK(static_cast<int64_t>(out.size()) == box.numel() * dtype_size(tensor->info.dtype), "buffer for {}", name);
  if (out.empty()) return;
  state_->read(*tensor, box, out);
}

std::optional<double> Reader::number(std::string_view name) {
  for (const formats::OtherEntry& other : metadata().others) {
    if (other.name != name || other.file.empty()) continue;
    const Path path = folder() / other.file;
    if (!path_exists(path))
      throw damaged(fmt::format("{} is missing", path.string()), fmt::format("{} was in it", name));
    const File file = File::open_read(path);
    if (other.length > file.size_bytes() - other.offset)
      throw damaged(fmt::format("{} is cut short: {}", name, path.string()));
    return formats::read_number(file, other.offset, other.length, fmt::format("{} ({})", name, path.string()));
  }
  const mesh::TensorInfo* tensor = find(name);
  if (tensor == nullptr || !tensor->shape.empty()) return std::nullopt;
  std::array<std::byte, 8> bytes{};
  read(name, {}, std::span(bytes).first(static_cast<size_t>(dtype_size(tensor->dtype))));
  if (tensor->dtype == DType::kInt32) return value_of<int32_t>(bytes);
  if (tensor->dtype == DType::kInt64) return value_of<int64_t>(bytes);
  if (tensor->dtype == DType::kFloat32) return value_of<float>(bytes);
  if (tensor->dtype == DType::kFloat64) return value_of<double>(bytes);
  return std::nullopt;
}

bool Reader::has_checked(const formats::Item& item) const { return state_->checked.contains({item.file, item.offset}); }

void Reader::check_members(bool read_rest) {
  state_->crcs.check([&](const std::string& file) -> const File& { return state_->files->open(file); }, read_rest);
}

void Reader::check(const formats::StoredTensor& tensor, const formats::Item& item) {
  state_->check_checksum(tensor, item);
  state_->layout(tensor, item);
  if (!has_manifest())
    formats::check_crc(state_->files->open(item.file), item.offset, item.length,
                       fmt::format("{} ({})", label(tensor, item), place(state_->folder, item)));
}

}  // namespace hearth::checkpoint
