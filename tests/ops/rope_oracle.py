# SPDX-License-Identifier: Apache-2.0
"""rope_oracle.py K LENGTH BETA POSITIONS PARAMETERS: cosines and sines of transformers for heads of K elements.

LENGTH: of the sequences. POSITIONS: a list. PARAMETERS: rope_parameters as JSON. For each position it prints the
cosine and the sine of each pair, times the attention factor, and then how Ministral 3 scales queries with BETA. All is
computed in float64: transformers' code names float32, which is not enough at late positions.
"""

import json
import sys

import torch
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

transformers.logging.set_verbosity_error()
K, length, beta = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
positions, parameters = json.loads(sys.argv[4]), json.loads(sys.argv[5])
config = transformers.LlamaConfig(hidden_size=K, num_attention_heads=1, head_dim=K, rope_parameters=dict(parameters),
                                  max_position_embeddings=length)
torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double
compute = ROPE_INIT_FUNCTIONS.get(parameters["rope_type"], Phi3RotaryEmbedding.compute_default_rope_parameters)
inv_freq, factor = compute(config, torch.device("cpu"), seq_len=length)
assert inv_freq.dtype == torch.float64
for position in positions:
    angle = position * inv_freq
    row = torch.stack([angle.cos(), angle.sin()], dim=1).flatten() * factor
    scale = get_llama_4_attn_scale(torch.tensor([[float(position)]]).double(), beta,
                                   parameters.get("original_max_position_embeddings", 1))
    print(*[f"{x:.17g}" for x in [*row.tolist(), scale.item()]])
