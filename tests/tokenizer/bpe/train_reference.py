# SPDX-License-Identifier: Apache-2.0
"""Trains and encodes with `tokenizers`, for tests/tokenizer/bpe/train_test.cpp.

train TEXT OUT VOCAB_SIZE PATTERN SPECIAL...   trains on the file TEXT as one document, saves OUT; PATTERN is a file
encode TOKENIZER TEXT                          prints the ids of the file TEXT
"""
import sys
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


command, *arguments = sys.argv[1:]
if command == "train":
    text, out, vocab_size, pattern, *special = arguments
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(read(pattern)), "isolated"),
         pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=int(vocab_size), min_frequency=2, special_tokens=special,
                                  show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([read(text)], trainer)
    tokenizer.save(out)
else:
    tokenizer, text = arguments
    tokenizer = Tokenizer.from_file(tokenizer)
    tokenizer.encode_special_tokens = True
    print(*tokenizer.encode(read(text), add_special_tokens=False).ids)
