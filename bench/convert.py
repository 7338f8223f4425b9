#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The time and the memory of a conversion of Llama-3 8B from Hugging Face's files, next to a copy by `cp`.

    python3 bench/convert.py [--folder DIR] [--layers 32] [--rounds 2] [--to native] [--bytes]

The model has the shapes of Llama-3 8B in bfloat16, and its files are holes: 16 GB that take no room. What is written
takes room: 16 GB at a time, which are deleted after each measurement. `cp` and `hearth convert` write in alternation to
the same disk, and both times end with the bytes on the disk. Elements are 0, which neither program treats otherwise.
With --bytes the files have random elements, which both programs read from the disk: `cp` then transfers each byte
twice, --to hf too, and --to native three times, because it reads back what it wrote.
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time

BIN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "build/release/bin/hearth")
D, H, G, F, V = 4096, 32, 8, 14336, 128256
FILE_BYTES = 5_000_000_000


def shapes(layers):
    kv = D // H * G
    found = {"model.embed_tokens.weight": [V, D]}
    for i in range(layers):
        at = f"model.layers.{i}."
        found |= {at + "input_layernorm.weight": [D], at + "mlp.down_proj.weight": [D, F],
                  at + "mlp.gate_proj.weight": [F, D], at + "mlp.up_proj.weight": [F, D],
                  at + "post_attention_layernorm.weight": [D], at + "self_attn.k_proj.weight": [kv, D],
                  at + "self_attn.o_proj.weight": [D, D], at + "self_attn.q_proj.weight": [D, D],
                  at + "self_attn.v_proj.weight": [kv, D]}
    return found | {"model.norm.weight": [D], "lm_head.weight": [V, D]}


def num_bytes(shape):
    return 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)


def finite_block():
    """Random numbers in bfloat16, none of them NaN or infinite."""
    block = bytearray(os.urandom(1 << 25))
    block[1::2] = block[1::2].translate(bytes(i & 0xbf for i in range(256)))
    return block


def forget(folder):
    """Drops the files from the page cache."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make(folder, layers, block=None):
    os.makedirs(folder)
    files, at = [[]], 0
    for name, shape in shapes(layers).items():
        if at + num_bytes(shape) > FILE_BYTES:
            files.append([])
            at = 0
        files[-1].append((name, shape))
        at += num_bytes(shape)
    weight_map = {}
    for i, tensors in enumerate(files):
        file, header, at = f"model-{i + 1:05d}-of-{len(files):05d}.safetensors", {}, 0
        for name, shape in tensors:
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + num_bytes(shape)]}
            weight_map[name] = file
            at += num_bytes(shape)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(os.path.join(folder, file), "wb") as out:
            out.write(len(text).to_bytes(8, "little") + text)
            missing = at if block else 0
            while missing > 0:
                missing -= out.write(block[:missing])
            out.truncate(8 + len(text) + at)
    total = sum(num_bytes(shape) for shape in shapes(layers).values())
    json.dump({"metadata": {"total_size": total}, "weight_map": weight_map},
              open(os.path.join(folder, "model.safetensors.index.json"), "w"))
    json.dump({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": V, "hidden_size": D,
               "intermediate_size": F, "num_hidden_layers": layers, "num_attention_heads": H, "num_key_value_heads": G,
               "hidden_act": "silu", "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
               "attention_bias": False, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 128000,
               "eos_token_id": 128001}, open(os.path.join(folder, "config.json"), "w"))
    return total


def timed(command, source, out):
    """Seconds until the bytes are on the disk, and the largest resident memory of the command in bytes."""
    subprocess.run(["sync"], check=True)
    forget(source)
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)} failed")
    subprocess.run(["sync", "--file-system", os.path.dirname(out)], check=True)
    seconds = time.monotonic() - start
    shutil.rmtree(out)
    return seconds, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where to work; by default a temporary folder")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--to", default="native")
    parser.add_argument("--bytes", action="store_true", help="random elements in place of holes")
    a = parser.parse_args()
    work = tempfile.mkdtemp(dir=a.folder)
    try:
        source, out = os.path.join(work, "hf"), os.path.join(work, "out")
        total = make(source, a.layers, finite_block() if a.bytes else None)
        copies, conversions, memory = [], [], 0
        for _ in range(a.rounds):
            copies.append(timed(["cp", "--recursive", "--sparse=never", source, out], source, out)[0])
            seconds, used = timed([BIN, "convert", "--to", a.to, source, out], source, out)
            conversions.append(seconds)
            memory = max(memory, used)
            print(f"cp {total / copies[-1] / 1e6:.0f} MB/s, hearth convert {total / seconds / 1e6:.0f} MB/s",
                  flush=True)
        print(f"{total / 1e9:.2f} GB to {a.to}: cp {total / min(copies) / 1e6:.0f} MB/s, hearth convert "
              f"{total / min(conversions) / 1e6:.0f} MB/s, {100 * min(copies) / min(conversions):.0f} % of cp; "
              f"at most {memory / 1e6:.0f} MB of memory")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
