#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""questions.py FOLDER OUT.jsonl: multiple-choice questions from text that no model was trained on.

A question is the beginning of a paragraph, and its choices are the next word and three other frequent words of the
text. Whoever knows nothing answers a quarter of them. `hearth eval --task OUT.jsonl` reads the file.
"""
import collections
import json
import pathlib
import random
import sys

MOST = 400
WRONG = 3
FREQUENT = 40  # occurrences: such words are one token each, so that no choice is shorter than the others


def paragraphs(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.txt")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            words = paragraph.split()
            if paragraph[:1].isalpha() and len(words) >= 20:
                yield words


def main():
    found = list(paragraphs(sys.argv[1]))
    counts = collections.Counter(word for words in found for word in words if word.isalpha() and word.islower())
    vocabulary = sorted(word for word, count in counts.items() if count >= FREQUENT)
    numbers = random.Random(1)
    numbers.shuffle(found)
    places = [(words, at) for words in found for at in range(10, min(len(words), 40), 10) if words[at] in vocabulary]
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        for words, at in places[:MOST]:
            choices = numbers.sample([word for word in vocabulary if word != words[at]], WRONG)
            gold = numbers.randrange(WRONG + 1)
            choices.insert(gold, words[at])
            file.write(json.dumps({"query": " ".join(words[:at]), "choices": choices, "gold": gold}) + "\n")


main()
