# SPDX-License-Identifier: Apache-2.0
"""Best-fit packing as docs/data_format.md describes it.

usage: best_fit_reference.py SEQ_LEN GROUP FILE     FILE has one document's ids a line.
           Prints a line for each window: inputs, labels and document starts, separated by "|".
"""

import sys


def pieces_of(document, number, seq_len):
    for begin in range(0, len(document), seq_len):
        yield number, begin, min(begin + seq_len, len(document))


def windows_of(documents, first, seq_len):
    """Lists of (document, begin, end)."""
    whole, rest = [], []
    for number, document in enumerate(documents, first):
        for piece in pieces_of(document, number, seq_len):
            (whole if piece[2] - piece[1] == seq_len else rest).append([piece])
    rows = []  # [room, last change, pieces]
    for change, [piece] in enumerate(sorted(rest, key=lambda window: window[0][1] - window[0][2])):
        size = piece[2] - piece[1]
        fitting = [row for row in rows if row[0] >= size]
        if fitting:
            row = min(fitting, key=lambda row: (row[0], -row[1]))
        else:
            row = [seq_len, 0, []]
            rows.append(row)
        row[0] -= size
        row[1] = change
        row[2].append(piece)
    return whole + [row[2] for row in rows]


def main():
    seq_len, group = int(sys.argv[1]), int(sys.argv[2])
    documents = [list(map(int, line.split())) for line in open(sys.argv[3])]
    for first in range(0, len(documents), group):
        for window in windows_of(documents[first:first + group], first, seq_len):
            inputs, labels, starts = [], [], []
            for number, begin, end in window:
                document = documents[number]
                if labels and labels[-1] == -100 and begin == 0:
                    labels[-1] = document[0]
                starts.append(len(inputs))
                inputs += document[begin:end]
                labels += document[begin + 1:end + 1] + ([-100] if end == len(document) else [])
            padding = seq_len - len(inputs)
            print(*inputs, *[0] * padding, "|", *labels, *[-100] * padding, "|", *starts)


if __name__ == "__main__":
    main()
