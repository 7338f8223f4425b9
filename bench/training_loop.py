# SPDX-License-Identifier: Apache-2.0
"""What the programs on PyTorch that bench/step.py measures share: options, the loss in chunks, steps, their checks.

A step is forward, backward, clipping to a norm of 1 and fused AdamW, as in `hearth bench step`. With bfloat16 the
weights, moments and gradients stay float32 (autocast), as Hearth's do.
"""

import argparse
import contextlib
import json
import resource
import statistics
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_check import kernels_of, refuse, require_fast_kernels

# The order that torchtitan sets: on H100 and H200 cuDNN's attention is the fastest.
KERNEL_ORDER = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
IGNORED = -100  # as a label
SIZES = (("dim", 512), ("n-layers", 8), ("n-heads", 8), ("n-kv-heads", 4), ("hidden-dim", 1408), ("vocab-size", 32000),
         ("seq-len", 1024), ("local-batch-size", 4), ("steps", 6), ("warmup", 2))


def parser(description):
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in SIZES:
        made.add_argument(f"--{name}", type=int, default=value)
    made.add_argument("--accumulate", type=int, default=1, help="micro-batches a step")
    made.add_argument("--loss-chunk-tokens", type=int, default=2048)
    made.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    made.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    made.add_argument("--turns", action="store_true", help="as hearth bench step --turns")
    return made


def autocast(options):
    return torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16")


def cudnn_first(options):
    """On a CPU there is one kernel to choose from."""
    return sdpa_kernel(KERNEL_ORDER, set_priority=True) if options.device == "cuda" else contextlib.nullcontext()


def random_tokens(options):
    """Tokens [B, S] and their labels: the next token, and none for the last."""
    tokens = torch.randint(options.vocab_size, (options.local_batch_size, options.seq_len), device=options.device)
    labels = tokens.roll(-1, 1)
    labels[:, -1] = IGNORED
    return tokens, labels


class ChunkedLoss:
    """The output layer and the loss in chunks of tokens, so that the float32 logits of all tokens never exist."""

    def __init__(self, head, options, backend):
        def part(hidden_TD, labels_T):
            return torch.nn.functional.cross_entropy(head(hidden_TD).float(), labels_T, reduction="sum")

        self.part, self.options = torch.compile(part, backend=backend, fullgraph=True), options

    def backward(self, body, tokens, labels):
        """The mean loss of body(tokens) [B, S, D]; its gradients are added to those of all parameters."""
        with autocast(self.options):
            hidden = body(tokens)
        flat, size = hidden.detach().flatten(0, 1), self.options.loss_chunk_tokens
        scale = 1 / (labels.ne(IGNORED).sum() * self.options.accumulate)
        total, gradients = torch.zeros((), device=tokens.device), []
        for chunk, its_labels in zip(flat.split(size), labels.flatten().split(size)):
            chunk = chunk.detach().requires_grad_()
            with autocast(self.options):
                loss = self.part(chunk, its_labels) * scale
            loss.backward()
            gradients.append(chunk.grad)
            total += loss.detach()
        hidden.backward(torch.cat(gradients).view_as(hidden))
        return total


class Trainee:
    """A model under training. `micro_batch` adds gradients and returns a share of the loss; `whole_loss` has none."""

    def __init__(self, program, parameters, micro_batch, whole_loss, check):
        self.program, self.parameters, self.check = program, list(parameters), check
        self.micro_batch, self.whole_loss = micro_batch, whole_loss

    def gradients(self, options):
        return sum(self.micro_batch() for _ in range(options.accumulate))


def check_sizes(options):
    tokens, size = options.local_batch_size * options.seq_len, options.loss_chunk_tokens
    options.loss_chunk_tokens = size = min(size, tokens)
    if tokens % size:
        refuse(f"--loss-chunk-tokens {size}", f"{tokens} tokens have no chunks of {size}", "give a divisor")


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def peak_bytes(options):
    if options.device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def checked_facts(trainee, options, clean):
    """After the last step: the kernels of attention, and the loss with and without chunks and compilation."""
    found = {}
    kernels = kernels_of(lambda: found.update(loss=float(trainee.gradients(options))))
    with torch.no_grad(), autocast(options), torch.compiler.set_stance("force_eager"):
        whole = float(trainee.whole_loss())
    tolerance = 1e-5 if options.dtype == "float32" else 2e-3
    if not abs(found["loss"] - whole) <= tolerance * abs(whole):
        refuse(f"{trainee.program}: its loss is {found['loss']:.7g}, and {whole:.7g} without chunks and uncompiled",
               f"they differ by more than {tolerance:g} of the loss, so it computes something else", "mend the program")
    if clean:
        require_fast_kernels(kernels, trainee.program)
    return {"loss": found["loss"], "loss_unchunked": whole, "attention_kernels": kernels,
            "attention_mask": trainee.check.has_mask()}


def run(trainee, options, clean=True):
    """Takes the steps and prints one JSON object. `clean`: refuses attention that does more than it must."""
    optimizer = torch.optim.AdamW(trainee.parameters, lr=1e-4, weight_decay=0.1, fused=True)
    times, faults_before, graphs_before, first_step_end = [], 0, 0, 0
    for step in range(options.warmup + options.steps):
        if step == options.warmup:
            faults_before, graphs_before = faults(), trainee.check.graphs
        if options.turns:
            sys.stdin.readline()
        start = time.perf_counter()
        loss = trainee.gradients(options)
        torch.nn.utils.clip_grad_norm_(trainee.parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        times.append(time.perf_counter() - start)
        if step == 0:
            first_step_end = time.time()
            if clean:
                trainee.check.require_clean(trainee.program)
        if options.turns:
            print(times[-1], flush=True)
    if trainee.check.graphs > graphs_before:
        refuse(f"{trainee.program}: {trainee.check.graphs - graphs_before} graphs were compiled in timed steps",
               "their time is not a step's", "give --warmup more")
    median_s = statistics.median(times[options.warmup:])
    tokens = options.accumulate * options.local_batch_size * options.seq_len
    result = {"program": trainee.program, "parameters": sum(p.numel() for p in trainee.parameters),
              "median_step_s": median_s, "tokens_per_second": tokens / median_s, "memory_bytes": peak_bytes(options),
              "first_step_end": first_step_end, "page_faults_per_step": (faults() - faults_before) / options.steps,
              "threads": torch.get_num_threads()}
    print(json.dumps({**result, **checked_facts(trainee, options, clean)}))
