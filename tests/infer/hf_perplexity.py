# SPDX-License-Identifier: Apache-2.0
"""Perplexity with a sliding window, as Transformers' page "Perplexity of fixed-length models" computes it.

hf_perplexity.py HF OUT.json WINDOW STRIDE FILE...: of the files' texts, each followed by EOS.
The page counts one token fewer than it scores for windows after the first where they overlap: "page" has its mean, and
"exact" the mean over all scored tokens.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder, out, window, stride, *files):
    window, stride = int(window), int(stride)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = []
    for file in files:
        with open(file, encoding="utf-8") as text:
            ids += tokenizer(text.read(), add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    ids = torch.tensor([ids])
    sums, counts, scored, before = 0.0, 0, 0, 0
    exact = 0.0
    for begin in range(0, ids.size(1), stride):
        end = min(begin + window, ids.size(1))
        inputs = ids[:, begin:end]
        targets = inputs.clone()
        targets[:, : before - begin] = -100
        before = end
        with torch.no_grad():
            loss = model(inputs, labels=targets).loss.double().item()
        valid = int((targets != -100).sum())
        shifted = int((targets[:, 1:] != -100).sum())
        if shifted > 0:
            sums, counts = sums + loss * (valid - 1), counts + valid - 1
            exact, scored = exact + loss * shifted, scored + shifted
        if end == ids.size(1):
            break
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"page": sums / counts, "exact": exact / scored, "scored": scored, "tokens": ids.size(1)}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
