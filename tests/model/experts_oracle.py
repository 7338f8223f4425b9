# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts of transformers with our weights: logits, loss, gradients. experts_test.cpp writes the folders.

The balancing loss and the z-loss of the router are restated here, from arXiv 2412.19437 and 2202.08906."""
import json
import pathlib
import sys

import numpy as np
import torch
import transformers

CLASSES = {"qwen3_moe": "Qwen3Moe", "olmoe": "Olmoe", "mixtral": "Mixtral", "glm4_moe": "Glm4Moe",
           "afmoe": "Afmoe", "dots1": "Dots1", "minimax_m2": "MiniMaxM2", "ernie4_5_moe": "Ernie4_5_Moe",
           "deepseek_v3": "DeepseekV3", "gpt_oss": "GptOss"}
SIGMOID = ("glm4_moe", "afmoe", "dots1", "minimax_m2", "deepseek_v3")
GATE = "mlp.gate.e_score_correction_bias"
BIASES = {"glm4_moe": GATE, "dots1": GATE, "deepseek_v3": GATE, "afmoe": "mlp.expert_bias",
          "minimax_m2": "mlp.e_score_correction_bias",
          "ernie4_5_moe": "mlp.gate.moe_statics.e_score_correction_bias"}


def names_of(case):
    """Our name -> (the class's parameter, the expert's index in it or None, its rows or a function of the expert's)."""
    F, glm, gpt_oss = case["F"], case["family"] == "glm4_moe", case["family"] == "gpt_oss"
    norms, afmoe = case["family"] not in ("mixtral", "ernie4_5_moe", "gpt_oss"), case["family"] == "afmoe"
    latent = case["family"] == "deepseek_v3"
    names = {"tok_embeddings.weight": ("model.embed_tokens.weight", None, None),
             "norm.weight": ("model.norm.weight", None, None), "output.weight": ("lm_head.weight", None, None)}
    for i in range(case["L"]):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        names[ours + "attention_norm.weight"] = (theirs + "input_layernorm.weight", None, None)
        names[ours + "ffn_norm.weight"] = (theirs + "post_attention_layernorm.weight", None, None)
        if afmoe:
            names[ours + "attention.wg.weight"] = (theirs + "self_attn.gate_proj.weight", None, None)
            for a, b in (("post_attention_norm", "post_attention_layernorm"), ("ffn_norm", "pre_mlp_layernorm"),
                         ("post_ffn_norm", "post_mlp_layernorm")):
                names[f"{ours}{a}.weight"] = (f"{theirs}{b}.weight", None, None)
        if latent:
            pairs = [("wkv_a", "kv_a_proj_with_mqa"), ("kv_norm", "kv_a_layernorm"), ("wkv_b", "kv_b_proj"),
                     ("wo", "o_proj")]
            pairs += ([("wq_a", "q_a_proj"), ("q_a_norm", "q_a_layernorm"), ("wq_b", "q_b_proj")]
                      if case["latents"]["q_lora_rank"] else [("wq", "q_proj")])
            names |= {f"{ours}attention.{a}.weight": (f"{theirs}self_attn.{b}.weight", None, None) for a, b in pairs}
        for a, b in () if latent else (("wq", "q_proj"), ("wk", "k_proj"), ("wv", "v_proj"), ("wo", "o_proj")):
            names[f"{ours}attention.{a}.weight"] = (f"{theirs}self_attn.{b}.weight", None, None)
            if gpt_oss or (glm and a != "wo"):
                names[f"{ours}attention.{a}.bias"] = (f"{theirs}self_attn.{b}.bias", None, None)
        for norm in ("q_norm", "k_norm") if norms and not latent else ():
            names[f"{ours}attention.{norm}.weight"] = (f"{theirs}self_attn.{norm}.weight", None, None)
        if i < case["dense"]:
            for a, b in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
                names[f"{ours}feed_forward.{a}.weight"] = (f"{theirs}mlp.{b}.weight", None, None)
            continue
        if gpt_oss:
            names[ours + "attention.sinks"] = (theirs + "self_attn.sinks", None, None)
            names[ours + "moe.router.gate.bias"] = (theirs + "mlp.router.bias", None, None)
        router = {"afmoe": "mlp.router.gate.weight", "gpt_oss": "mlp.router.weight"}.get(case["family"],
                                                                                        "mlp.gate.weight")
        names[ours + "moe.router.gate.weight"] = (theirs + router, None, None)
        if case["family"] in BIASES:
            names[ours + "moe.expert_bias"] = (theirs + BIASES[case["family"]], None, None)
        if case["shared"] > 0:
            for a, b in (("w1", "gate_proj"), ("w3", "up_proj"), ("w2", "down_proj")):
                names[f"{ours}moe.shared_experts.{a}.weight"] = (f"{theirs}mlp.shared_experts.{b}.weight", None, None)
        for e in range(case["E"]):
            expert = f"{ours}moe.experts.{e}."
            if gpt_oss:  # [inputs, outputs], with gate and up in alternation
                gate_up, down = theirs + "mlp.experts.gate_up_proj", theirs + "mlp.experts.down_proj"
                names[expert + "w1.weight"] = (gate_up, e, lambda x: x[:, ::2].t())
                names[expert + "w3.weight"] = (gate_up, e, lambda x: x[:, 1::2].t())
                names[expert + "w2.weight"] = (down, e, lambda x: x.t())
                names[expert + "w1.bias"] = (gate_up + "_bias", e, lambda x: x[::2])
                names[expert + "w3.bias"] = (gate_up + "_bias", e, lambda x: x[1::2])
                names[expert + "w2.bias"] = (down + "_bias", e, lambda x: x)
                continue
            names[expert + "w1.weight"] = (theirs + "mlp.experts.gate_up_proj", e, slice(0, F))
            names[expert + "w3.weight"] = (theirs + "mlp.experts.gate_up_proj", e, slice(F, 2 * F))
            names[expert + "w2.weight"] = (theirs + "mlp.experts.down_proj", e, slice(None))
    return names


def model_of(case):
    F, count, norm = case["F"], {"num_experts": case["E"]}, {"norm_topk_prob": case["route_norm"]}
    more = {"qwen3_moe": {"head_dim": case["K"], "moe_intermediate_size": F, "intermediate_size": case["F_dense"],
                          "mlp_only_layers": list(range(case["dense"])), **count, **norm},
            "olmoe": {"intermediate_size": F, **count, **norm},
            "glm4_moe": {"head_dim": case["K"], "moe_intermediate_size": F, "intermediate_size": case["F_dense"],
                         "n_routed_experts": case["E"], "first_k_dense_replace": case["dense"], "attention_bias": True,
                         "use_qk_norm": True, "n_shared_experts": case["shared"], "n_group": case["groups"],
                         "topk_group": case["limited_groups"], "routed_scaling_factor": float(case["scale"]), **norm},
            "dots1": {"head_dim": case["K"], "moe_intermediate_size": F, "intermediate_size": case["F_dense"],
                      "n_routed_experts": case["E"], "first_k_dense_replace": case["dense"], "sliding_window": 7,
                      "max_window_layers": 1, "n_shared_experts": case["shared"], "n_group": case["groups"],
                      "topk_group": case["limited_groups"], "routed_scaling_factor": float(case["scale"]), **norm},
            "deepseek_v3": {"moe_intermediate_size": F, "intermediate_size": case["F_dense"],
                            "n_routed_experts": case["E"], "first_k_dense_replace": case["dense"],
                            "n_shared_experts": case["shared"], "n_group": case["groups"],
                            "topk_group": case["limited_groups"], "routed_scaling_factor": float(case["scale"]),
                            **case["latents"], **norm},
            "afmoe": {"head_dim": case["K"], "moe_intermediate_size": F, "intermediate_size": case["F_dense"],
                      "num_dense_layers": case["dense"], "num_shared_experts": case["shared"], **count,
                      "route_scale": float(case["scale"]), "sliding_window": 7, "global_attn_every_n_layers": 2,
                      "mup_enabled": True},
            "minimax_m2": {"head_dim": case["K"], "intermediate_size": F, "num_local_experts": case["E"],
                           "rotary_dim": case["K"] // 2},
            "ernie4_5_moe": {"head_dim": case["K"], "intermediate_size": case["F_dense"], "moe_intermediate_size": F,
                             "moe_num_experts": case["E"], "moe_layer_start_index": case["dense"],
                             "moe_num_shared_experts": case["shared"]},
            "gpt_oss": {"head_dim": case["K"], "intermediate_size": F, "num_local_experts": case["E"],
                        "sliding_window": 7},
            "mixtral": {"intermediate_size": F, "num_local_experts": case["E"], "sliding_window": None}}
    name = CLASSES[case["family"]]
    rope = {"rope_type": "default", "rope_theta": case["rope_theta"]}
    if case["mscale_all_dim"] > 0:
        rope |= {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 8, "mscale": 0.7,
                 "mscale_all_dim": case["mscale_all_dim"]}
    if case["family"] == "gpt_oss":
        rope |= {"rope_type": "yarn", "factor": 4.0, "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False,
                 "original_max_position_embeddings": 8}
    config = getattr(transformers, name + "Config")(
        hidden_size=case["D"], num_hidden_layers=case["L"], num_attention_heads=case["H"],
        num_key_value_heads=case["G"], vocab_size=case["V"], rms_norm_eps=case["norm_eps"],
        rope_parameters=rope, tie_word_embeddings=False,
        num_experts_per_tok=case["k"], pad_token_id=None, attn_implementation="eager", **more[case["family"]])
    return getattr(transformers, name + "ForCausalLM")(config).float().train()


def run(folder):
    case = json.loads((folder / "case.json").read_text())
    B, S, E, k = (case[key] for key in "BSEk")
    model = model_of(case)
    parameters = dict(model.named_parameters())
    parameters |= {name: buffer for name, buffer in model.named_buffers() if name.endswith("correction_bias")}
    names = names_of(case)
    theirs = {name for name, _, _ in names.values()}
    assert set(parameters) == theirs, set(parameters) ^ theirs

    def view(tensor, expert, rows):
        if expert is None:
            return tensor
        return rows(tensor[expert]) if callable(rows) else tensor[expert][rows]

    with torch.no_grad():
        for ours, (theirs, expert, rows) in names.items():
            to = view(parameters[theirs], expert, rows)
            to.copy_(torch.from_numpy(np.fromfile(folder / (ours + ".bin"), dtype=np.float32).reshape(to.shape)))
    routers = []  # of each layer: logits, and the chosen experts
    for name, module in model.named_modules():
        if name.endswith(("mlp.gate", "mlp.router")):
            module.register_forward_hook(lambda module, inputs, outputs: routers.append(
                (torch.nn.functional.linear(inputs[0].reshape(-1, case["D"]), getattr(module, "gate", module).weight,
                                            module.bias if case["family"] == "gpt_oss" else None),
                 outputs[2])))
    tokens = torch.from_numpy(np.fromfile(folder / "tokens.bin", dtype=np.int32).reshape(B, S)).long()
    labels = torch.from_numpy(np.fromfile(folder / "labels.bin", dtype=np.int32).reshape(B, S)).long()
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    total = loss
    assert len(routers) == case["L"] - case["dense"]
    for of_layer, experts in routers:
        scores = of_layer.softmax(-1)
        if case["family"] in SIGMOID:
            scores = of_layer.sigmoid()
            scores = scores / scores.sum(-1, keepdim=True)
        chosen = torch.zeros_like(scores).scatter(1, experts, 1.0)
        f = chosen.view(B, S, E).sum(1) * E / (k * S)
        total = total + case["balance"] * (f * scores.view(B, S, E).mean(1)).sum(-1).mean()
        total = total + case["z_loss"] * of_layer.logsumexp(-1).square().mean()
    total.backward()
    logits.detach().numpy().tofile(folder / "logits.bin")
    loss.detach().reshape(1).numpy().tofile(folder / "loss.bin")
    for ours, (theirs, expert, rows) in names.items():
        grad = parameters[theirs].grad
        grad = torch.zeros_like(parameters[theirs]) if grad is None else grad  # of the bias of experts
        view(grad, expert, rows).contiguous().numpy().tofile(folder / (ours + ".grad.bin"))


for argument in sys.argv[1:]:
    run(pathlib.Path(argument))
