// DeepSpeed loads these files with its own unpickler, and copies their tensors into buffers that it has already. Source
// of the layout: deepspeed/runtime/zero/stage_1_and_2.py and bf16_optimizer.py (0.9.3 to 0.19.8), load_state_dict().
#include <fmt/format.h>

#include <algorithm>

#include "convert/neox/zero_state.h"
#include "formats/torch_file.h"

namespace hearth::convert {
namespace {

// DeepSpeed pads a flat buffer so that each slice begins at a multiple of 4 bytes in bfloat16.
constexpr int64_t kAlignment = 2;
// The first version with today's stage 1 is 0.3.17. The files are those of 0.9.3 and later.
constexpr const char* kVersion = "0.9.3";

int64_t zero_numel(const RankTensor& tensor) { return mesh::Box{{}, tensor.info.shape}.numel(); }

// A group's flat buffer of one slice.
struct ZeroSlice {
  const ZeroGroup& group;
  int64_t numel = 0;              // of all tensors
  int64_t begin = 0, length = 0;  // of this slice, padding included

  ZeroSlice(const ZeroGroup& of, int64_t slice, int64_t slices) : group(of) {
    for (const ZeroTensor& tensor : group.tensors) numel += zero_numel(tensor.weight);
    length = padded_numel(numel, slices) / slices;
    begin = slice * length;
  }
  mesh::TensorInfo info() const { return {{}, DType::kFloat32, {length}}; }
  // Elements without a tensor. DeepSpeed says of the last slice how many all slices have.
  int64_t padding() const { return std::clamp<int64_t>(begin + length - numel, 0, length); }
  int64_t said_padding(int64_t slices) const { return begin + length == slices * length ? slices * length - numel : 0; }

  // Calls `use` with each tensor, its elements in this slice and the place of the first one in the slice.
  template <typename Use>
  void each(const Use& use) const {
    for (int64_t at = 0; const ZeroTensor& tensor : group.tensors) {
      const int64_t end = at + zero_numel(tensor.weight), first = std::max(at, begin),
                    last = std::min(end, begin + length);
      if (first < last) use(tensor, first - at, last - at, first - begin);
      at = end;
    }
  }
};

void push_settings(formats::PickleWriter& pickle, const ZeroGroup& group, const ZeroSettings& settings, int64_t index) {
  const auto number = [&](const char* key, double value) { pickle.string(key), pickle.real(value); };
  const auto flag = [&](const char* key, bool value) { pickle.string(key), pickle.boolean(value); };
  pickle.empty_dict();
  pickle.mark();
  number("lr", settings.lr);
  pickle.string("betas");
  pickle.mark();
  pickle.real(settings.beta1);
  pickle.real(settings.beta2);
  pickle.tuple();
  number("eps", settings.eps);
  number("weight_decay", group.weight_decay);
  pickle.string("name");
  pickle.string(group.name);
  pickle.string("step");  // FusedAdam counts here
  pickle.integer(settings.updates);
  flag("bias_correction", true);
  for (const char* key : {"amsgrad", "maximize", "capturable", "differentiable"}) flag(key, false);
  for (const char* key : {"foreach", "fused"}) {
    pickle.string(key);
    pickle.none();
  }
  flag("decoupled_weight_decay", settings.decoupled);
  pickle.string("params");
  pickle.empty_list();
  pickle.mark();
  pickle.integer(index);
  pickle.append_items();
  pickle.set_items();
}

void push_mapping(formats::PickleWriter& pickle, const ZeroSlice& slice) {
  pickle.empty_dict();
  pickle.mark();
  slice.each([&](const ZeroTensor& tensor, int64_t first, int64_t last, int64_t start) {
    pickle.string(tensor.name);
    pickle.global("deepspeed.utils.tensor_fragment", "fragment_address");
    pickle.empty_tuple();
    pickle.new_object();
    pickle.empty_dict();
    pickle.mark();
    for (const auto& [key, value] : {std::pair<const char*, int64_t>{"numel", last - first}, {"start", start}}) {
      pickle.string(key);
      pickle.integer(value);
    }
    pickle.set_items();
    pickle.build();
  });
  pickle.set_items();
}

// A list with one item for each slice, which `item` pushes.
template <typename Item>
void push_list(formats::PickleWriter& pickle, const std::vector<ZeroSlice>& slices, const Item& item) {
  pickle.empty_list();
  pickle.mark();
  for (size_t g = 0; g < slices.size(); ++g) item(slices[g], static_cast<int64_t>(g));
  pickle.append_items();
}

void push_state(formats::PickleWriter& pickle, const formats::TorchFileWriter::PushTensor& tensor,
                const std::vector<ZeroSlice>& slices, const ZeroSettings& settings, int64_t count) {
  pickle.empty_dict();
  pickle.mark();
  pickle.string("base_optimizer_state");
  pickle.empty_dict();
  pickle.mark();
  pickle.string("state");
  pickle.empty_dict();
  pickle.mark();
  for (size_t g = 0; g < slices.size(); ++g) {
    pickle.integer(static_cast<int64_t>(g));
    pickle.empty_dict();
    pickle.mark();
    pickle.string("step");  // torch's AdamW makes a tensor of it
    pickle.integer(settings.updates);
    for (const char* key : {"exp_avg", "exp_avg_sq"}) {
      pickle.string(key);
      tensor(slices[g].info());
    }
    pickle.set_items();
  }
  pickle.set_items();
  pickle.string("param_groups");
  push_list(pickle, slices,
            [&](const ZeroSlice& slice, int64_t g) { push_settings(pickle, slice.group, settings, g); });
  pickle.set_items();
  pickle.string("single_partition_of_fp32_groups");
  push_list(pickle, slices, [&](const ZeroSlice& slice, int64_t) { tensor(slice.info()); });
  pickle.string("zero_stage");
  pickle.integer(1);
  pickle.string("group_paddings");
  push_list(pickle, slices, [&](const ZeroSlice& slice, int64_t) { pickle.integer(slice.said_padding(count)); });
  pickle.string("partition_count");
  push_list(pickle, slices, [&](const ZeroSlice&, int64_t) { pickle.integer(count); });
  pickle.string("ds_version");
  pickle.string(kVersion);
  pickle.string("param_slice_mappings");
  push_list(pickle, slices, [&](const ZeroSlice& slice, int64_t) { push_mapping(pickle, slice); });
  pickle.set_items();
}

void write_flat(formats::TorchFileWriter& writer, const ZeroSlice& slice, RankTensor ZeroTensor::*of,
                checkpoint::Reader& reader, Progress& progress) {
  slice.each([&](const ZeroTensor& tensor, int64_t first, int64_t last, int64_t) {
    write_elements(reader, tensor.*of, first, last, progress,
                   [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  });
  const std::vector<std::byte> zeros(static_cast<size_t>(slice.padding() * dtype_size(DType::kFloat32)));
  if (!zeros.empty()) writer.write(zeros);
}

}  // namespace

int64_t padded_numel(int64_t numel, int64_t slices) {
  const int64_t unit = kAlignment * slices;
  return (numel + unit - 1) / unit * unit;
}

void write_zero_files(const Path& folder, const std::string& prefix, int64_t rank, int64_t slices,
                      const std::vector<ZeroGroup>& groups, const ZeroSettings& settings, checkpoint::Reader& reader,
                      Progress& progress) {
  for (int64_t number = 0; number < slices; ++number) {
    std::vector<ZeroSlice> flat;
    flat.reserve(groups.size());
    for (const ZeroGroup& group : groups) flat.emplace_back(group, number, slices);
    const std::string name = fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", prefix, number, rank);
    formats::TorchFileWriter writer(folder / name, [&](formats::PickleWriter& pickle, const auto& tensor) {
      pickle.empty_dict();
      pickle.mark();
      pickle.string("optimizer_state_dict");
      push_state(pickle, tensor, flat, settings, slices);
      pickle.string("ds_version");
      pickle.string(kVersion);
      pickle.set_items();
    });
    // In the order in which push_state names them.
    for (const ZeroSlice& slice : flat) {
      write_flat(writer, slice, &ZeroTensor::exp_avg, reader, progress);
      write_flat(writer, slice, &ZeroTensor::exp_avg_sq, reader, progress);
    }
    for (const ZeroSlice& slice : flat) write_flat(writer, slice, &ZeroTensor::weight, reader, progress);
    writer.finish();
  }
}

}  // namespace hearth::convert
