#!/usr/bin/env bash
# bench/step.sh [ROUNDS]: tokens per second of one training step, Hearth beside transformers on PyTorch, in turns.
#
# The shape is what `hearth bench step` times by itself: 56 M parameters (D 512, 8 layers, 8/4 heads, F 1408, V 32000),
# 4 sequences of 1024 tokens, float32, all cores.
# Needs scripts/test.sh to have run once (the oracle environment). Timings of different runs do not compare; the ratios
# within one do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
for _ in $(seq "${1:-2}"); do
  build/release/bin/hearth bench step --steps 6 --warmup 2 --json
  .deps/oracle/bin/python bench/pytorch_step.py
  .deps/oracle/bin/python bench/pytorch_step.py --tuned-malloc
done
