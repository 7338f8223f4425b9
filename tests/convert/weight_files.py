# SPDX-License-Identifier: Apache-2.0
"""Folders of Hugging Face as programs leave them, for weight_files_test.cpp.

weight_files.py stale OUT        OUT/NAME: folders with files of several saves; OUT/NAME.truth: what transformers loads
weight_files.py wrapped OUT HF   OUT/NAME: HF's weights under names that wrappers changed
weight_files.py deep OUT HF      OUT/NAME: HF's weights below the key NAME of a dict
weight_files.py dcp OUT HF       OUT/NAME: folders of torch.distributed.checkpoint with Hugging Face's names
weight_files.py windows OUT      OUT/NAME: models with a window, and their logits beyond it
weight_files.py masked OUT       OUT/NAME: models with is_causal = false and the logits of transformers
weight_files.py towers OUT       OUT/NAME: models of text and pictures, and logits of texts
"""
import json
import os
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

SIZES = dict(vocab_size=130, hidden_size=96, intermediate_size=112, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2)


def model(seed, kind="Llama", **more):
    torch.manual_seed(seed)
    config = getattr(transformers, kind + "Config")(**SIZES, **more)
    made = getattr(transformers, kind + "ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for q in made.parameters():
            q.copy_(torch.randn_like(q) * 0.08 + (1 if q.dim() == 1 else 0))
    return made


def save_bin(folder, seed, parts):
    """As transformers 4 saved without safetensors."""
    state = model(seed).state_dict()
    os.makedirs(folder, exist_ok=True)
    names = list(state)
    if parts == 1:
        return torch.save(state, folder + "/pytorch_model.bin")
    places = {}
    for i in range(parts):
        file = f"pytorch_model-{i + 1:05d}-of-{parts:05d}.bin"
        part = names[i * len(names) // parts:(i + 1) * len(names) // parts]
        torch.save({name: state[name] for name in part}, f"{folder}/{file}")
        places |= {name: file for name in part}
    with open(folder + "/pytorch_model.bin.index.json", "w") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": places}, file)


def save(folder, seed, parts):
    size = "1GB" if parts == 1 else f"{200 // parts}KB"
    aside = folder + ".aside"
    model(seed).save_pretrained(aside, max_shard_size=size)
    shutil.copytree(aside, folder, dirs_exist_ok=True)  # save_pretrained itself removes the older files
    shutil.rmtree(aside)


def first_part(folder, ending):
    return sorted(name for name in os.listdir(folder) if "-00001-of-" in name and name.endswith(ending))[0]


def stale(out):
    save(out + "/new_whole", 1, 2), save(out + "/new_whole", 2, 1)
    save(out + "/part_missing", 1, 2), save(out + "/part_missing", 2, 1)
    os.remove(f"{out}/part_missing/{first_part(out + '/part_missing', '.safetensors')}")
    save(out + "/index_damaged", 2, 1)
    with open(out + "/index_damaged/model.safetensors.index.json", "w") as file:
        file.write("{]")
    save(out + "/parts_and_bin", 3, 2), save_bin(out + "/parts_and_bin", 4, 1)
    save(out + "/whole_and_bins", 5, 1), save_bin(out + "/whole_and_bins", 6, 2)
    save(out + "/bin_and_bins", 7, 1), os.remove(out + "/bin_and_bins/model.safetensors")
    save_bin(out + "/bin_and_bins", 8, 2), save_bin(out + "/bin_and_bins", 9, 1)
    save(out + "/bins", 7, 1), os.remove(out + "/bins/model.safetensors"), save_bin(out + "/bins", 8, 2)
    save(out + "/old_parts", 1, 3), save(out + "/old_parts", 2, 2)
    for name in os.listdir(out):
        loaded = transformers.AutoModelForCausalLM.from_pretrained(f"{out}/{name}", dtype=torch.float32)
        os.makedirs(f"{out}/{name}.truth")
        save_file({k: v.clone() for k, v in loaded.state_dict().items()}, f"{out}/{name}.truth/model.safetensors")


def deep(out, hf):
    for key in ("state_dict", "model"):
        os.makedirs(f"{out}/{key}")
        shutil.copy(hf + "/config.json", f"{out}/{key}")
        torch.save({"epoch": 3, key: load_file(hf + "/model.safetensors")}, f"{out}/{key}/pytorch_model.bin")


def wrapped(out, hf):
    state = load_file(hf + "/model.safetensors")

    def layers(name, part):
        return name.replace("model.layers.", "model.layers.").replace(".self_attn.", f".{part}self_attn.")
    styles = {
        "ddp": lambda n: "module." + n,
        "compiled": lambda n: "_orig_mod." + n,
        "compiled_ddp": lambda n: "_orig_mod.module." + n,
        "ddp_compiled": lambda n: "module._orig_mod." + n,
        "fsdp": lambda n: "_fsdp_wrapped_module." + layers(n, "_fsdp_wrapped_module."),
        "recomputed": lambda n: layers(n, "_checkpoint_wrapped_module."),
        "compiled_layers": lambda n: layers(n, "_orig_mod."),
        "lightning": lambda n: "_forward_module.model." + n,
        "accelerate": lambda n: "model." + n,
        "mixed": lambda n: n if "layers.0" in n else "module." + n,
        "inner": lambda n: n.removeprefix("model."),
    }
    for style, rename in styles.items():
        shutil.copytree(hf, f"{out}/{style}")
        save_file({rename(k): v for k, v in state.items()}, f"{out}/{style}/model.safetensors")
    # What no rule takes off, and two names of one weight.
    bad = {"student": {"student." + k: v for k, v in state.items()},
           "twice": state | {"module.model.norm.weight": state["model.norm.weight"].clone()},
           "peft": {"base_model.model." + k: v for k, v in state.items()}}
    meta = {"model.embed_tokens": "tok_embeddings", "self_attn.q_proj": "attention.wq",
            "self_attn.k_proj": "attention.wk"}

    def metas(name):
        for theirs, ours in meta.items():
            name = name.replace(theirs, ours)
        return name.removeprefix("model.")
    bad["meta"] = {metas(k): v for k, v in state.items()}
    for style, weights in bad.items():
        shutil.copytree(hf, f"{out}/{style}")
        save_file(weights, f"{out}/{style}/model.safetensors")


def dcp(out, hf):
    import torch.distributed.checkpoint as checkpoint
    state = load_file(hf + "/model.safetensors")
    for name, prefix in {"plain": "", "accelerate": "model.", "compiled": "_orig_mod."}.items():
        checkpoint.save({prefix + k: v for k, v in state.items()}, checkpoint_id=f"{out}/{name}")
    nested = {"model": dict(state)}  # as accelerate gives it to DCP
    checkpoint.save(nested, checkpoint_id=f"{out}/nested")
    checkpoint.save(state | {"module.lm_head.weight": state["lm_head.weight"].clone()}, checkpoint_id=f"{out}/twice")


def logits_of(made, length=24):
    ids = torch.randint(0, SIZES["vocab_size"], (2, length), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        return {"ids": ids, "logits": made(ids).logits.contiguous()}


def windows(out):
    made = {"mistral": model(1, "Mistral", sliding_window=32),
            "qwen2": model(2, "Qwen2", use_sliding_window=True, sliding_window=32, max_window_layers=0),
            "qwen3": model(3, "Qwen3", head_dim=16, use_sliding_window=True, sliding_window=32, max_window_layers=0)}
    for name, one in made.items():
        one.save_pretrained(f"{out}/{name}/hf")
        save_file(logits_of(one, 60), f"{out}/{name}/logits.safetensors")


def masked(out):
    for name, one in {"llama": model(1, is_causal=False), "olmo": model(2, "Olmo", is_causal=False, pad_token_id=None),
                      "qwen2": model(3, "Qwen2", is_causal=False),
                      "qwen3": model(4, "Qwen3", head_dim=16, is_causal=False),
                      "mistral": model(5, "Mistral", is_causal=False, sliding_window=32)}.items():
        one.save_pretrained(f"{out}/{name}/hf")
        save_file(logits_of(one), f"{out}/{name}/logits.safetensors")


def towers(out):
    """Models of text and pictures: OUT/NAME/hf, and the logits of texts without pictures."""
    sizes = {k: v for k, v in SIZES.items() if "token" not in k}
    eye = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2, image_size=28,
               patch_size=14)
    for name, kind, text, vision in (
            ("tied", "Mistral3", dict(model_type="mistral", sliding_window=None, head_dim=24), "pixtral"),
            ("untied", "Mistral3", dict(model_type="mistral", sliding_window=None, head_dim=24), "pixtral"),
            ("llava", "Llava", dict(model_type="llama"), "clip_vision_model")):
        torch.manual_seed(7)
        config = getattr(transformers, kind + "Config")(
            text_config=sizes | text, vision_config=eye | {"model_type": vision}, tie_word_embeddings=name == "tied")
        made = getattr(transformers, kind + "ForConditionalGeneration")(config).float().eval()
        made.save_pretrained(f"{out}/{name}/hf")
        save_file(logits_of(made), f"{out}/{name}/logits.safetensors")
    # As transformers names the tensors in memory since 4.52.
    shutil.copytree(f"{out}/untied", f"{out}/inner")
    state = {}
    for key, value in load_file(f"{out}/untied/hf/model.safetensors").items():
        if key.startswith("language_model.lm_head."):
            key = key.removeprefix("language_model.")
        elif key.startswith("language_model.model."):
            key = "model.language_model." + key.removeprefix("language_model.model.")
        else:
            key = "model." + key
        state[key] = value
    save_file(state, f"{out}/inner/hf/model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
