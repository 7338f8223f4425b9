# SPDX-License-Identifier: Apache-2.0
"""Reads the picture of loss curves as a browser does, and says which losses it shows.

usage: loss_curve_reference.py FILE.svg    one JSON object: of each class of polyline, lists of [step, loss]

The scale comes from the labels of the axes alone.
"""

import json
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def scale(labels):
    """From (pixel, value) of the outermost labels to a function from pixels to values."""
    (p0, v0), (p1, v1) = labels[0], labels[-1]
    return lambda pixel: v0 + (pixel - p0) * (v1 - v0) / (p1 - p0)


def main():
    root = tree.parse(sys.argv[1]).getroot()
    texts = root.findall(SVG + "text")
    step = scale([(float(t.get("x")), float(t.text)) for t in texts if t.get("class") == "step"])
    lines = [float(line.get("y1")) for line in root.findall(SVG + "line") if line.get("class") == "grid"]
    loss = scale(list(zip(lines, [float(t.text) for t in texts if t.get("class") == "loss"])))
    found = {}
    for polyline in root.findall(SVG + "polyline"):
        points = [[float(n) for n in pair.split(",")] for pair in polyline.get("points").split()]
        found.setdefault(polyline.get("class"), []).append([[step(x), loss(y)] for x, y in points])
    print(json.dumps(found))


main()
