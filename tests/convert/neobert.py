# SPDX-License-Identifier: Apache-2.0
"""NeoBERT (arXiv 2502.19587) in PyTorch, with the names and shapes of its published files.

transformers has no such class: it runs the code of chandar-lab/NeoBERT, which tests cannot download. This module is
written from the paper, the published config.json and the list of its tensors: RMSNorm before each branch, queries, keys
and values of a head next to each other in one matrix, rotation of neighbours, SwiGLU of 2/3 of intermediate_size
rounded up to a multiple of 8, and a decoder with a bias. Importing it registers the classes with transformers.
"""
import json

import torch
import transformers
from torch.nn import Embedding, Linear, Module, ModuleList, RMSNorm
from torch.nn.functional import scaled_dot_product_attention, silu


class NeoBertConfig(transformers.PretrainedConfig):
    model_type = "neobert"

    def __init__(self, hidden_size=768, num_hidden_layers=28, num_attention_heads=12, intermediate_size=3072,
                 vocab_size=30522, norm_eps=1e-6, **others):
        super().__init__(**others)
        self.hidden_size, self.num_hidden_layers = hidden_size, num_hidden_layers
        self.num_attention_heads, self.intermediate_size = num_attention_heads, intermediate_size
        self.vocab_size, self.norm_eps = vocab_size, norm_eps


def rotated(x):
    """Elements (2i, 2i + 1) of position t turn by t / 10000^(2i / K). x: [B, S, heads, K]."""
    S, K = x.shape[1], x.shape[3]
    angles = torch.arange(S)[:, None] / 10000 ** (torch.arange(0, K, 2) / K)
    cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


class FeedForward(Module):
    def __init__(self, D, rows):
        super().__init__()
        self.w12, self.w3 = Linear(D, 2 * rows, bias=False), Linear(rows, D, bias=False)

    def forward(self, x):
        gate, up = self.w12(x).chunk(2, -1)
        return self.w3(silu(gate) * up)


class Block(Module):
    def __init__(self, config):
        super().__init__()
        D, self.heads = config.hidden_size, config.num_attention_heads
        self.qkv, self.wo = Linear(D, 3 * D, bias=False), Linear(D, D, bias=False)
        self.ffn = FeedForward(D, -(-(2 * config.intermediate_size // 3) // 8) * 8)
        self.attention_norm, self.ffn_norm = RMSNorm(D, config.norm_eps), RMSNorm(D, config.norm_eps)

    def forward(self, x):
        B, S, D = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(B, S, self.heads, -1).chunk(3, -1)
        heads = [t.transpose(1, 2) for t in (rotated(q), rotated(k), v)]
        x = x + self.wo(scaled_dot_product_attention(*heads).transpose(1, 2).reshape(B, S, D))
        return x + self.ffn(self.ffn_norm(x))


class NeoBert(Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = Embedding(config.vocab_size, config.hidden_size)
        self.transformer_encoder = ModuleList(Block(config) for _ in range(config.num_hidden_layers))
        self.layer_norm = RMSNorm(config.hidden_size, config.norm_eps)

    def forward(self, ids):
        x = self.encoder(ids)
        for block in self.transformer_encoder:
            x = block(x)
        return self.layer_norm(x)


class NeoBertForMaskedLM(transformers.PreTrainedModel):
    config_class = NeoBertConfig

    def __init__(self, config):
        super().__init__(config)
        self.model, self.decoder = NeoBert(config), Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids):
        return transformers.modeling_outputs.MaskedLMOutput(logits=self.decoder(self.model(input_ids)))


transformers.AutoConfig.register("neobert", NeoBertConfig)
transformers.AutoModelForMaskedLM.register(NeoBertConfig, NeoBertForMaskedLM)


def write_published_fields(path, config, positions):
    """config.json with the fields of the published model."""
    code = {"AutoConfig": "model.NeoBERTConfig", "AutoModelForMaskedLM": "model.NeoBERTLMHead"}
    fields = {name: getattr(config, name) for name in (
        "hidden_size", "intermediate_size", "norm_eps", "num_attention_heads", "num_hidden_layers", "vocab_size")}
    fields |= {"architectures": ["NeoBERTLMHead"], "auto_map": code, "classifier_init_range": 0.02,
               "decoder_init_range": 0.02, "dim_head": config.hidden_size // config.num_attention_heads,
               "embedding_init_range": 0.02, "kwargs": {"trust_remote_code": True}, "max_length": positions,
               "model_type": "neobert", "pad_token_id": 0, "torch_dtype": "float32", "trust_remote_code": True,
               "transformers_version": "4.48.2"}
    json.dump(fields, open(path, "w"))
