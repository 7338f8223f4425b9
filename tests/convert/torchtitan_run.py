# SPDX-License-Identifier: Apache-2.0
"""torchtitan 0.3.0 on a CPU: its Llama, optimizer, schedule and CheckpointManager.

torchtitan_run.py train BASE TIED    4 steps, saved as BASE/checkpoint/step-4; then 4 more, saved as step-8
torchtitan_run.py resume THEIRS OURS TIED    resumes from the newest step in OURS/checkpoint, makes the steps that
                                     are missing to 8, and compares weights, moments and counts with step 8 of THEIRS
torchtitan_run.py start THEIRS FOLDER TIED   the same from FOLDER, its initial_load_path
TIED is true or false.
"""
import os
import socket
import sys

import torch
import torch.distributed as dist
import torchtitan.models.llama3 as llama3
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.models.common import ComplexRoPE, Embedding, Linear, RMSNorm
from torchtitan.models.llama3.model import Llama3Model

DIM, VOCABULARY = 64, 96


class Counts:
    step, ntokens_seen = 0, 0

    def state_dict(self):
        return {"step": self.step, "ntokens_seen": self.ntokens_seen}

    def load_state_dict(self, state):
        self.step, self.ntokens_seen = state["step"], state["ntokens_seen"]


class Loader:
    def state_dict(self):
        return {"dp_rank_0": b"position", "world_size": 1}

    def load_state_dict(self, state):
        raise AssertionError("excluded")


class Training:
    def __init__(self, base, tied, **checkpoint):
        layers = llama3._build_llama3_layers(
            n_layers=2, dim=DIM, n_heads=4, n_kv_heads=2, hidden_dim=128, fuse_qkv=True, attn_backend="flex",
            rope=ComplexRoPE.Config(dim=16, max_seq_len=128, theta=500000, scaling="llama"))
        self.model = Llama3Model.Config(
            dim=DIM, vocab_size=VOCABULARY, enable_weight_tying=tied, layers=layers,
            tok_embeddings=Embedding.Config(num_embeddings=VOCABULARY, embedding_dim=DIM,
                                            param_init=llama3._EMBEDDING_INIT),
            norm=RMSNorm.Config(normalized_shape=DIM, param_init=llama3._NORM_INIT),
            lm_head=Linear.Config(in_features=DIM, out_features=VOCABULARY,
                                  param_init=llama3._output_linear_init(DIM))).build()
        torch.manual_seed(5)
        for p in self.model.parameters():
            torch.nn.init.normal_(p, std=0.02)
        optimizer = default_adamw(lr=3e-4)
        optimizer.implementation = "fused"
        self.optimizer = optimizer.build(model_parts=[self.model])
        self.schedule = LRSchedulersContainer.Config(
            warmup_steps=3, decay_ratio=0.5, decay_type="cosine", min_lr_factor=0.1).build(
                optimizers=self.optimizer, training_steps=10)
        self.counts = Counts()
        config = CheckpointManager.Config(enable=True, folder="checkpoint", interval=1, last_save_model_only=False,
                                          keep_latest_k=0, **checkpoint)
        self.manager = config.build(dataloader=Loader(), model_parts=[self.model], optimizers=self.optimizer,
                                    lr_schedulers=self.schedule, states={"train_state": self.counts}, sd_adapter=None,
                                    base_folder=base)

    def steps_to(self, last):
        while self.counts.step < last:
            self.counts.step += 1
            self.counts.ntokens_seen += 1000
            generator = torch.Generator().manual_seed(self.counts.step)
            for p in self.model.parameters():
                p.grad = torch.randn(p.shape, generator=generator)
            self.optimizer.step()
            self.schedule.step()

    def state(self):
        return (dict(self.model.state_dict()) | self.optimizer.state_dict() | self.counts.state_dict() |
                self.schedule.state_dict())


def compare(a, b):
    assert set(a) == set(b), set(a) ^ set(b)
    for k, x in a.items():
        assert torch.equal(x, b[k]) if isinstance(x, torch.Tensor) else x == b[k], (k, x, b[k])
    print("equal")


def main(command, base, *rest):
    tied = rest[-1] == "true"
    if command == "train":
        training = Training(base, tied)
        for step in (4, 8):
            training.steps_to(step)
            training.manager.save(step)
        return
    options = {"exclude_from_loading": ["dataloader"]}
    truth = Training(base, tied, **options)
    truth.manager.load()
    assert truth.counts.step == 8
    if command == "start":
        options |= {"initial_load_path": rest[0], "initial_load_model_only": False}
    training = Training(rest[0] if command == "resume" else base + "-new", tied, **options)
    assert training.manager.load()
    assert training.counts.step == 4, training.counts.step
    training.steps_to(8)
    compare(truth.state(), training.state())


if __name__ == "__main__":
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1]), RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    main(*sys.argv[1:])
    dist.destroy_process_group()
