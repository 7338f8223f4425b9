#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ids of a text by the references, for tests/tokenizer/formats/tiktoken_test.cpp and bench/tokenizer.py.

    llama3_reference.py model-path
    llama3_reference.py ids TEXT_FILE OUT_FILE meta|plain|special|huggingface
    llama3_reference.py pieces PATTERN_FILE TEXT_FILE OUT_FILE BEHAVIOR INVERT
    llama3_reference.py categories OUT_FILE
    llama3_reference.py nfc OUT_TEXT OUT_NFC

ids: 32-bit numbers, by tiktoken with Meta's pattern; meta also cuts like Meta's code (restated here from its
description), special also parses special tokens. pieces: 64-bit ends of the pieces in bytes, by `tokenizers`' Split.
categories: for each code point the two letters of its general category, by tiktoken's engine, which has the Unicode
version of `tokenizers`. nfc: a text with every combining character in many places, and its NFC by `tokenizers`.
"""

import importlib.util
import os
import sys

import numpy as np

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")


def model_path():
    folder = importlib.util.find_spec("llama_models").submodule_search_locations[0]
    return os.path.join(folder, "llama3", "tokenizer.model")


def special_tokens(first):
    names = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1",
             "finetune_right_pad_id",
             "step_id", "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag", "image"]
    names += [f"reserved_special_token_{i}" for i in range(2, 256 - len(names) + 2)]
    return {f"<|{name}|>": first + i for i, name in enumerate(names)}


def encoding():
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    ranks = load_tiktoken_bpe(model_path())
    return tiktoken.Encoding("llama3", pat_str=PATTERN, mergeable_ranks=ranks,
                             special_tokens=special_tokens(len(ranks)))


def meta_parts(text):
    """Parts of at most 400,000 characters without a run of more than 25,000 (non-)space characters."""
    for start in range(0, len(text), 400_000):
        part = text[start:start + 400_000]
        begin, run = 0, 0
        for i, c in enumerate(part):
            run = run + 1 if i > 0 and c.isspace() == part[i - 1].isspace() else 1
            if run > 25_000:
                yield part[begin:i]
                begin, run = i, 1
        yield part[begin:]


def huggingface():
    """The same vocabulary in `tokenizers`: every split of a token is a merge, in the order of the tokens' ranks."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from tiktoken.load import load_tiktoken_bpe
    ranks = load_tiktoken_bpe(model_path())
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    spell = {token: "".join(letters[b] for b in token) for token in ranks}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        ways = [(ranks[token[:i]], ranks[token[i:]], token[:i], token[i:]) for i in range(1, len(token))
                if token[:i] in ranks and token[i:] in ranks]
        merges += [(spell[a], spell[b]) for _, _, a, b in sorted(ways)]
    tokenizer = Tokenizer(models.BPE({spell[t]: r for t, r in ranks.items()}, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERN), "isolated"),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False,
                                                                                use_regex=False)])
    return tokenizer


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def ids(text, how):
    if how == "huggingface":
        return huggingface().encode(text).ids
    enc = encoding()
    if how == "special":
        return enc.encode(text, allowed_special="all", disallowed_special=())
    parts = meta_parts(text) if how == "meta" else [text]
    return [i for part in parts for i in enc.encode_ordinary(part)]


def pieces(pattern, text, behavior, invert):
    from tokenizers import Regex, pre_tokenizers
    split = pre_tokenizers.Split(Regex(pattern), behavior, invert == "1")
    found = split.pre_tokenize_str(text)
    at = np.cumsum([0] + [len(c.encode()) for c in text], dtype=np.int64)
    return [place for _, (begin, end) in found for place in (at[begin], at[end])]


def categories(out):
    import tiktoken
    names = np.full(0x110000, "Cn")
    text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
    for name in "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co".split():
        # Only matches are encoded, byte by byte: the characters of this category, in order.
        enc = tiktoken.Encoding("bytes", pat_str=rf"\p{{{name}}}", mergeable_ranks={bytes([b]): b for b in range(256)},
                                special_tokens={})
        found = bytes(enc.encode_ordinary(text)).decode()
        names[np.frombuffer(found.encode("utf-32-le"), dtype=np.uint32)] = name
    with open(out, "w", encoding="ascii") as file:
        file.write("".join(names))


def nfc(out_text, out_nfc):
    """Every character, as it is and decomposed, then marks and starters in random order; with NFC by `tokenizers`."""
    import random
    import unicodedata
    from tokenizers import normalizers
    dice = random.Random(1)
    points = [c for c in range(0x20, 0x110000) if not 0xD800 <= c < 0xE000
              and unicodedata.category(chr(c)) not in ("Co", "Cn")]
    interesting = [c for c in points if unicodedata.combining(chr(c)) or unicodedata.decomposition(chr(c))]
    interesting += [*range(0x1100, 0x1200), *range(0xAC00, 0xAC80), *b"aeiou AEI"] * 3
    parts = [chr(c) for c in points] + [unicodedata.normalize("NFD", chr(c)) for c in interesting]
    parts += ["".join(chr(dice.choice(interesting)) for _ in range(dice.randint(2, 6))) for _ in range(60_000)]
    text = " ".join(parts)
    for path, content in ((out_text, text), (out_nfc, normalizers.NFC().normalize_str(text))):
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(content)


def main():
    command, *arguments = sys.argv[1:]
    if command == "model-path":
        print(model_path(), end="")
    elif command == "ids":
        text, out, how = arguments
        np.array(ids(read(text), how), dtype=np.uint32).tofile(out)
    elif command == "pieces":
        pattern, text, out, behavior, invert = arguments
        np.array(pieces(read(pattern), read(text), behavior, invert), dtype=np.uint64).tofile(out)
    elif command == "categories":
        categories(*arguments)
    elif command == "nfc":
        nfc(*arguments)


if __name__ == "__main__":
    main()
