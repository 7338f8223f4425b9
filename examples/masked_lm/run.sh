#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/masked_lm/run.sh [OPTIONS]: a masked language model as on Frontier, with a twin that two cores train.

# shellcheck source-path=SCRIPTDIR source=../shared.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shared.sh"

say "text: Python's documentation and sources stand for Zyda-2's four parts, the Stack and FineMath"
find_text
sources=(dclm fineweb-edu dolma zyda stack-v2 finemath)
declare -A text=(
  [dclm]="$docs/library" [fineweb-edu]="$docs/whatsnew $docs/howto" [dolma]="$docs/c-api" [zyda]="$docs/faq $docs/using"
  [stack-v2]="$code/json $code/asyncio $code/email" [finemath]="$docs/reference")

say "tokenizer: 512 tokens, one of them the mask, in place of Llama-3.1's 128,256"
[ -f tokenizer.json ] ||
  run hearth tokenizer train --vocab-size 512 --out tokenizer.json --special-token "<|begin_of_text|>" \
    --special-token "<|end_of_text|>" --special-token "<|reserved_special_token_100|>" "$docs/library" "$docs/whatsnew"

say "data: each source in two parts, an array job; BOS and EOS around each document"
for source in "${sources[@]}"; do
  read -ra paths <<<"${text[$source]}"
  in_parts 2 hearth data build --out "data/$source" --tokenizer tokenizer.json --bos document --eos document \
    --validation 0.1 --shard-tokens 65536 --portion-bytes 65536 --include "*.txt" --include "*.py" "${paths[@]}"
done

say "plan: the real model of 1.4 B parameters on 512 GCDs of Frontier, replicate 2 x shard 32 x tensor 8"
run hearth plan "$root/configs/mlm_1b.toml" --device "MI250X GCD" --set parallelism.tensor_parallel_degree=8 \
  --set parallelism.data_parallel_replicate_degree=2 --set parallelism.data_parallel_shard_degree=32 \
  --set parallelism.zero_stage=3 --set training.local_batch_size=12 --json >plan.json
run hearth plan "$root/configs/mlm_1b.toml" --device "MI250X GCD" --gpus 512 --search --limit 3

say "train: the twin on one node, two ranks that share each layer (tensor parallel)"
submit twin.toml
until_step mlm 50
watch_run mlm
stop mlm

say "go on: on two nodes, each with the whole batch's half (data parallel) and two ranks for each layer"
submit twin.toml --set parallelism.data_parallel_shard_degree=2 --set training.threads=4
until_done mlm
watch_run mlm

say "evaluate: hidden tokens of held-out text, and a text with holes"
run hearth eval --checkpoint mlm
run hearth generate --checkpoint mlm --fill "The function returns [MASK] if the [MASK] is empty."

say "convert: to the names and files of the project's torchtitan, with moments and step"
[ -d dcp ] || run hearth convert --to dcp --verify mlm dcp

if [ -n "$push" ]; then
  say "publish: $push"
  run hearth push mlm --to "$push" --format native --private --license apache-2.0 --verify
fi
say "done: $out has report.html, plan.json, the run mlm and the folder dcp"
