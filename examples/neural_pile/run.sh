#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# examples/neural_pile/run.sh [OPTIONS]: spikes of the Neural Pile as on Frontier, with a twin that two cores train.

# shellcheck source-path=SCRIPTDIR source=../shared.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shared.sh"

say "recordings: 32 neurons x 300 bins of 20 ms, made here in place of neural-pile-primate; others for the test"
make() { run /usr/bin/python3 "$here/recordings.py" "$@"; }
[ -d recordings ] || make 1 60 recordings
[ -d unseen ] || make 2 6 unseen

say "data: counts as tokens, BOS before each time bin, in four parts, an array job"
in_parts 4 hearth data build --out data/primate --tokenizer spikes --validation 0.1 \
  --shard-tokens 32768 --portion-bytes 32768 recordings
run hearth data build --out data/unseen --tokenizer spikes unseen

say "plan: the real model of 7 B parameters, windows of 131,072 counts, on 512 GCDs of Frontier"
run hearth plan "$root/configs/neural_pile_primate_8b.toml" --device "MI250X GCD" \
  --set parallelism.tensor_parallel_degree=8 --set parallelism.data_parallel_replicate_degree=2 \
  --set parallelism.data_parallel_shard_degree=32 --set parallelism.zero_stage=3 --set training.local_batch_size=4 \
  --json >plan.json
run hearth plan "$root/configs/neural_pile_primate_8b.toml" --device "MI250X GCD" --gpus 512 --search --limit 3

say "train: the twin on one node, two ranks that share each layer (tensor parallel, as the project's)"
submit twin.toml
until_step primate 50
watch_run primate
stop primate

say "go on: on two nodes, ranks that share each window as well (context parallel, which torchtitan did not have then)"
submit twin.toml --set parallelism.context_parallel_degree=2 --set training.threads=4
until_done primate
watch_run primate

say "evaluate: recordings that were not trained on, next to n-gram models of counts"
run hearth eval --checkpoint primate --data unseen=data/unseen --split train --ngram 1 --ngram 2 --ngram 3

say "generate: the second half of an unseen recording"
run hearth generate --checkpoint primate --prompt unseen/row-000000.npy --context 150 --max-tokens 4950 \
  --out generated.npy --picture raster.png >logs/generate.log

say "convert: to the names and files of the project's torchtitan, with moments and step"
[ -d dcp ] || run hearth convert --to dcp --verify primate dcp

if [ -n "$push" ]; then
  say "publish: $push"
  run hearth push primate --to "$push" --format native --private --license apache-2.0 --verify
fi
say "done: $out has report.html, raster.png, plan.json, the run primate and the folder dcp"
