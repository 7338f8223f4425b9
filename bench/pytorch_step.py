"""Times transformers.LlamaForCausalLM, eager, float32, AdamW: the same shape and the same work as `hearth bench step`.

Usage: pytorch_step.py [--steps 6] [--warmup 2] [--tuned-malloc]. Prints one JSON object. The shape is that of
bench/step.sh: 56 M parameters, 4 sequences of 1024 tokens.
"""

import argparse
import ctypes
import json
import statistics
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--warmup", type=int, default=2)
parser.add_argument("--tuned-malloc", action="store_true", help="keep freed blocks, as hearth-train does")
options = parser.parse_args()

if options.tuned_malloc:  # before torch allocates: M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD of malloc.h
    for parameter, value in ((-3, 32 << 20), (-1, 1 << 30), (-2, 16 << 20)):
        ctypes.CDLL("libc.so.6").mallopt(parameter, value)

import torch
from transformers import LlamaConfig, LlamaForCausalLM

B, S, V = 4, 1024, 32000
torch.manual_seed(0)
torch.set_flush_denormal(True)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=512, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408,
    vocab_size=V, max_position_embeddings=S, tie_word_embeddings=False, attn_implementation="sdpa")).float().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
tokens = torch.randint(V, (B, S))

times = []
for step in range(options.warmup + options.steps):
    start = time.perf_counter()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    loss.item()
    times.append(time.perf_counter() - start)
median_s = statistics.median(times[options.warmup:])
print(json.dumps({
    "what": "transformers eager" + (", tuned malloc" if options.tuned_malloc else ""),
    "parameters": sum(p.numel() for p in model.parameters()), "median_step_s": median_s,
    "tokens_per_second": B * S / median_s, "threads": torch.get_num_threads(), "torch": torch.__version__}))
