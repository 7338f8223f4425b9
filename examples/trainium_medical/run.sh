#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/trainium_medical/run.sh [OPTIONS]: Llama-2 on medical text as on Trainium, with a twin that two cores train.

# shellcheck source-path=SCRIPTDIR source=../shared.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shared.sh"

say "text: Python's C interface stands for Llama-2's text, Python's library for the medical papers"
find_text
[ -f tokenizer.json ] || run hearth tokenizer train --vocab-size 2048 --out tokenizer.json "$docs/library" "$docs/c-api"

say "data: an array job; BOS before each document and nothing after it, repeated documents left out"
rules=(--tokenizer tokenizer.json --bos document --eos none --dedup exact --drop-empty --validation 0.1
  --shard-tokens 131072 --portion-bytes 131072)
in_parts 2 hearth data build --out data/general "${rules[@]}" "$docs/c-api" "$docs/whatsnew"
in_parts 4 hearth data build --out data/medical "${rules[@]}" "$docs/library" "$docs/howto"

say "pack: rows of 256 tokens in place of 4,096, as the recipe's own trainer takes them (Hearth needs none)"
[ -d packed ] || run hearth data pack --length 256 --drop-tails 1000 --out packed data/medical

say "plan: the real Llama-2-7B; no plan knows Trainium, so 64 H100s with the recipe's batch"
run hearth plan "$root/configs/llama2_7b_medical.toml" --device H100 --gpus 64 --json >plan.json
run hearth plan "$root/configs/llama2_7b_medical.toml" --device H100 --gpus 64 --search --limit 3

say "start: a model that knows general text, in Hugging Face's format, stands for Llama-2-7b-hf"
if [ ! -d llama2 ]; then
  run hearth train twin.toml --set job.dump_folder=general --set data.path=data/general --set training.steps=60 \
    --set checkpoint.initial_load_path= >logs/general.log
  run hearth convert --to hf general llama2
fi

say "train: the twin on one node of two ranks"
submit twin.toml
until_step medical 50
watch_run medical
stop medical

say "go on: with one rank"
submit twin.toml --set parallelism.data_parallel_shard_degree=1 --set training.threads=1
until_done medical
watch_run medical

say "evaluate: held-out text next to n-gram models, and questions from a text that was not trained on"
run hearth eval --checkpoint medical --ngram 3 --ngram 5
[ -f questions.jsonl ] || run /usr/bin/python3 "$root/examples/questions.py" "$docs/tutorial" questions.jsonl
run hearth eval --checkpoint medical --task questions.jsonl

say "convert: to NxD's format for four ranks, and from there to one folder of Hugging Face, as the recipe does"
[ -d nxd ] || run hearth convert --to nxd --tensor-parallel 4 --verify medical nxd
[ -d hf ] || run hearth convert --to hf --config twin.toml --tokenizer tokenizer.json --verify nxd hf

if [ -n "$push" ]; then
  say "publish: $push"
  run hearth push medical --to "$push" --private --license llama2 --verify
fi
say "done: $out has report.html, plan.json, the run medical and the folders packed, nxd and hf"
