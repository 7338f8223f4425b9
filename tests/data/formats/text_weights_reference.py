"""Which tokens of a text begin before a place, by the offsets of the library `tokenizers`.

usage: text_weights_reference.py DOCUMENTS TOKENIZER...    One JSON a line for each document with the first tokenizer,
then with the next: [borders in bytes, number of tokens that begin before each, ids]

A border is where one text of a document ends and the next begins. None is put before a character that the Unicode
normalization of the tokenizer could join to the one before it, since there is no such place in the normalized text.
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
    content["post_processor"] = None  # may trim the spaces off a token's place
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
