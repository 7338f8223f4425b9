# SPDX-License-Identifier: Apache-2.0
"""PAGE.html [SCREENSHOT.png]: opens the page in Chromium, uses it as a person does, and prints what happened as JSON.

{"errors": [...], "requests": [...], "draw_s": ...,
 "charts": {KEY: {"labels": [...], "points": ..., "ink": ..., "band": ...}},
 "whole": [LOW, HIGH], "zoomed": {KEY: [LOW, HIGH]}, "unzoomed": [LOW, HIGH], "log": true, "rows": {SECTION: [[...]]},
 "texts": {SECTION: TEXT}, "smoothed_change": ..., "hidden": ..., "images": [WIDTH, ...],
 "axis_labels": {KEY: [TEXT, ...]}, "x_labels": {KEY: [TEXT, ...]}, "highest": {KEY: VALUE},
 "events": {KEY: {"top": Y, "labels": [[TEXT, LEFT, TOP, RIGHT, BOTTOM, COLOUR], ...]}},
 "zoomed_events": as one of events, "events_of_the_rest": likewise, "rasters": [[LABEL, WIDTH, HEIGHT, INK], ...]}

Exit code 77: there is no browser here.
"""
import json
import shutil
import sys
import time

browser_path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
if browser_path is None:
    print("there is no Chromium: apt-get install chromium-headless-shell")
    sys.exit(77)
try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("there is no Playwright: scripts/setup.sh --oracle")
    sys.exit(77)

LIMIT_MS = 600_000  # on a busy machine Chromium's start alone takes longer than the usual 30 s

INK = """([key, least, most]) => {  // pixels of the chart with an opacity in this range, of 255
  let ink = 0;
  for (const canvas of document.querySelectorAll(`#chart-${key} canvas`)) {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 3; i < pixels.length; i += 4) ink += pixels[i] >= least && pixels[i] <= most;
  }
  return ink;
}"""
RASTERS = """() => [...document.querySelectorAll("#samples canvas, #experts canvas")].map(canvas => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let ink = 0;
  for (let i = 3; i < pixels.length; i += 4) ink += pixels[i] > 0;
  return [canvas.getAttribute("aria-label"), canvas.width, canvas.height, ink]; })"""
ROWS = """id =>
  [...document.querySelectorAll(`#${id} tr`)].map(row => [...row.children].map(cell => cell.textContent))"""
POINTS = """key => { const g = hearthReport.charts[key]; let points = 0;
  for (let i = 0; i < g.numRows(); ++i)
    points += g.getLabels().slice(1).some((_, column) => g.getValue(i, column + 1) !== null);
  return points; }"""
# The labels of restarts and rewinds, and the upper edge of the curves' area, in pixels of the page.
EVENTS = """key => { const top = document.querySelector(`#chart-${key} .canvas`).getBoundingClientRect().top;
  return {top: top + hearthReport.charts[key].getArea().y, labels: [...document.querySelectorAll(
    `#chart-${key} .event`)].map(label => { const box = label.getBoundingClientRect();
      return [label.textContent, box.left, box.top, box.right, box.bottom, getComputedStyle(label).color]; })}; }"""
HIGHEST = """key => { const g = hearthReport.charts[key]; let most = -Infinity;
  for (let i = 0; i < g.numRows(); ++i)
    for (let column = 1; column < g.numColumns(); ++column)
      most = Math.max(most, ...(g.getValue(i, column) || []));
  return most; }"""
MEANS = """() => { const g = hearthReport.charts.loss; const values = [];
  for (let i = 0; i < g.numRows(); ++i) { const v = g.getValue(i, 1); if (v) values.push(v[1]); } return values; }"""


def window(page, key):
    return page.evaluate("key => hearthReport.charts[key].xAxisRange()", key)


def main():
    found = {"errors": [], "requests": []}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"], timeout=LIMIT_MS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(LIMIT_MS)
        page.on("pageerror", lambda error: found["errors"].append(str(error)))
        page.on("console", lambda message: message.type == "error" and found["errors"].append(message.text))
        page.on("request", lambda request: found["requests"].append(request.url))
        start = time.monotonic()
        page.goto("file://" + sys.argv[1])
        page.wait_for_selector("body[data-drawn=yes]", state="attached")
        found["draw_s"] = time.monotonic() - start
        found["requests"] = [url for url in found["requests"] if url != "file://" + sys.argv[1]]
        keys = page.evaluate("Object.keys(hearthReport.charts)")
        found["charts"] = {key: {"labels": page.evaluate("key => hearthReport.charts[key].getLabels().slice(1)", key),
                                 "points": page.evaluate(POINTS, key),
                                 "ink": page.evaluate(INK, [key, 1, 255]),
                                 "band": page.evaluate(INK, [key, 44, 48])} for key in keys}
        if len(sys.argv) > 2:
            page.screenshot(path=sys.argv[2], full_page=True)
        found["texts"] = page.evaluate("Object.fromEntries([...document.querySelectorAll('section')]"
                                       ".map(s => [s.id, s.textContent]))")
        found["rows"] = {key: page.evaluate(ROWS, key) for key in found["texts"]}
        found["images"] = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        found["x_labels"] = {key: page.evaluate("""key => [...document.querySelectorAll(
            `#chart-${key} .dygraph-axis-label-x`)].map(label => label.textContent)""", key) for key in keys}
        found["highest"] = {key: page.evaluate(HIGHEST, key) for key in keys}
        found["events"] = {key: page.evaluate(EVENTS, key) for key in keys}
        found["axis_labels"] = {key: page.evaluate("""key => [...document.querySelectorAll(
            `#chart-${key} .dygraph-axis-label-y`)].map(label => label.textContent)""", key) for key in keys}
        found["rasters"] = page.evaluate(RASTERS)
        if "loss" in keys:
            use_charts(page, keys, found)
        browser.close()
    json.dump(found, sys.stdout)


def use_charts(page, keys, found):
    found["whole"] = window(page, "loss")
    page.locator("#chart-loss").scroll_into_view_if_needed()
    box = page.locator("#chart-loss .canvas").bounding_box()
    left, width = box["x"] + 80, box["width"] - 90
    y = box["y"] + box["height"] / 2
    page.mouse.move(left + 0.25 * width, y)
    page.mouse.down()
    page.mouse.move(left + 0.4 * width, y + 3, steps=4)
    page.mouse.move(left + 0.5 * width, y + 3, steps=4)
    page.mouse.up()
    found["zoomed"] = {key: window(page, key) for key in keys}
    found["zoomed_events"] = page.evaluate(EVENTS, "loss")
    page.mouse.dblclick(left + 0.5 * width, y)
    found["unzoomed"] = window(page, "loss")
    page.locator("#chart-loss figcaption input").check()
    found["log"] = page.evaluate("hearthReport.charts.loss.getOption('logscale')")
    page.locator("#chart-loss figcaption input").uncheck()
    before = page.evaluate(MEANS)
    choices = page.locator("#smoothing option").count()
    if choices > 1:
        page.locator("#smoothing").select_option(index=1)
        after = page.evaluate(MEANS)
        rough = lambda values: sum(abs(a - b) for a, b in zip(values, values[1:]))
        found["smoothed_change"] = rough(after) / rough(before)
    page.locator("#x-axis").select_option("tokens")
    found["tokens"] = window(page, "loss")
    page.locator("input[data-run='0']").uncheck()
    found["events_of_the_rest"] = page.evaluate(EVENTS, "loss")
    found["hidden"] = page.evaluate("hearthReport.charts.loss.visibility()")


main()
