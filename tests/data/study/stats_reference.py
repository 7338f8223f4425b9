# SPDX-License-Identifier: Apache-2.0
"""The statistics of a dataset of bytes, counted anew from its files by tests/data/shard/read_from_document.py.

usage: stats_reference.py DIR TOP     prints the JSON that `hearth data stats --json` must have for each split
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path


def main():
    reader = Path(__file__).parent.parent / "shard" / "read_from_document.py"
    found = json.loads(subprocess.run([sys.executable, reader, sys.argv[1]], capture_output=True, check=True).stdout)
    splits, earlier = [], set()
    for name, documents in found.items():
        texts = [d["text"].encode("latin-1") for d in documents]
        lengths = [len(d["text"]) + len(d["specials"]) for d in documents]
        counts = Counter(b for text in texts for b in text)
        counts.update(t for d in documents for t in d["specials"])
        seen, duplicates, duplicate_tokens = set(), 0, 0
        for text, length in zip(texts, lengths):
            duplicates += text in seen
            duplicate_tokens += length if text in seen else 0
            seen.add(text)
        bins = {}
        for length in lengths:
            least = 1
            while 2 * least <= length:
                least *= 2
            b = bins.setdefault(least, {"least": least, "most": 2 * least - 1, "documents": 0, "tokens": 0})
            b["documents"] += 1
            b["tokens"] += length
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: int(sys.argv[2])]
        splits.append({
            "name": name,
            "documents": len(texts),
            "tokens": sum(lengths),
            "text_bytes": sum(map(len, texts)),
            "shortest": min(lengths),
            "longest": max(lengths),
            "ids_used": len(counts),
            "duplicates": duplicates,
            "duplicate_tokens": duplicate_tokens,
            "in_earlier_splits": sum(text in earlier for text in texts),
            "lengths": [bins[least] for least in sorted(bins)],
            "most_frequent": [[token, count] for token, count in frequent],
        })
        earlier |= seen
    print(json.dumps(splits))


if __name__ == "__main__":
    main()
