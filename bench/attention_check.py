# SPDX-License-Identifier: Apache-2.0
"""What attention gets in a step on PyTorch. A figure is refused where it gets more work than a causal model needs.

With PyTorch below 2.14, transformers gives attention a dense mask and repeated keys when a model is compiled whole.
Then it computes the whole square, and on a GPU neither FlashAttention nor cuDNN takes it. A factor beside such a
program says nothing. This check reads the graphs that torch.compile makes, sees the calls of an eager step, and names
the kernels.
"""

import sys

import torch
from torch.overrides import TorchFunctionMode

ATTENTION = "scaled_dot_product_attention"
UNKNOWN = ("flex_attention", "flash_attn", "varlen_attn", "memory_efficient_attention")
PARAMETERS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
KERNEL_PREFIX = "aten::_scaled_dot_product_"
FAST_KERNELS = ("flash_attention", "flash_attention_for_cpu", "cudnn_attention")


def refuse(what, why, fix):
    """The form of the errors of src/base/error.h."""
    sys.exit(f"error: {what}\n  why: {why}\n  fix: {fix}")


def value_of(argument):
    """A tensor, or what stands for one in a graph of torch.compile."""
    return argument.meta.get("example_value") if isinstance(argument, torch.fx.Node) else argument


class AttentionCheck(TorchFunctionMode):
    """Notes the calls of attention in compiled graphs (`backend`) and, as a context, in eager code.

    `kv_heads`: the model's key and value heads. Keys with more heads were repeated.
    """

    def __init__(self, kv_heads):
        super().__init__()
        self.kv_heads, self.calls, self.graphs = kv_heads, 0, 0
        self.masks, self.repeated, self.unknown, self.not_causal = set(), set(), set(), False

    def backend(self, graph, inputs):
        """A backend for torch.compile: notes, then compiles with inductor."""
        self.see_graph(graph)
        return torch._dynamo.lookup_backend("inductor")(graph, inputs)

    def see_graph(self, graph):
        self.graphs += 1
        for module in graph.modules():
            if isinstance(module, torch.fx.GraphModule):
                for node in module.graph.nodes:
                    if node.op.startswith("call"):
                        self.see_call(node.target, node.args, node.kwargs)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.see_call(function, args, kwargs or {})
        return function(*args, **(kwargs or {}))

    def see_call(self, function, args, kwargs):
        name = getattr(function, "__name__", str(function))
        self.unknown |= {word for word in UNKNOWN if word in name}
        if ATTENTION not in name:
            return
        self.calls += 1
        given = {**dict(zip(PARAMETERS, args)), **kwargs}
        mask, key = value_of(given.get("attn_mask")), value_of(given["key"])
        if mask is not None or given.get("attn_mask") is not None:
            self.masks.add(tuple(getattr(mask, "shape", ("unknown shape",))))
        elif given.get("is_causal") is not True:
            self.not_causal = True
        if key.shape[-3] > self.kv_heads:
            self.repeated.add(key.shape[-3])

    def has_mask(self):
        return bool(self.masks)

    def findings(self):
        """What is wrong, in words; empty: causal attention without a mask and without repeated keys."""
        found = [f"attention gets a mask of {list(shape)}" for shape in sorted(self.masks)]
        found += [f"keys are repeated from {self.kv_heads} to {heads} heads" for heads in sorted(self.repeated)]
        found += [f"attention by {name}, which the check cannot read" for name in sorted(self.unknown)]
        if self.not_causal:
            found.append("attention is not causal")
        if not self.calls:
            found.append(f"no call of {ATTENTION} was seen")
        return found

    def require_clean(self, program):
        found = self.findings()
        if found:
            refuse(f"{program}: {'; '.join(found)}",
                   "it computes more than causal attention needs, or the check cannot see what it computes, so a "
                   "factor beside it would mislead",
                   "compile by layer (--compile layers), or teach bench/attention_check.py this form of attention")


def kernels_of(step):
    """Runs `step` under PyTorch's profiler. Returns the names of the kernels that its attention took."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True) as profile:
        step()
    names = {event.key for event in profile.key_averages() if event.key.startswith(KERNEL_PREFIX)}
    return sorted({name.removeprefix(KERNEL_PREFIX).removesuffix("_backward") for name in names})


def require_fast_kernels(kernels, program):
    slow = [name for name in kernels if name not in FAST_KERNELS]
    if slow or not kernels:
        refuse(f"{program}: attention ran by {', '.join(slow) or 'a kernel that the profiler does not name'}",
               f"only {', '.join(FAST_KERNELS)} leave out what a causal model does not need",
               "see what PyTorch's torch.nn.attention.sdpa_kernel says against the faster ones")
