# SPDX-License-Identifier: Apache-2.0
"""mxfp4.py IN OUT [CHANGE]: the gpt-oss of IN (foreign.py's hf), with random experts of four bits as OpenAI released
them, in OUT/packed; and what transformers makes of these in OUT/truth. CHANGE: what is wrong with OUT/packed.

    no_scales   a tensor of scales is missing
    turned      blocks are [experts, inputs, ...] where inputs and outputs differ
    nan         a scale is 255
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import convert_moe_packed_tensors


def packed(shape, generator):
    """Blocks and scales of [experts, outputs, inputs]."""
    E, outputs, inputs = shape
    blocks = torch.randint(0, 256, (E, outputs, inputs // 32, 16), generator=generator, dtype=torch.uint8)
    # 6 times 2^126 is no number of bfloat16.
    scales = torch.randint(0, 253, (E, outputs, inputs // 32), generator=generator, dtype=torch.uint8)
    return blocks, scales


def save(folder, tensors, config):
    os.makedirs(folder)
    save_file(tensors, folder + "/model.safetensors", metadata={"format": "pt"})
    json.dump(config, open(folder + "/config.json", "w"))


def main(source, out, change=""):
    config = json.load(open(source + "/config.json"))
    generator = torch.Generator().manual_seed(5)
    truth, files = {}, {}
    for name in os.listdir(source):
        if name.endswith(".safetensors"):
            truth |= load_file(f"{source}/{name}")
    for name, tensor in truth.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            files[name] = tensor
            continue
        E, inputs, outputs = tensor.shape  # of the layout without quantization
        blocks, scales = packed((E, outputs, inputs), generator)
        truth[name] = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16)
        assert truth[name].shape == tensor.shape
        files[name + "_blocks"], files[name + "_scales"] = blocks, scales
    first = next(name for name in sorted(files) if name.endswith("_blocks"))
    if change == "no_scales":
        del files[first[:-len("blocks")] + "scales"]
    if change == "turned":
        files[first] = files[first].reshape(files[first].shape[0], -1, files[first].shape[1] // 32, 16).contiguous()
    if change == "nan":
        files[first[:-len("blocks")] + "scales"][1, 2, 0] = 255
    quantization = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}
    save(out + "/packed", files, config | {"quantization_config": quantization})
    save(out + "/truth", truth, config)


main(*sys.argv[1:])
