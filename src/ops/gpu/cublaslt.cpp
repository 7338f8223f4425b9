// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/cublaslt.h"

#include <ATen/ops/empty.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "ops/gpu/cublaslt_api.h"
#include "ops/gpu/gpu.h"

namespace hearth::ops {
namespace {

using namespace cublaslt;

constexpr size_t kWorkspace = size_t{32} << 20;  // bytes; what cuBLAS recommends for Hopper
constexpr uint32_t kAlignment = 16;              // bytes, of results

[[noreturn]] void refuse(std::string what, std::string why) {
  throw Error(ExitCode::kHardware, std::move(what), std::move(why),
              "set numerics.fp8_recipe = \"rowwise_hp_wgrad\", which multiplies through PyTorch alone");
}

// A factor for each row is a value of cuBLASLt 12.9 and newer: older ones refuse it by a status.
void check(int status, const char* call) {
  if (status != kSuccess)
    refuse(fmt::format("cublasLt{} fails with status {}", call, status),
           "gradients of weights in float8 need cuBLASLt 12.9 or newer on a Hopper GPU");
}

template <class Function>
void find(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function == nullptr) refuse(fmt::format("libcublasLt has no function {}", symbol), "it is too old");
}

struct Library {
  LtFunctions api{};
  Handle handle = nullptr;
};

Library load() {
  constexpr std::array kNames = {"libcublasLt.so.13", "libcublasLt.so.12"};
  void* library = nullptr;
  std::vector<std::string> problems;
  // LibTorch has loaded one of them. A system may have another version, which is no match for it.
  for (const char* name : kNames)
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  for (const char* name : kNames) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) problems.emplace_back(::dlerror());
  }
  if (library == nullptr) refuse("gradients of weights in float8 need cuBLASLt", join(problems));
  Library result;
#define HEARTH_FIND(name) find(library, "cublasLt" #name, result.api.name)
  HEARTH_FIND(Create);
  HEARTH_FIND(MatmulDescCreate);
  HEARTH_FIND(MatmulDescSetAttribute);
  HEARTH_FIND(MatmulDescDestroy);
  HEARTH_FIND(MatrixLayoutCreate);
  HEARTH_FIND(MatrixLayoutDestroy);
  HEARTH_FIND(MatmulPreferenceCreate);
  HEARTH_FIND(MatmulPreferenceSetAttribute);
  HEARTH_FIND(MatmulPreferenceDestroy);
  HEARTH_FIND(MatmulAlgoGetHeuristic);
  HEARTH_FIND(Matmul);
#undef HEARTH_FIND
  check(result.api.Create(&result.handle), "Create");
  return result;
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

// A product of one shape, with the algorithm that cuBLASLt ranks first. Ours are rows, cuBLASLt's are columns: its
// result is [N, M] = b a^T, with b [K, N] transposed.
struct Plan {
  std::unique_ptr<ProductDescription, int (*)(Product)> product;
  std::unique_ptr<LayoutDescription, int (*)(MatrixLayout)> a, b, out;
  Candidate chosen{};
};

std::unique_ptr<LayoutDescription, int (*)(MatrixLayout)> layout_of(int type, int64_t rows, int64_t cols) {
  MatrixLayout layout = nullptr;
  check(library().api.MatrixLayoutCreate(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), rows),
        "MatrixLayoutCreate");
  return {layout, library().api.MatrixLayoutDestroy};
}

template <class Value>
void set(const Plan& plan, int attribute, const Value& value) {
  check(library().api.MatmulDescSetAttribute(plan.product.get(), attribute, &value, sizeof value),
        "MatmulDescSetAttribute");
}

// The factors' addresses are a part of the description, and the heuristic looks at their alignment.
void set_scales(const Plan& plan, const at::Tensor& a_scale_M, const at::Tensor& b_scale_N) {
  set(plan, kScaleA, b_scale_N.const_data_ptr());
  set(plan, kScaleB, a_scale_M.const_data_ptr());
}

Plan make_plan(int64_t M, int64_t N, int64_t K, const at::Tensor& a_scale_M, const at::Tensor& b_scale_N) {
  const LtFunctions& api = library().api;
  Product product = nullptr;
  check(api.MatmulDescCreate(&product, kSumsInFloat32, kFloat32), "MatmulDescCreate");
  Plan plan{{product, api.MatmulDescDestroy},
            layout_of(kFloat8E4m3, K, M),
            layout_of(kFloat8E4m3, K, N),
            layout_of(kFloat32, N, M),
            {}};
  set(plan, kTransposeA, kTransposed);
  set(plan, kScaleModeA, kFactorForEachRow);
  set(plan, kScaleModeB, kFactorForEachRow);
  set(plan, kFastSums, int8_t{0});
  set_scales(plan, a_scale_M, b_scale_N);

  Preference preference = nullptr;
  check(api.MatmulPreferenceCreate(&preference), "MatmulPreferenceCreate");
  const std::unique_ptr<PreferenceSettings, int (*)(Preference)> owner(preference, api.MatmulPreferenceDestroy);
  check(api.MatmulPreferenceSetAttribute(preference, kWorkspaceBytes, &kWorkspace, sizeof kWorkspace),
        "MatmulPreferenceSetAttribute");
  // Gradients begin at any multiple of 16 bytes of their buffer; without this cuBLASLt takes 256 for granted.
  for (const int which : {kAlignmentC, kAlignmentD})
    check(api.MatmulPreferenceSetAttribute(preference, which, &kAlignment, sizeof kAlignment),
          "MatmulPreferenceSetAttribute");
  int found = 0;
  check(api.MatmulAlgoGetHeuristic(library().handle, product, plan.b.get(), plan.a.get(), plan.out.get(),
                                   plan.out.get(), preference, 1, &plan.chosen, &found),
        "MatmulAlgoGetHeuristic");
  if (found == 0) refuse(fmt::format("cuBLASLt has no product in float8 of {} x {} x {}", M, N, K), "it knows no way");
  check(plan.chosen.status, "MatmulAlgoGetHeuristic");
  return plan;
}

}  // namespace

void float8_product_in_float32(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                               const at::Tensor& b_NK, const at::Tensor& b_scale_N, bool accumulate) {
  HEARTH_CHECK(out_MN.is_contiguous() && a_MK.is_contiguous() && b_NK.is_contiguous());
  const int64_t M = out_MN.size(0), N = out_MN.size(1), K = a_MK.size(1);
  HEARTH_CHECK(M % 16 == 0 && N % 16 == 0 && K % 16 == 0, "{} x {} x {}", M, N, K);
  HEARTH_CHECK(reinterpret_cast<uintptr_t>(out_MN.const_data_ptr()) % kAlignment == 0);
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, int64_t>, Plan> plans;
  const std::lock_guard lock(mutex);
  auto found = plans.find({M, N, K});
  if (found == plans.end()) found = plans.emplace(std::tuple(M, N, K), make_plan(M, N, K, a_scale_M, b_scale_N)).first;
  const Plan& plan = found->second;
  set_scales(plan, a_scale_M, b_scale_N);
  const at::Tensor workspace =
      at::empty({static_cast<int64_t>(plan.chosen.workspace_bytes)}, out_MN.options().dtype(at::kByte));
  const float one = 1, old = accumulate ? 1 : 0;
  check(library().api.Matmul(library().handle, plan.product.get(), &one, b_NK.const_data_ptr(), plan.b.get(),
                             a_MK.const_data_ptr(), plan.a.get(), &old, out_MN.const_data_ptr(), plan.out.get(),
                             out_MN.mutable_data_ptr(), plan.out.get(), &plan.chosen.algorithm,
                             workspace.mutable_data_ptr(), plan.chosen.workspace_bytes, gpu_stream()),
        "Matmul");
}

}  // namespace hearth::ops
