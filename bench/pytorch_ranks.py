# SPDX-License-Identifier: Apache-2.0
"""Trains transformers.LlamaForCausalLM on random tokens by PyTorch's DDP or FSDP2 over gloo: one rank of several.

bench/distributed.py starts it by torch.distributed.run, beside `hearth train --ranks`: the same shape, one thread a
rank, fused AdamW, clipping to a norm of 1. Rank 0 prints tokens per second over all ranks: the median of the steps.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
for name in ("dim", "n-layers", "n-heads", "hidden-dim", "vocab-size", "seq-len", "local-batch-size", "steps",
             "warmup"):
    parser.add_argument(f"--{name}", type=int, required=True)
parser.add_argument("--sharding", choices=("ddp", "fsdp2"), required=True)
options = parser.parse_args()

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
torch.set_flush_denormal(True)
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=options.dim, num_hidden_layers=options.n_layers, num_attention_heads=options.n_heads,
    num_key_value_heads=options.n_heads, intermediate_size=options.hidden_dim, vocab_size=options.vocab_size,
    max_position_embeddings=options.seq_len, tie_word_embeddings=False, attn_implementation="sdpa")).float().train()
if options.sharding == "ddp":
    trained = DistributedDataParallel(model)
else:
    for layer in model.model.layers:
        fully_shard(layer)
    trained = fully_shard(model)
optimizer = torch.optim.AdamW(trained.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
tokens = torch.randint(options.vocab_size, (options.local_batch_size, options.seq_len))
times = []
for step in range(options.warmup + options.steps):
    start = time.perf_counter()
    trained(input_ids=tokens, labels=tokens).loss.backward()
    torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    dist.barrier()
    times.append(time.perf_counter() - start)
if dist.get_rank() == 0:
    tokens_of_step = options.local_batch_size * options.seq_len * dist.get_world_size()
    print(tokens_of_step / statistics.median(times[options.warmup:]))
dist.destroy_process_group()
