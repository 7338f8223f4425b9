"""Times transformers.LlamaForCausalLM on random tokens: the same shape and the same work as `hearth bench step`.

One measurement of bench/step.py, which calls it: a step is forward, backward, clipping to a norm of 1 and fused AdamW.
With bfloat16 the weights, moments and gradients stay float32 (autocast), as Hearth's do. Prints one JSON object.
"""

import argparse
import json
import resource
import statistics
import sys
import time

parser = argparse.ArgumentParser()
for name, value in (("dim", 512), ("n-layers", 8), ("n-heads", 8), ("n-kv-heads", 4), ("hidden-dim", 1408),
                    ("vocab-size", 32000), ("seq-len", 1024), ("local-batch-size", 4), ("steps", 6), ("warmup", 2)):
    parser.add_argument(f"--{name}", type=int, default=value)
parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
parser.add_argument("--compile", action="store_true")
parser.add_argument("--turns", action="store_true", help="as hearth bench step --turns")
options = parser.parse_args()

import torch
from transformers import LlamaConfig, LlamaForCausalLM

B, S, V = options.local_batch_size, options.seq_len, options.vocab_size
torch.manual_seed(0)
torch.set_flush_denormal(True)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=options.dim, num_hidden_layers=options.n_layers, num_attention_heads=options.n_heads,
    num_key_value_heads=options.n_kv_heads, intermediate_size=options.hidden_dim, vocab_size=V,
    max_position_embeddings=S, tie_word_embeddings=False, attn_implementation="sdpa"))
model = model.float().to(options.device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
tokens = torch.randint(V, (B, S), device=options.device)
parameters = sum(p.numel() for p in model.parameters())
forward = torch.compile(model) if options.compile else model


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


times = []
for step in range(options.warmup + options.steps):
    if step == options.warmup:
        faults_before = faults()
    if options.turns:
        sys.stdin.readline()
    start = time.perf_counter()
    with torch.autocast(options.device, torch.bfloat16, enabled=options.dtype == "bfloat16"):
        loss = forward(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
    times.append(time.perf_counter() - start)
    if options.turns:
        print(times[-1], flush=True)
    if step == 0:
        first_step_end = time.time()
median_s = statistics.median(times[options.warmup:])
print(json.dumps({
    "parameters": parameters, "median_step_s": median_s, "tokens_per_second": B * S / median_s,
    "memory_bytes": torch.cuda.max_memory_allocated() if options.device == "cuda" else 0,
    "first_step_end": first_step_end, "page_faults_per_step": (faults() - faults_before) / options.steps,
    "threads": torch.get_num_threads()}))
