# SPDX-License-Identifier: Apache-2.0
"""Reads the lines of a file with Python's json: the test's independent reference.

usage: json_reference.py FILE KEY...     One JSON list a line: ["text", TEXT] or ["problem"].
"""

import json
import sys


def texts_at(value, rest):
    """The strings at a dotted path, through lists. Raises ValueError if the path does not exist."""
    if isinstance(value, list):
        return [text for item in value for text in texts_at(item, rest)]
    if rest == "":
        if not isinstance(value, str):
            raise ValueError
        return [value]
    if not isinstance(value, dict):
        raise ValueError
    if rest in value:
        return texts_at(value[rest], "")
    name, _, below = rest.partition(".")
    if name not in value:
        raise ValueError
    return texts_at(value[name], below)


def main():
    with open(sys.argv[1], "rb") as file:
        for line in file:
            line = line.rstrip(b"\r\n")
            if not line.strip(b" \t\r"):
                continue
            try:
                value = json.loads(line.decode("utf-8"))
                if not isinstance(value, dict):
                    raise ValueError
                parts = [text for key in sys.argv[2:] for text in texts_at(value, key)]
                text = "\n\n".join(parts)
                text.encode("utf-8")  # an unpaired surrogate is an error
                print(json.dumps(["text", text]))
            except (ValueError, RecursionError):
                print(json.dumps(["problem"]))


if __name__ == "__main__":
    main()
