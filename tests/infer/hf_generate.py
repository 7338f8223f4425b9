# SPDX-License-Identifier: Apache-2.0
"""Greedy texts of transformers, all prompts in one batch.

hf_generate.py HF PROMPTS.jsonl MAX_TOKENS OUT.jsonl: as `hearth generate --prompts` writes them, without seeds.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main(folder, prompts, max_tokens, out):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with open(prompts, encoding="utf-8") as file:
        texts = [json.loads(line)["prompt"] for line in file if line.strip()]
    # A prompt begins a document, which follows the end of another.
    ids = [[tokenizer.eos_token_id] + tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    longest = max(map(len, ids))
    rows = torch.tensor([[0] * (longest - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
    made = model.generate(rows, attention_mask=mask, do_sample=False, max_new_tokens=int(max_tokens), pad_token_id=0,
                          eos_token_id=tokenizer.eos_token_id)
    with open(out, "w", encoding="utf-8") as file:
        for text, row in zip(texts, made[:, longest:].tolist()):
            ended = tokenizer.eos_token_id in row
            row = row[: row.index(tokenizer.eos_token_id)] if ended else row
            file.write(json.dumps({"prompt": text, "text": tokenizer.decode(row, skip_special_tokens=True),
                                   "tokens": len(row), "stop": "eos" if ended else "length"}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
