# SPDX-License-Identifier: Apache-2.0
"""Models of other programs for tests of `hearth convert`, and comparisons with these programs.

foreign.py make OUT KEY=VALUE...   one random Llama: OUT/hf, OUT/meta-1, -2, -N (files=N), OUT/logits.safetensors
foreign.py meta-same A B           "equal", or the first difference of the files of Meta's folders
foreign.py neox OUT DIALECT TP PP   OUT/hf as GPT-NeoX has it: OUT/neox; DIALECT: slots (Llemma's) or split
foreign.py neox-same A B THETA      "equal", or the first difference of the layers' files of GPT-NeoX's folders
foreign.py nxd OUT TP PP NAMES KIND QKV   OUT/hf as NxD has it: OUT/nxd; NAMES: v1, v2, v3;
                                 KIND: plain, xser, pretrained, pretrained-xser; QKV: separate, module, fused, stride
foreign.py nxd-same A B            "equal", or the first difference of the files of NxD's folders
foreign.py logits OUT FOLDER...    the largest difference of the logits of Hugging Face folders from OUT/logits
foreign.py text OUT                OUT/logits as text: for each sequence its ids, then the logits after its last token
foreign.py same A B                "equal", or the first difference of the weights; .safetensors folders or .pth files
foreign.py rounded WHOLE FOLDER    "equal" if the DCP folder has exactly the other's weights in bfloat16
foreign.py opens HF                class, type and unexpected keys of a folder that transformers opens
foreign.py damage FOLDER WEIGHT ROWS   exchanges the first ROWS rows of a weight in model.safetensors with the next
foreign.py dcp FOLDER HF [0.3]     loads a folder with torch.distributed.checkpoint and compares it with HF
"""
import glob
import json
import os
import sys

import torch
from foreign_configs import config_of
from safetensors.torch import load_file, save_file

ORDER = {"tok_embeddings": "model.embed_tokens", "norm": "model.norm", "output": "lm_head"}
LAYER = {"attention.wq": "self_attn.q_proj", "attention.wk": "self_attn.k_proj", "attention.wv": "self_attn.v_proj",
         "attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj", "feed_forward.w2": "mlp.down_proj",
         "feed_forward.w3": "mlp.up_proj", "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}


def hearth_name(name):
    """By suffix, not by the table of Hearth's sources."""
    for ours, theirs in ORDER.items():
        if name == theirs + ".weight":
            return ours + ".weight"
    for ours, theirs in LAYER.items():
        if name.endswith(theirs + ".weight"):
            return f"layers.{name.split('.')[2]}.{ours}.weight"
    raise KeyError(name)


def interleaved(w, heads):
    """Rows (i, i + K/2) of a head to rows (2i, 2i + 1): the inverse of transformers' permute()."""
    K = w.shape[0] // heads
    return w.view(heads, 2, K // 2, w.shape[1]).transpose(1, 2).reshape(w.shape)


def meta_shard(whole, r, n, split_columns, keys):
    shard = {}
    for name, w in whole.items():
        leaf = name.split(".")[-2]
        if "norm" in leaf:
            shard[name] = w.clone()
        elif leaf in ("wk", "wv") and n > keys:
            shard[name] = w.chunk(keys)[r // (n // keys)].clone()
        else:
            dim = 1 if leaf in ("wo", "w2") or (leaf == "tok_embeddings" and split_columns) else 0
            shard[name] = w.chunk(n, dim)[r].clone()
    # As Meta's files have it: all tensors are views of one storage.
    flat, at, views = torch.cat([w.reshape(-1) for w in shard.values()]), 0, {}
    for name, w in shard.items():
        views[name] = flat[at:at + w.numel()].view(w.shape)
        at += w.numel()
    return views


def class_of(model_type):
    import transformers
    if model_type == "neobert":
        import neobert  # noqa: F401  registers its classes
    return transformers.AutoModelForMaskedLM if model_type.endswith("bert") else transformers.AutoModelForCausalLM


def make(out, *given):
    a = dict(D=96, H=6, G=2, K=0, F=112, V=130, L=3, theta=500000.0, scaled=0, tied=0, columns=0, positions=64,
             dtype="float32", type="llama", size="20KB", meta=1, files=2)
    for word in given:
        key, value = word.split("=")
        a[key] = type(a[key])(value)
    torch.manual_seed(11)
    config = config_of(a)
    model = class_of(config.model_type).from_config(config).float().eval()
    dtype = getattr(torch, a["dtype"])
    with torch.no_grad():
        for q in model.parameters():
            q.copy_((torch.randn_like(q) * 0.08 + (1 if q.dim() == 1 else 0)).to(dtype).float())
        for name, q in model.named_buffers():
            if name.endswith("correction_bias"):
                q.copy_(torch.randn_like(q) * 0.2)
        ids = torch.randint(0, a["V"], (2, 24), generator=torch.Generator().manual_seed(3))
        os.makedirs(out)
        save_file({"ids": ids, "logits": model(ids).logits.contiguous()}, out + "/logits.safetensors")
    model.to(dtype).save_pretrained(out + "/hf", max_shard_size=a["size"])
    if a["type"] == "neobert":
        from neobert import write_published_fields
        write_published_fields(out + "/hf/config.json", config, a["positions"])
    if not a["meta"]:
        return
    whole = {}
    for name, w in model.state_dict().items():
        ours = hearth_name(name)
        heads = a["H"] if ".wq." in ours else a["G"] if ".wk." in ours else 0
        whole[ours] = interleaved(w, heads) if heads else w
    for n in sorted({1, 2, a["files"]}):
        os.makedirs(f"{out}/meta-{n}")
        for r in range(n):
            shard = meta_shard(whole, r, n, a["columns"], a["G"])
            shard["rope.freqs"] = torch.ones(a["D"] // a["H"] // 2)
            torch.save(shard, f"{out}/meta-{n}/consolidated.{r:02d}.pth")
        params = {"dim": a["D"], "n_layers": a["L"], "n_heads": a["H"], "n_kv_heads": a["G"], "vocab_size": -1,
                  "multiple_of": 32, "norm_eps": 1e-5, "rope_theta": a["theta"]}
        if a["scaled"]:
            params["use_scaled_rope"] = True
        json.dump(params, open(f"{out}/meta-{n}/params.json", "w"))


def neox_qkv(q, k, v, K, slots):
    """GPT-NeoX's reshape turned around: per head [q | k | v], or all q, all k, all v."""
    heads, D = q.shape[0] // K, q.shape[1]
    if not slots and heads * K != k.shape[0]:
        return torch.cat([q, k, v])
    return torch.cat([w.reshape(heads, -1, D) for w in (q, k, v)], 1).reshape(-1, D)


def neox(out, dialect, tp, pp):
    config, hf, tp, pp = json.load(open(out + "/hf/config.json")), weights(out + "/hf"), int(tp), int(pp)
    L, K, step = config["num_hidden_layers"], config["head_dim"], out + "/neox/global_step2"
    os.makedirs(step)
    open(out + "/neox/latest", "w").write("global_step2")
    for r in range(tp):
        rows, columns = (lambda w: w.chunk(tp)[r].clone()), (lambda w: w.chunk(tp, 1)[r].clone())
        layers = {0: {"word_embeddings.weight": rows(hf["model.embed_tokens.weight"])},
                  L + 3: {"norm.scale": hf["model.norm.weight"]}}
        layers |= {} if config["tie_word_embeddings"] else {L + 4: {"final_linear.weight": rows(hf["lm_head.weight"])}}
        for i in range(L):
            def w(name):
                return hf[f"model.layers.{i}.{name}.weight"]
            qkv = [rows(w(f"self_attn.{x}_proj")) for x in "qkv"]
            layers[i + 2] = {"input_layernorm.scale": w("input_layernorm"),
                             "post_attention_layernorm.scale": w("post_attention_layernorm"),
                             "attention.query_key_value.weight": neox_qkv(*qkv, K, dialect == "slots"),
                             "attention.dense.weight": columns(w("self_attn.o_proj")),
                             "attention.rotary_emb.inv_freq": torch.ones(K // 2)}
            gate, up, down = rows(w("mlp.gate_proj")), rows(w("mlp.up_proj")), columns(w("mlp.down_proj"))
            layers[i + 2] |= ({"mlp.w1.weight": gate, "mlp.w3.weight": up, "mlp.w2.weight": down} if dialect == "slots"
                              else {"mlp.linear1.weight": torch.cat([up, gate]), "mlp.linear2.weight": down})
        state = {"module": None, "args": {"num_layers": L, "seed": 1.5}, "random": __import__("random").getstate(),
                 "numpy": __import__("numpy").random.get_state(), "torch": torch.get_rng_state()}
        if pp:
            for i, layer in layers.items():
                torch.save(layer, f"{step}/layer_{i:02d}-model_{r:02d}-model_states.pt")
        else:
            state["module"] = {f"sequential.{i}.{k}": v for i, layer in layers.items() for k, v in layer.items()}
        torch.save(state, f"{step}/mp_rank_{r:02d}_model_states.pt")


def neox_same(a, b, theta):
    """Rotary frequencies are compared with their formula."""
    names = sorted(name for name in os.listdir(a) if name.startswith("layer_"))
    if names != sorted(name for name in os.listdir(b) if name.startswith("layer_")):
        return print("other files")
    for name in names:
        theirs, ours = torch.load(f"{a}/{name}", weights_only=True), torch.load(f"{b}/{name}", weights_only=True)
        for layer in (theirs, ours):
            found = layer.pop("attention.rotary_emb.inv_freq", None)
            if found is not None and layer is ours:
                K = 2 * len(found)
                truth = (1.0 / (float(theta) ** (torch.arange(0, K, 2).double() / K))).float().to(found.dtype)
                torch.testing.assert_close(found, truth, rtol=0.01 if found.dtype == torch.bfloat16 else 1e-6, atol=0)
        if (difference := first_difference(theirs, ours)) != "equal":
            return print(name, difference)
    for name in os.listdir(a):
        if name.startswith("mp_rank_"):
            state = torch.load(f"{b}/{name}", weights_only=True)
            assert state["module"] is None and state["iteration"] == 0, state
    print("equal")


def tensor_reference():
    """torch_xla's class, which is not installed here: pickles have its name and its state {"tid": id}."""
    import types
    for name in ("torch_xla", "torch_xla.utils", "torch_xla.utils.serialization"):
        sys.modules.setdefault(name, types.ModuleType(name))
    module = sys.modules["torch_xla.utils.serialization"]
    module.TensorReference = type("TensorReference", (), {"__module__": module.__name__})
    return module.TensorReference


def with_copies(w, leaf, config, tp, r):
    """A rank's part as NxD's converter computes it for kv_size_multiplier = tp / keys."""
    H, G, K = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    if leaf in ("k_proj", "v_proj"):
        return w.repeat(tp // G, 1).chunk(tp)[r].clone()
    w = (w.t() if leaf == "o_proj" else w).reshape(-1, H // tp, K, w.shape[0 if leaf == "o_proj" else 1])
    groups = torch.arange(G) * tp // G
    w = torch.cat([w[groups + i] for i in range(tp // G)])[r].reshape(-1, w.shape[-1])
    return (w.t() if leaf == "o_proj" else w).clone().contiguous()


def nxd_rank(hf, config, tp, r, qkv):
    """One rank's tensors of the whole model. Joined matrices have the rank's rows of each part, one after another."""
    def part(name):
        if name.endswith("norm.weight"):
            return hf[name].clone()
        if tp > config["num_key_value_heads"] and "self_attn" in name:
            return with_copies(hf[name], name.split(".")[-2], config, tp, r)
        return hf[name].chunk(tp, 1 if name.split(".")[-2] in ("o_proj", "down_proj") else 0)[r].clone()
    rank = {}
    for name in hf:
        if "q_proj" in name and qkv in ("fused", "stride"):
            fused = "qkv_proj.weight_qkv" if qkv == "fused" else "qkv_proj.weight"
            rank[name.replace("q_proj.weight", fused)] = torch.cat([part(name.replace("q_proj", x + "_proj"))
                                                                    for x in "qkv"])
        elif name.split(".")[-2] in ("q_proj", "k_proj", "v_proj") and qkv != "separate":
            letter = name.split(".")[-2][0]
            if qkv == "module":
                rank[name.replace(f"{letter}_proj.weight", f"qkv_proj.weight_{letter}")] = part(name)
        elif "gate_proj" in name:
            rank[name.replace("gate_proj", "gate_up_proj")] = torch.cat([part(name), part(name.replace("gate", "up"))])
        elif "up_proj" not in name:
            rank[name] = part(name)
    for i in range(config["num_hidden_layers"]):
        rank[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = torch.ones(config["head_dim"] // 2)
    return rank


def nxd(out, tp, pp, names, kind, qkv):
    config, hf, tp, pp = json.load(open(out + "/hf/config.json")), weights(out + "/hf"), int(tp), int(pp)
    prefix = {"v1": "", "v2": "dp_rank_00_", "v3": "dp_rank_00_ep_rank_00_"}[names]
    root, pretrained = out + "/nxd", kind.startswith("pretrained")
    folder = root if pretrained else root + "/step_2/model"
    os.makedirs(folder)
    if not pretrained:
        open(root + "/newest", "w").write("step_1\nstep_2")
        torch.save({"epoch": 0, "cli_args": {"seq_len": 64}}, root + "/step_2/user_content.pt")
    per = -(-config["num_hidden_layers"] // pp)
    def stage_of(name):
        return int(name.split(".")[2]) // per if ".layers." in name else 0 if "embed_tokens" in name else pp - 1
    for r in range(tp):
        whole = nxd_rank(hf, config, tp, r, qkv)
        for s in range(pp):
            state = {k: v for k, v in whole.items() if stage_of(k) == s}
            name = f"{folder}/{prefix}tp_rank_{r:02d}_pp_rank_{s:02d}" + ("" if pretrained else ".pt")
            if kind == "pretrained":
                os.makedirs(name)
                torch.save({"model": state}, name + "/checkpoint.pt")
                continue
            if kind.endswith("xser"):
                os.makedirs(name + ".tensors")
                reference = tensor_reference()
                info = {}
                for tid, (k, v) in enumerate(list(state.items())):
                    torch.save(v, f"{name}.tensors/tensor_{tid}.pt")
                    info[tid] = {"dtype": v.dtype, "shape": v.shape, "expert_model_parallel": False}
                    state[k] = reference()
                    state[k].tid = tid
                if names == "v3":
                    torch.save(info, name + ".info.pt")
            torch.save({"model": state} if pretrained else state, name)


def nxd_file(path):
    """The tensors of a file as NxD reads them."""
    if not os.path.isdir(path + ".tensors"):
        state = torch.load(path, weights_only=True, mmap=True)
        return state.get("model", state)
    tensor_reference()
    state = torch.load(path, weights_only=False)
    state = state.get("model", state)
    info = torch.load(path + ".info.pt", weights_only=True) if "ep_rank" in path else None
    for name, reference in state.items():
        state[name] = torch.load(f"{path}.tensors/tensor_{reference.tid}.pt", weights_only=True)
        assert info is None or info[reference.tid] == {"dtype": state[name].dtype, "shape": state[name].shape,
                                                       "expert_model_parallel": False}
    return state


def files_of(folder):
    found = {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}
    return sorted(name for name in found if ".tensors/" not in name and not name.endswith(".info.pt"))


def nxd_same(a, b):
    if files_of(a) != files_of(b):
        return print("other files:", files_of(a), files_of(b))
    for name in files_of(a):
        theirs, ours = nxd_file(f"{a}/{name}"), nxd_file(f"{b}/{name}")
        theirs = {k: v for k, v in theirs.items() if "inv_freq" not in k}
        if (difference := first_difference(theirs, ours)) != "equal":
            return print(name, difference)
    print("equal")


def meta_same(a, b):
    names = sorted(name for name in os.listdir(a) if name.endswith(".pth"))
    if names != sorted(name for name in os.listdir(b) if name.endswith(".pth")):
        return print("other files")
    for name in names:
        if (difference := first_difference(weights(f"{a}/{name}"), weights(f"{b}/{name}"))) != "equal":
            return print(name, difference)
    print("equal")


def logits(out, *folders):
    truth, worst = load_file(out + "/logits.safetensors"), 0.0
    for folder in folders:
        kind = json.load(open(folder + "/config.json"))["model_type"]
        model = class_of(kind).from_pretrained(folder, dtype=torch.float32)
        with torch.no_grad():
            found = model(truth["ids"]).logits
        worst = max(worst, (found - truth["logits"]).abs().max().item())
    print(worst)


def text(out):
    truth = load_file(out + "/logits.safetensors")
    for ids, found in zip(truth["ids"], truth["logits"]):
        print(*ids.tolist())
        print(*found[-1].tolist())


def weights(path):
    if os.path.isdir(path):
        return {k: v for file in sorted(glob.glob(path + "/*.safetensors")) for k, v in load_file(file).items()}
    state = torch.load(path, weights_only=True, mmap=True)
    state.pop("rope.freqs", None)
    return state


def first_difference(a, b):
    if set(a) != set(b):
        return f"names: {sorted(set(a) ^ set(b))}"
    for name, w in a.items():
        if w.dtype != b[name].dtype or w.shape != b[name].shape or not torch.equal(w, b[name]):
            return f"{name}: {w.dtype} {tuple(w.shape)} and {b[name].dtype} {tuple(b[name].shape)}"
    return "equal"


def same(a, b):
    print(first_difference(weights(a), weights(b)))


def load_dcp(folder):
    import torch.distributed.checkpoint as checkpoint
    known = checkpoint.FileSystemReader(folder).read_metadata().state_dict_metadata
    found = {name: torch.zeros(m.size, dtype=m.properties.dtype) for name, m in known.items()}
    checkpoint.load(found, checkpoint_id=folder)
    return found


def rounded(whole, folder):
    weights = {n: w.to(torch.bfloat16) for n, w in load_dcp(whole).items() if not n.startswith("optimizer.")}
    print(first_difference(weights, load_dcp(folder)))


def opens(folder):
    from transformers import AutoModelForCausalLM
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, torch_dtype="auto")
    missing, other = info["missing_keys"], info["unexpected_keys"]
    print(type(model).__name__, model.dtype, len(missing), "missing", len(other), "other")


def damage(folder, name, rows):
    path = os.path.join(folder, "model.safetensors")
    tensors, n = load_file(path), int(rows)
    tensors[name] = torch.cat([tensors[name][n:2 * n], tensors[name][:n], tensors[name][2 * n:]])
    save_file(tensors, path, metadata={"format": "pt"})


def dcp(folder, hf, dialect="2025"):
    import torch.distributed.checkpoint as checkpoint
    config = json.load(open(hf + "/config.json"))
    heads = {"wq": config["num_attention_heads"], "wk": config["num_key_value_heads"]}
    truth = {}
    for name, w in weights(hf).items():
        ours = hearth_name(name)
        leaf = ours.split(".")[-2]
        truth[ours] = interleaved(w, heads[leaf]) if leaf in heads else w
    if dialect == "0.3":
        for name in list(truth):
            leaf = name.split(".")[-2]
            if leaf in ("wq", "wk", "wv"):
                truth[name.replace("attention.", "attention.qkv_linear.")] = truth.pop(name)
        truth["lm_head.weight"] = truth.pop("output.weight", truth["tok_embeddings.weight"])
    found = {name: torch.zeros_like(w) for name, w in truth.items()}
    checkpoint.load(found, checkpoint_id=folder)
    print(first_difference(truth, found))


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
