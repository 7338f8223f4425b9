# SPDX-License-Identifier: Apache-2.0
"""Compares the page of `hearth data stats --plot` with the numbers of --json.

usage: page_reader.py PAGE STATS.json     prints "N splits", or fails with the differences
"""

import json
import re
import sys
import xml.etree.ElementTree as ElementTree

TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "small", "table", "tr", "th", "td",
        "svg", "text", "rect", "line", "polyline"}


def label_of(length):
    return str(length["least"]) if length["least"] == length["most"] else f"{length['least']} to {length['most']}"


def check_bars(svg, values, whole, labels=None):
    texts, rects = svg.findall("text"), svg.findall("rect")
    assert len(rects) == len(values) and len(texts) == 2 * len(values)
    widest = max(float(rect.get("width")) for rect in rects)
    for i, value in enumerate(values):
        assert abs(float(rects[i].get("width")) / widest - value / max(values)) < 1e-3, (i, value)
        assert texts[2 * i + 1].text == f"{value} ({100 * value / whole:.2f} %)", texts[2 * i + 1].text
        assert labels is None or texts[2 * i].text == labels[i], texts[2 * i].text


def check_curve(svg, ids_used, most):
    points = [tuple(map(float, point.split(","))) for point in svg.find("polyline").get("points").split()]
    assert points == sorted(points, key=lambda point: point[0]) and len(points) <= ids_used
    assert [y for _, y in points] == sorted(y for _, y in points), "counts rise"
    marks = [text.text for text in svg.findall("text")]
    assert marks.count("1") == 2 and ("10" in marks or max(ids_used, most) < 10), marks


def main():
    source = open(sys.argv[1], encoding="utf-8").read()
    assert source.startswith("<!DOCTYPE html>\n")
    assert not re.search(r"https?:|<script|<link|<img|url\(|@import|\son\w+=", source)
    page = ElementTree.fromstring(re.sub(r"<meta([^>]*)>", r"<meta\1/>", source.split("\n", 1)[1]))
    assert {element.tag for element in page.iter()} <= TAGS
    splits = json.load(open(sys.argv[2]))["splits"]
    body = page.find("body")
    assert [h2.text for h2 in body.findall("h2")] == [split["name"] for split in splits]
    pictures = body.findall("svg")
    assert len(pictures) == 4 * len(splits)
    for split, (documents, tokens, frequent, curve) in zip(splits, zip(*[iter(pictures)] * 4)):
        labels = [label_of(length) for length in split["lengths"]]
        check_bars(documents, [length["documents"] for length in split["lengths"]], split["documents"], labels)
        check_bars(tokens, [length["tokens"] for length in split["lengths"]], split["tokens"], labels)
        check_bars(frequent, [token["count"] for token in split["most_frequent"]], split["tokens"])
        check_curve(curve, split["ids_used"], split["most_frequent"][0]["count"])
    cells = [td.text for td in body.iter("td")]
    assert any(cell.startswith(f"{splits[0]['documents']}, of {splits[0]['shortest']} to ") for cell in cells), cells
    print(len(splits), "splits")


if __name__ == "__main__":
    main()
