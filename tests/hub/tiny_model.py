# SPDX-License-Identifier: Apache-2.0
"""tiny_model.py OUT: a random Llama in Hugging Face's format, with Python's own library alone."""
import json
import os
import random
import struct
import sys

D, H, F, L, V = 16, 2, 32, 2, 300


def main(out):
    shapes = {"model.embed_tokens.weight": [V, D], "model.norm.weight": [D], "lm_head.weight": [V, D]}
    for i in range(L):
        layer = f"model.layers.{i}."
        for name in "qkvo":
            shapes[f"{layer}self_attn.{name}_proj.weight"] = [D, D]
        for name in "gate", "up":
            shapes[f"{layer}mlp.{name}_proj.weight"] = [F, D]
        shapes[f"{layer}mlp.down_proj.weight"] = [D, F]
        for name in "input", "post_attention":
            shapes[f"{layer}{name}_layernorm.weight"] = [D]
    random.seed(3)
    header, data = {}, b""
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = struct.pack(f"<{count}f", *(random.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    os.makedirs(out)
    text = json.dumps(header).encode()
    with open(f"{out}/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": D, "num_attention_heads": H,
              "num_key_value_heads": H, "intermediate_size": F, "num_hidden_layers": L, "vocab_size": V,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "max_position_embeddings": 64, "hidden_act": "silu",
              "tie_word_embeddings": False, "torch_dtype": "float32"}
    with open(f"{out}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)


main(sys.argv[1])
