# SPDX-License-Identifier: Apache-2.0
"""Multiple choice with lm-evaluation-harness, offline.

lm_eval_scores.py model OUT: a random Llama with a tokenizer, and files of questions.
lm_eval_scores.py questions WORD...: scripts/lm_eval_task.py.
lm_eval_scores.py score HF TASK.jsonl SHOTS.jsonl SHOTS OUT.json: the harness's numbers for a model of transformers.
"""
import json
import os
import sys

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TRANSFORMERS_OFFLINE="1")

QUESTIONS = [
    ("Question: What is red?\nAnswer:", ["a rose", "the sea", "snow at noon", "gr\u00fcn"], 0),
    ("One token each.\nAnswer:", ["A", "B", "C", "D"], 2),
    ("A space at the end, ", ["here", "there"], 1),
    ("A no-break space\u00a0and one at the end\u00a0", ["x", "yy"], 0),
    ("", ["nothing before it", "at all"], 1),
    ("\u65e5\u672c\u8a9e:", ["\u732b\u304c\u597d\u304d", "\u72ac", "\U0001f600\U0001f600"], 0),
    ("long " * 40 + "end", ["the left side is cut", "because the window is short"], 1),
    ("</s>text of a special token", ["</s>", "plain"], 0),
    ("<s>begins with BOS", ["<s>", "plain"], 1),
    # White space at the end, which Llama-3's pattern joins with the text before it.
    ("A newline at the end.\nAnswer:\n", ["a rose", "the sea"], 0),
    ("Two of them.\nAnswer:\n\n", ["A", "\nB"], 1),
    ("Answer: \n", ["A", "B"], 0),
    ("Answer:\r\n", ["A", "B"], 1),
    ("a tab:\t", ["x", "\ty"], 0),
    ("many spaces   ", ["x", "   y"], 1),
    ("an ideographic space\u3000", ["\u732b", "\u72ac"], 0),
    ("a separator\x1c", ["x", "y"], 1),
    ("it", ["'s red", "'ll be"], 0),
    ("1", ["2 and 3", "23"], 1),
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
EXAMPLES = [("1 + 1 =", ["2", "3"], 0), ("2 + 2 =", ["5", "4"], 1), ("3 + 3 =", ["6", "7"], 0)]


def write(path, rows):
    with open(path, "w", encoding="utf-8") as file:
        for query, choices, gold in rows:
            file.write(json.dumps({"query": query, "choices": choices, "gold": gold}, ensure_ascii=False) + "\n")


def model(out):
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [query + " " + " ".join(choices) for query, choices, _ in QUESTIONS]
    texts += ["Answer:\n", "Answer:\n\n", "Answer:\r\n", "a tab:\t", "'s 'll  "] * 20
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=330, special_tokens=["<s>", "</s>"],
                                                             initial_alphabet=alphabet, show_progress=False))
    assert tokenizer.token_to_id(":\u010a") is not None
    torch.manual_seed(1)
    config = LlamaConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=48, intermediate_size=64,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         max_position_embeddings=96, initializer_range=0.2, bos_token_id=0, eos_token_id=1)
    LlamaForCausalLM(config).save_pretrained(f"{out}/hf")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(f"{out}/hf")
    write(f"{out}/task.jsonl", QUESTIONS)
    write(f"{out}/examples.jsonl", EXAMPLES)
    os.makedirs(f"{out}/tasks")
    with open(f"{out}/tasks/local.yaml", "w", encoding="utf-8") as file:
        json.dump(config_of(f"{out}/task.jsonl", f"{out}/examples.jsonl"), file)


def config_of(task, examples):
    return {"task": "local", "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": task, "dev": examples}},
            "test_split": "test", "fewshot_split": "dev", "fewshot_config": {"sampler": "first_n"},
            "output_type": "multiple_choice", "doc_to_text": "query", "doc_to_choice": "choices",
            "doc_to_target": "gold",
            "metric_list": [{"metric": name} for name in ("acc", "acc_norm", "acc_bytes")]}


def questions(*words):
    import runpy
    from pathlib import Path

    script = Path(__file__).resolve().parents[2] / "scripts/lm_eval_task.py"
    sys.argv = [str(script), *words]
    runpy.run_path(str(script), run_name="__main__")


def score(folder, task, examples, shots, out):
    import logging
    from lm_eval import simple_evaluate
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    logging.disable(logging.WARNING)
    config = config_of(task, examples) | {"num_fewshot": int(shots)}
    result = simple_evaluate(model=HFLM(pretrained=folder, device="cpu", dtype="float32", batch_size=3),
                             tasks=[ConfigurableTask(config=config)], log_samples=True, bootstrap_iters=0,
                             # Otherwise it reads the files of all its 13,000 tasks.
                             task_manager=TaskManager(include_defaults=False))
    samples = sorted(result["samples"]["local"], key=lambda sample: sample["doc_id"])
    numbers = {key.removesuffix(",none"): value for key, value in result["results"]["local"].items()}
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"results": {key: numbers[key] for key in ("acc", "acc_norm", "acc_bytes")},
                   "choices": [[[float(value), str(greedy) == "True"] for value, greedy in sample["filtered_resps"]]
                               for sample in samples]}, file)


if __name__ == "__main__":
    {"model": model, "questions": questions, "score": score}[sys.argv[1]](*sys.argv[2:])
