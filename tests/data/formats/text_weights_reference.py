# SPDX-License-Identifier: Apache-2.0
"""Counts a text's tokens that begin before a place, by the offsets of the library `tokenizers`.

usage: text_weights_reference.py DOCUMENTS TOKENIZER...    One JSON a line for each document with the first tokenizer,
then with the next: [borders in bytes, number of tokens that begin before each, ids]

At a border one text of a document ends and the next begins. There is no border before a character that the tokenizer's
Unicode normalization could join to the one before it: the normalized text has no such place.
"""

import json
import random
import sys
import unicodedata

from tokenizers import Tokenizer


def documents_of(path):
    with open(path, "rb") as file:
        while size := file.read(4):
            yield file.read(int.from_bytes(size, "little")).decode()


def may_join(before, after):
    joined = unicodedata.normalize("NFC", before + after)
    apart = unicodedata.normalize("NFC", before) + unicodedata.normalize("NFC", after)
    return unicodedata.combining(after) != 0 or joined != apart


def print_documents(path, documents):
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    content["post_processor"] = None  # it may remove spaces from a token's offsets
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.encode_special_tokens = True
    rng = random.Random(11)
    for text in documents:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        borders = sorted({rng.randint(0, len(text)) for _ in range(3)})
        borders = [b for b in borders if b in (0, len(text)) or not may_join(text[b - 1], text[b])]
        counts = [sum(begin < border for begin, _ in encoding.offsets) for border in borders]
        print(json.dumps([[len(text[:b].encode()) for b in borders], counts, encoding.ids]))


for tokenizer_path in sys.argv[2:]:
    print_documents(tokenizer_path, list(documents_of(sys.argv[1])))
