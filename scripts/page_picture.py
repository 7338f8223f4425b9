#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A picture of a page of `hearth report`, as Chromium shows it.

usage: scripts/page_picture.py PAGE.html PICTURE.png [--width N] [--height N] [--dark] [--only ID,ID...]

The picture is the upper left part of the page, of so many pixels; --height 0 is the whole page. --only leaves these
sections and charts on it. It needs Chromium and Playwright (scripts/setup.sh --oracle).
"""
import argparse
import os
import shutil
import sys


def fail(what, fix):
    print(f"error: {what}\n  fix: {fix}", file=sys.stderr)
    sys.exit(2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("page", metavar="PAGE.html")
    parser.add_argument("picture", metavar="PICTURE.png")
    parser.add_argument("--width", type=int, default=1100, help="of the window, in pixels")
    parser.add_argument("--height", type=int, default=0, help="of the picture; 0: the whole page")
    parser.add_argument("--dark", action="store_true", help="the page for a dark desktop")
    parser.add_argument("--only", metavar="ID,ID", help="what is shown, such as runs,curves,chart-loss")
    options = parser.parse_args()
    browser_path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if browser_path is None:
        fail("there is no Chromium", "apt-get install chromium-headless-shell")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        fail("Playwright is not installed", "scripts/setup.sh --oracle, and take .deps/oracle/bin/python")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": options.width, "height": options.height or 1000},
                                color_scheme="dark" if options.dark else "light")
        page.goto("file://" + os.path.realpath(options.page))
        page.wait_for_selector("body[data-drawn=yes]", state="attached", timeout=60000)
        if options.only:
            page.evaluate("""ids => {
              for (const part of document.querySelectorAll("section, figure, footer"))
                if (!ids.includes(part.id)) part.remove();
            }""", options.only.split(","))
        page.screenshot(path=options.picture, full_page=options.height == 0)
        browser.close()
    print(f"wrote {options.picture}, {os.path.getsize(options.picture) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
