# SPDX-License-Identifier: Apache-2.0
"""What a reader sees in a picture of ranks' calls (src/report/flight_picture.h): prints a list of calls as JSON.

A call is [row, lane, begin in ms, end in ms, colour, text]. Pixels become milliseconds by the numbers at the axis.
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
root = ElementTree.parse(sys.argv[1]).getroot()
numbers = [(float(text.get("x")), float(text.text)) for text in root.iter(SVG + "text")
           if text.get("text-anchor") == "middle" and re.fullmatch(r"[0-9.e+-]+", text.text)]
(x0, ms0), (x1, ms1) = numbers[0], numbers[-1]
ranks = sorted((float(text.get("y")), text.text) for text in root.iter(SVG + "text") if text.text.startswith("rank "))


def milliseconds(x):
    return ms0 + (x - x0) * (ms1 - ms0) / (x1 - x0)


calls, tops = [], [y - 19 for y, _ in ranks]  # a rank's name is in the middle of its row
for rect in root.iter(SVG + "rect"):
    if rect.get("class") == "call":
        x, y, width = (float(rect.get(name)) for name in ("x", "y", "width"))
        row = max(i for i, top in enumerate(tops) if top <= y + 0.01)
        lane = round((y - tops[row]) / 10)
        calls.append([ranks[row][1], lane, milliseconds(x), milliseconds(x + width), rect.get("fill"),
                      rect.find(SVG + "title").text])
print(json.dumps({"calls": calls, "title": next(root.iter(SVG + "text")).text,
                  "steps": [rect.find(SVG + "title").text for rect in root.iter(SVG + "rect")
                            if rect.find(SVG + "title") is not None and rect.get("class") != "call"]}))
