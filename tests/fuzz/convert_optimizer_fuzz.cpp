// SPDX-License-Identifier: Apache-2.0
// The pickle of an optimizer's file, of NxD and of DeepSpeed: what is accepted lies in the files.
#include "convert/neox/zero_state.h"
#include "convert/nxd.h"
#include "formats/tensor_object.h"
#include "target.h"

namespace hearth::fuzz {
namespace {

constexpr int64_t kStorageBytes = 64;
constexpr int kStorages = 8;

// A file of torch.save with this pickle, and some storages that it may name.
void write_file_of(const Path& path, std::string_view pickle) {
  formats::ZipFileWriter zip(path);
  zip.add("archive/data.pkl", pickle);
  for (int i = 0; i < kStorages; ++i)
    zip.add("archive/data/" + std::to_string(i), std::string(static_cast<size_t>(kStorageBytes), '\0'));
  zip.finish();
}

void require_inside(const Path& folder, const std::vector<convert::FileRun>& runs, DType dtype) {
  for (const convert::FileRun& run : runs) {
    const File file = File::open_read(folder / run.file);
    require(run.begin >= 0 && run.count > 0 && run.offset >= 0 &&
                run.offset + run.count * dtype_size(dtype) <= file.size_bytes(),
            "elements beyond the file");
  }
}

std::map<convert::NxdPlace, convert::NxdTensors> model() {
  const formats::TensorLayout matrix{DType::kFloat32, {3, 4}, {4, 1}, 0}, vector{DType::kFloat32, {4}, {1}, 0};
  return {{{0, 0}, {{"a.weight", {"model", matrix}}, {"norm.weight", {"model", vector}}}}};
}

void read_nxd(std::string_view pickle) {
  static const Path step = scratch() / "nxd";
  make_folders(step / "optim");
  write_file_of(step / "optim/dp_rank_00_tp_rank_00_pp_rank_00.pt", pickle);
  accepted([&] {
    const auto state = convert::read_nxd_state(step, model());
    require(state && state->training.updates >= 0, "a state without a count");
    for (const auto& [name, of] : state->moments.at({0, 0})) {
      require_inside(step, of.exp_avg.runs, of.exp_avg.layout.dtype);
      require_inside(step, of.exp_avg_sq.runs, of.exp_avg_sq.layout.dtype);
    }
  });
}

void read_zero(std::string_view pickle) {
  static const Path folder = scratch() / "zero";
  make_folders(folder);
  if (!path_exists(folder / "mp_rank_00_model_states.pt")) {
    formats::PickleWriter counts;
    counts.empty_dict();
    counts.mark();
    counts.string("iteration");
    counts.integer(3);
    counts.set_items();
    write_file_of(folder / "mp_rank_00_model_states.pt", counts.finish());
  }
  write_file_of(folder / "zero_pp_rank_0_mp_rank_00_optim_states.pt", pickle);
  accepted([&] {
    const auto state = convert::read_zero_state(folder);
    require(state && state->training.step == 3, "another step");
    for (const auto& [name, parameter] : state->parameters.at(0)) {
      require_inside(folder, parameter.weight, parameter.dtype);
      require_inside(folder, parameter.exp_avg_sq, parameter.dtype);
    }
  });
}

using Pickle = formats::PickleWriter;

void push_dict(Pickle& p, const std::vector<std::pair<std::string, std::function<void()>>>& items) {
  p.empty_dict();
  p.mark();
  for (const auto& [key, value] : items) {
    p.string(key);
    value();
  }
  p.set_items();
}

void push_list(Pickle& p, const std::function<void()>& items) {
  p.empty_list();
  p.mark();
  items();
  p.append_items();
}

// {"base_state": {0: ..., 1: ...}, "param_groups": [...], "shape_info": ..., "sharded_master_weights": ...}
std::string nxd_pickle() {
  Pickle p;
  const std::vector<std::vector<int64_t>> shapes = {{3, 4}, {4}};
  const auto tensor = [&](size_t id, const char* key) {
    return [&p, &shapes, id, key] { formats::write_tensor_object(p, DType::kFloat32, shapes[id], key); };
  };
  const auto numbered = [&](const std::function<void(size_t)>& value) {
    return [&p, value] {
      p.empty_dict();
      p.mark();
      for (size_t id = 0; id < 2; ++id) {
        p.integer(static_cast<int64_t>(id));
        value(id);
      }
      p.set_items();
    };
  };
  const auto group = [&](int64_t id) {
    push_dict(p, {{"lr", [&] { p.real(0.5); }}, {"params", [&] { push_list(p, [&] { p.integer(id); }); }}});
  };
  push_dict(p, {{"state", [&] { p.empty_dict(); }},
                {"param_groups",
                 [&] {
                   push_list(p, [&] {
                     group(0);
                     group(1);
                   });
                 }},
                {"base_state", numbered([&](size_t id) {
                   push_dict(p, {{"step", [&] { p.integer(3); }},
                                 {"exp_avg", tensor(id, id == 0 ? "0" : "1")},
                                 {"exp_avg_sq", tensor(id, id == 0 ? "2" : "3")}});
                 })},
                {"shape_info", numbered([&](size_t id) { p.size(shapes[id]); })},
                {"sharded_master_weights", numbered([&](size_t id) { tensor(id, id == 0 ? "4" : "5")(); })}});
  return p.finish();
}

// DeepSpeed's: one group of one parameter.
std::string zero_pickle() {
  Pickle p;
  const auto flat = [&](const char* key) {
    return [&p, key] { formats::write_tensor_object(p, DType::kFloat32, {16}, key); };
  };
  const auto place = [&] {
    p.global("deepspeed.utils.tensor_fragment", "fragment_address");
    p.empty_tuple();
    p.new_object();
    push_dict(p, {{"numel", [&] { p.integer(12); }}, {"start", [&] { p.integer(2); }}});
    p.build();
  };
  const auto base = [&] {
    push_dict(
        p, {{"state",
             [&] {
               p.empty_dict();
               p.mark();
               p.integer(0);
               push_dict(p, {{"step", [&] { p.integer(3); }}, {"exp_avg", flat("0")}, {"exp_avg_sq", flat("1")}});
               p.set_items();
             }},
            {"param_groups", [&] {
               push_list(p, [&] {
                 push_dict(p, {{"lr", [&] { p.real(0.5); }}, {"params", [&] { push_list(p, [&] { p.integer(0); }); }}});
               });
             }}});
  };
  push_dict(p, {{"optimizer_state_dict", [&] {
                   push_dict(p, {{"base_optimizer_state", base},
                                 {"single_partition_of_fp32_groups", [&] { push_list(p, flat("2")); }},
                                 {"param_slice_mappings", [&] {
                                    push_list(p, [&] { push_dict(p, {{"2.input_layernorm.scale", place}}); });
                                  }}});
                 }}});
  return p.finish();
}

}  // namespace

void run(std::string_view input) {
  read_nxd(input);
  read_zero(input);
}

std::vector<std::string> seeds() {
  require(accepted([] {
            read_nxd(nxd_pickle());
            require(convert::read_nxd_state(scratch() / "nxd", model())->has_weights, "the seed of NxD has no weights");
            read_zero(zero_pickle());
            require(convert::read_zero_state(scratch() / "zero")->parameters.at(0).size() == 1,
                    "the seed of DeepSpeed has no parameter");
          }),
          "a seed is refused");
  return {nxd_pickle(), zero_pickle()};
}

}  // namespace hearth::fuzz
