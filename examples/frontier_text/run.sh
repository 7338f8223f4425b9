#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/frontier_text/run.sh [OPTIONS]: Llama-3.1 on text as on Frontier, with a twin that two cores train.

# shellcheck source-path=SCRIPTDIR source=../shared.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shared.sh"

say "text: Python's documentation and sources stand for Zyda-2's four parts, the Stack and FineMath"
find_text
sources=(dclm fineweb-edu dolma zyda stack-v2 finemath)
declare -A text=(
  [dclm]="$docs/library" [fineweb-edu]="$docs/whatsnew $docs/howto" [dolma]="$docs/c-api" [zyda]="$docs/faq $docs/using"
  [stack-v2]="$code/json $code/asyncio $code/email" [finemath]="$docs/reference")

say "tokenizer: 2,048 tokens in place of Llama-3.1's 128,256"
[ -f tokenizer.json ] ||
  run hearth tokenizer train --vocab-size 2048 --out tokenizer.json "$docs/library" "$docs/whatsnew"

say "data: each source in two parts, an array job; BOS and EOS around each document"
for source in "${sources[@]}"; do
  read -ra paths <<<"${text[$source]}"
  in_parts 2 hearth data build --out "data/$source" --tokenizer tokenizer.json --bos document --eos document \
    --validation 0.1 --shard-tokens 65536 --portion-bytes 65536 --include "*.txt" --include "*.py" "${paths[@]}"
done

say "plan: the real Llama-3.1-8B on 512 GCDs of Frontier, replicate 2 x shard 32 x tensor 8"
run hearth plan "$root/configs/llama3_8b_text.toml" --device "MI250X GCD" --set parallelism.tensor_parallel_degree=8 \
  --set parallelism.data_parallel_replicate_degree=2 --set parallelism.data_parallel_shard_degree=32 \
  --set parallelism.zero_stage=3 --set training.local_batch_size=21 --json >plan.json
run hearth plan "$root/configs/llama3_8b_text.toml" --device "MI250X GCD" --gpus 512 --search --limit 3

say "the batch script that Frontier would get"
run hearth submit twin.toml --cluster frontier --account ABC123 --set parallelism.data_parallel_shard_degree=8 \
  --set training.local_batch_size=1 --set training.threads=8 --dry-run >frontier.job

say "train: the twin on one node, two ranks that share all weights (ZeRO-3, torchtitan's FSDP)"
submit twin.toml
until_step text 50
watch_run text
stop text

say "go on: on two nodes with a copy of the weights each (HSDP), four ranks"
submit twin.toml --set parallelism.data_parallel_replicate_degree=2 --set training.threads=4
until_done text
watch_run text

say "evaluate: held-out text next to n-gram models, and questions from a text that was in no source"
run hearth eval --checkpoint text --ngram 3 --ngram 5
[ -f questions.jsonl ] || run /usr/bin/python3 "$root/examples/questions.py" "$docs/tutorial" questions.jsonl
run hearth eval --checkpoint text --task questions.jsonl

say "convert: to Hugging Face's format, which transformers, lm_eval and vLLM open"
[ -d hf ] || run hearth convert --to hf --verify text hf

if [ -n "$push" ]; then
  say "publish: $push"
  run hearth push text --to "$push" --private --license llama3.1 --verify
fi
say "done: $out has report.html, plan.json, frontier.job, the run text and the folder hf"
