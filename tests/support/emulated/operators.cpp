// SPDX-License-Identifier: Apache-2.0
// ATen's operators on the emulated device. Each is a step of the current stream that runs the operator for CPUs on the
// same memory. Shapes of results come from a run on zeros.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/item.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <algorithm>

#include "support/emulated/memory.h"
#include "support/emulated/queues.h"

namespace hearth::test::emulated {
namespace {

using torch::jit::Stack;

bool is_here(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone();
}

// The same memory as a CPU's tensor. It does not own it: a device does not know who does.
at::Tensor seen_by_host(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.scalar_type()));
}

at::Tensor zeros_like(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_privateuseone()) return tensor;
  const auto bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), 1);
  return at::zeros({static_cast<int64_t>(bytes)}, at::TensorOptions().dtype(tensor.scalar_type()))
      .as_strided(tensor.sizes(), tensor.strides());
}

template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kCPU);
  return value;
}

template <class Change>
Stack changed(const Stack& arguments, const Change& change) {
  Stack result;
  for (const c10::IValue& value : arguments) result.push_back(changed(value, change));
  return result;
}

at::Device device_of(const Stack& arguments) {
  for (const c10::IValue& value : arguments) {
    if (is_here(value)) return value.toTensor().device();
    if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector())
        if (tensor.defined() && tensor.is_privateuseone()) return tensor.device();
  }
  return current_device();
}

Queue* queue_on(at::Device device) { return Queues::all().queue(device.index(), current_stream(device.index())); }

void enqueue(at::Device device, std::function<void()> run) {
  Queues::all().enqueue(queue_on(device), {.run = [run = std::move(run)] {
                          const c10::InferenceMode no_gradients;
                          run();
                        }});
}

// The arguments that the operator writes and returns; empty: it makes its results.
std::vector<size_t> written_results(const c10::FunctionSchema& schema) {
  std::vector<size_t> found;
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() == nullptr || !result.alias_info()->isWrite()) return {};
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::AliasInfo* const info = schema.arguments()[i].alias_info();
      if (info != nullptr && info->beforeSets() == result.alias_info()->beforeSets()) found.push_back(i);
    }
  }
  return found;
}

at::Tensor empty_on(at::Device device, const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(), at::TensorOptions().dtype(like.scalar_type()).device(device));
}

// Gives an empty out= argument the size of its result, as other devices do. Operators that are made of others use such
// arguments for what is between.
void size_outputs(const c10::OperatorHandle& op, const Stack& arguments, const std::vector<size_t>& written) {
  const auto is_empty = [&](size_t i) {
    return arguments[i].isTensor() && is_here(arguments[i]) && arguments[i].toTensor().numel() == 0;
  };
  if (std::none_of(written.begin(), written.end(), is_empty)) return;
  Stack results = changed(arguments, zeros_like);
  const c10::InferenceMode no_gradients;
  op.callBoxed(&results);
  for (size_t i = 0; i < written.size(); ++i) {
    const at::Tensor& result = results[i].toTensor();
    if (!is_empty(written[i]) || result.numel() == 0) continue;
    const at::Tensor& out = arguments[written[i]].toTensor();
    out.unsafeGetTensorImpl()->set_storage_keep_dtype(empty_on(out.device(), result).storage());
    out.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
  }
}

void call_late(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const Stack arguments = torch::jit::pop(*stack, schema.arguments().size());
  const at::Device device = device_of(arguments);
  const std::vector<size_t> written = written_results(schema);
  size_outputs(op, arguments, written);
  const Stack on_host = changed(arguments, [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.is_privateuseone() ? seen_by_host(tensor) : tensor;
  });
  if (!written.empty() || schema.returns().empty()) {
    enqueue(device, [op, on_host] {
      Stack values = on_host;
      op.callBoxed(&values);
    });
    for (const size_t i : written) stack->push_back(arguments[i]);
    return;
  }
  Stack shapes = changed(arguments, zeros_like);
  {
    const c10::InferenceMode no_gradients;
    op.callBoxed(&shapes);
  }
  std::vector<at::Tensor> results_on_host;
  for (const c10::IValue& shape : shapes) {
    TORCH_CHECK(shape.isTensor(), "the emulated device has no ", schema.name());
    const at::Tensor result = empty_on(device, shape.toTensor());
    results_on_host.push_back(seen_by_host(result));
    stack->push_back(result);
  }
  enqueue(device, [op, on_host, results_on_host] {
    Stack values = on_host;
    op.callBoxed(&values);
    for (size_t i = 0; i < results_on_host.size(); ++i) results_on_host[i].copy_(values[i].toTensor());
  });
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device.value_or(current_device()));
  return at::detail::empty_generic(sizes, device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device.value_or(current_device()));
  return at::detail::empty_strided_generic(
      sizes, strides, device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type.value_or(at::kFloat));
}

// As CUDA's: a copy from memory that is not pinned reads it at once. Other copies between host and device wait if they
// may block.
at::Tensor& copy_(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const at::Device device = to.is_privateuseone() ? to.device() : from.device();
  const at::Tensor& host = to.is_cpu() ? to : from;  // if one of them is there
  const bool pinned = host.is_cpu() && is_pinned(host.data_ptr());
  // A pinned block is kept by its uses, and not by a tensor of it.
  const auto seen = [&](const at::Tensor& tensor) {
    return tensor.is_cpu() && !pinned ? tensor : seen_by_host(tensor);
  };
  const at::Tensor reads = from.is_cpu() && !pinned ? from.clone() : seen(from), writes = seen(to);
  const void* const in_use = pinned ? host.data_ptr() : nullptr;
  if (pinned) use_begins(in_use);
  enqueue(device, [reads, writes, in_use] {
    writes.copy_(reads);
    if (in_use != nullptr) use_ends(in_use);
  });
  if (!non_blocking && (to.is_cpu() || pinned)) Queues::all().synchronize(queue_on(device));
  return to;
}

at::Scalar local_scalar_dense(const at::Tensor& value) {
  Queues::all().synchronize(queue_on(value.device()));
  return seen_by_host(value).item();
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&call_late>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", TORCH_FN(empty));
  library.impl("empty_strided", TORCH_FN(empty_strided));
  library.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  library.impl("view", TORCH_FN(at::native::view));
  library.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  library.impl("copy_", TORCH_FN(copy_));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

}  // namespace
}  // namespace hearth::test::emulated
