# SPDX-License-Identifier: Apache-2.0
"""The loss of transformers.LlamaForCausalLM on rows of `datasets`, with the weights of a checkpoint of ours.

usage: label_loss.py write FOLDER
           writes rows of 32 ids below 258 with labels, some of them -100, to FOLDER (save_to_disk)
       label_loss.py loss CHECKPOINT ROWS SPEC WEIGHTS
           prints the mean over all labels that count, and their number, as JSON; also PyTorch's cross_entropy(weight=)
           with the weights of the .npy file WEIGHTS
  CHECKPOINT  a step-... folder, read by torch.distributed.checkpoint
  SPEC        JSON: L H G norm_eps rope_theta
"""

import json
import os
import random
import sys
import warnings

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")
warnings.simplefilter("ignore")  # torch warns that one process reads the checkpoint alone

import datasets  # noqa: E402

datasets.disable_progress_bars()


def write(folder):
    """The first token of a row has no label: Hugging Face never predicts it; we would, from the row before it."""
    rng = random.Random(3)
    rows = {"input_ids": [], "labels": []}
    for _ in range(16):
        ids = [rng.randrange(258) for _ in range(32)]
        prompt = rng.randrange(1, 30)
        rows["input_ids"].append(ids)
        rows["labels"].append([-100] * prompt + ids[prompt:])
    datasets.Dataset.from_dict(rows).save_to_disk(folder)


def loss(checkpoint, folder, spec_path, weights_path):
    import numpy
    import torch
    import torch.distributed.checkpoint as dcp
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(1)
    with open(spec_path) as file:
        spec = json.load(file)
    metadata = dcp.FileSystemReader(checkpoint).read_metadata().state_dict_metadata
    ours = {n: torch.empty(m.size, dtype=m.properties.dtype) for n, m in metadata.items() if hasattr(m, "size")
            and not n.startswith("optimizer.")}
    dcp.load(ours, checkpoint_id=checkpoint, no_dist=True)
    V, D = ours["tok_embeddings.weight"].shape
    config = LlamaConfig(
        hidden_size=D, num_hidden_layers=spec["L"], num_attention_heads=spec["H"], num_key_value_heads=spec["G"],
        vocab_size=V,
        intermediate_size=ours["layers.0.feed_forward.w1.weight"].shape[0], rms_norm_eps=spec["norm_eps"],
        rope_theta=spec["rope_theta"], attention_bias=False, mlp_bias=False, tie_word_embeddings=False)
    model = LlamaForCausalLM(config).float().eval()

    def halves(w, heads):  # our rotary pairs are neighbours
        K = w.shape[0] // heads
        return w.view(heads, K // 2, 2, D).transpose(1, 2).reshape(heads * K, D)

    theirs = {"model.embed_tokens.weight": ours["tok_embeddings.weight"], "model.norm.weight": ours["norm.weight"],
              "lm_head.weight": ours["output.weight"]}
    for i in range(spec["L"]):
        a, b = f"layers.{i}.", f"model.layers.{i}."
        theirs[b + "input_layernorm.weight"] = ours[a + "attention_norm.weight"]
        theirs[b + "post_attention_layernorm.weight"] = ours[a + "ffn_norm.weight"]
        theirs[b + "self_attn.q_proj.weight"] = halves(ours[a + "attention.wq.weight"], spec["H"])
        theirs[b + "self_attn.k_proj.weight"] = halves(ours[a + "attention.wk.weight"], spec["G"])
        for w, name in (("attention.wv", "self_attn.v_proj"), ("attention.wo", "self_attn.o_proj"),
                        ("feed_forward.w1", "mlp.gate_proj"),
                        ("feed_forward.w2", "mlp.down_proj"), ("feed_forward.w3", "mlp.up_proj")):
            theirs[f"{b}{name}.weight"] = ours[f"{a}{w}.weight"]
    model.load_state_dict(theirs)
    rows = datasets.load_from_disk(folder).with_format("torch")[:]
    ids, labels = rows["input_ids"], rows["labels"]
    with torch.no_grad():
        out = model(input_ids=ids, labels=labels)
        weights = torch.from_numpy(numpy.load(weights_path))
        weighted = torch.nn.functional.cross_entropy(out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(),
                                                     weight=weights)
    print(json.dumps({"loss": out.loss.item(), "counted": int((labels[:, 1:] != -100).sum()),
                      "weighted": weighted.item()}))


{"write": write, "loss": loss}[sys.argv[1]](*sys.argv[2:])
