# SPDX-License-Identifier: Apache-2.0
"""Times transformers.LlamaForCausalLM on random tokens: the same shape and the same work as `hearth bench step`.

One measurement of bench/step.py, which calls it. --compile is one of
  layers  each layer compiled by itself, as torchtitan does; on a GPU cuDNN's attention comes first; the loss in chunks
  eager   not compiled, full float32 logits
  whole   torch.compile(model), as most people write it. With PyTorch below 2.14 attention then has a mask.
layers and eager refuse to report a figure if attention gets a mask or repeated keys. Prints one JSON object.
"""

import contextlib

import torch
import transformers

import training_loop
from attention_check import AttentionCheck

NAMES = {"layers": "compiled by layer", "eager": "eager", "whole": "compiled whole, as most people write it"}


def made_model(options):
    torch.manual_seed(0)
    torch.set_flush_denormal(True)
    config = transformers.LlamaConfig(
        hidden_size=options.dim, num_hidden_layers=options.n_layers, num_attention_heads=options.n_heads,
        num_key_value_heads=options.n_kv_heads, intermediate_size=options.hidden_dim, vocab_size=options.vocab_size,
        max_position_embeddings=options.seq_len, tie_word_embeddings=False, use_cache=False,
        attn_implementation="sdpa")
    with torch.device(options.device):  # a GPU draws the weights in less time than a CPU
        model = transformers.LlamaForCausalLM(config)
    return model.float().train()


def trainee_of(options):
    model, check = made_model(options), AttentionCheck(options.n_kv_heads)
    tokens, labels = training_loop.random_tokens(options)

    def whole_loss(forward=model):
        return forward(input_ids=tokens, labels=tokens).loss

    def with_full_logits(forward):
        with training_loop.autocast(options):
            loss = whole_loss(forward) / options.accumulate
        loss.backward()
        return loss.detach()

    def eager():
        # Looks at the first step alone: it is slow Python around each operator.
        with check if check.calls == 0 else contextlib.nullcontext():
            return with_full_logits(model)

    if options.compile == "layers":
        for layer in model.model.layers:
            layer.compile(backend=check.backend, fullgraph=True)
        loss = training_loop.ChunkedLoss(model.lm_head, options, check.backend)

        def micro_batch():
            return loss.backward(lambda ids: model.model(input_ids=ids).last_hidden_state, tokens, labels)
    elif options.compile == "eager":
        micro_batch = eager
    else:
        compiled = torch.compile(model, backend=check.backend)

        def micro_batch():
            return with_full_logits(compiled)
    program = f"transformers {transformers.__version__}, {NAMES[options.compile]}"
    return training_loop.Trainee(program, model.parameters(), micro_batch, whole_loss, check)


def main():
    parser = training_loop.parser(__doc__)
    parser.add_argument("--compile", choices=tuple(NAMES), default="layers")
    options = parser.parse_args()
    training_loop.check_sizes(options)
    trainee = trainee_of(options)
    if options.compile == "layers":
        with training_loop.cudnn_first(options):
            training_loop.run(trainee, options)
    else:
        training_loop.run(trainee, options, clean=options.compile == "eager")


if __name__ == "__main__":
    main()
