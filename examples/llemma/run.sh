#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/llemma/run.sh [OPTIONS]: Llemma from text to published weights, with a twin that two cores train in a minute.

# shellcheck source-path=SCRIPTDIR source=../shared.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shared.sh"

say "text: Python's documentation and sources stand for the five sets of Llemma's mixture"
find_text
sources=(arxiv open-web-math algebraic-stack pile-sample redpajama-github)
declare -A text=(
  [arxiv]="$docs/whatsnew $docs/howto" [open-web-math]="$docs/library" [algebraic-stack]="$code/json $code/asyncio"
  [pile-sample]="$docs/reference $docs/c-api" [redpajama-github]="$code/email $code/unittest $code/http")

say "tokenizer: 2,048 tokens in place of Code Llama's 32,016"
[ -f tokenizer.json ] ||
  run hearth tokenizer train --vocab-size 2048 --out tokenizer.json "$docs/library" "$docs/whatsnew"

say "data: each set in four parts, an array job; GPT-NeoX splits by the documents' positions"
for source in "${sources[@]}"; do
  read -ra paths <<<"${text[$source]}"
  in_parts 4 hearth data build --out "data/$source" --tokenizer tokenizer.json --split 90,10,0 \
    --shard-tokens 131072 --portion-bytes 131072 --include "*.txt" --include "*.py" "${paths[@]}"
done

say "plan: the real Llemma 7B on the machine that trained it, 256 A100s, data 128 x tensor 2"
run hearth plan "$root/configs/llemma_7b.toml" --device A100 --set parallelism.data_parallel_shard_degree=128 \
  --set parallelism.tensor_parallel_degree=2 --set training.local_batch_size=4 --json >plan.json
run hearth plan "$root/configs/llemma_7b.toml" --device A100 --gpus 256 --search --limit 3

say "train: the twin on one node of two ranks"
submit twin.toml
until_step llemma 50
watch_run llemma
stop llemma

say "go on: on two nodes, four ranks"
submit twin.toml --set parallelism.data_parallel_shard_degree=4 --set training.threads=4
until_done llemma
watch_run llemma

say "evaluate: held-out text next to n-gram models, and questions from a text that was in no set"
run hearth eval --checkpoint llemma --ngram 3 --ngram 5
[ -f questions.jsonl ] || run /usr/bin/python3 "$root/examples/questions.py" "$docs/tutorial" questions.jsonl
run hearth eval --checkpoint llemma --task questions.jsonl

say "convert: to GPT-NeoX's format, as Llemma's branch reads it, for two ranks of tensor parallel"
[ -d neox ] || run hearth convert --to neox --to-qkv-layout slots --tensor-parallel 2 --verify llemma neox

if [ -n "$push" ]; then
  say "publish: $push"
  run hearth push llemma --to "$push" --format native --private --license apache-2.0 --verify
fi
say "done: $out has report.html, plan.json, the run llemma and the folder neox"
