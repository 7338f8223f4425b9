#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of long runs: how long `hearth report` takes, how large it is, how fast a browser opens it.

    .deps/oracle/bin/python bench/report.py [--runs 5] [--steps 100000] [--rounds 4]

The runs are made up: noise around a falling loss, a validation every 1000 steps, a restart at half. "Opens" is the time
from the request until every chart is drawn, in Debian's headless Chromium, which draws in software.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
HEARTH = os.path.join(ROOT, "build/release/bin/hearth")


def record(step, steps):
    values = {"step": step, "loss": 2 + 8 / step ** 0.3 + random.gauss(0, 0.1), "grad_norm": random.random(),
              "lr": 1e-3 * (1 - step / steps) + 1e-5, "tokens": 4096 * step,
              "tokens_per_second": 3000 + 500 * random.random(), "mfu": 0.4, "first_sample": 8 * (step - 1),
              "samples": 8, "data_wait_s": 1e-5, "step_s": 0.7, "time": 1764083000.25 + step, "memory_bytes": 1 << 30}
    if step % 1000 == 0:
        values["validation_loss"] = 2 + 8 / step ** 0.3
    return values


def make_run(folder, steps):
    os.makedirs(folder)
    with open(os.path.join(folder, "metrics.jsonl"), "w") as file:
        for step in range(1, steps + 1):
            file.write(json.dumps(record(step, steps)) + "\n")
            if step == steps // 2:
                file.write(json.dumps({"event": "resume", "step": step, "time": 1764083000.5 + step}) + "\n")
    with open(os.path.join(folder, "config.toml"), "w") as file:
        file.write(f"[training]\nsteps = {steps}\n")


def seconds_to_open(browser, page_file):
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    start = time.monotonic()
    page.goto("file://" + page_file)
    page.wait_for_selector("body[data-drawn=yes]", state="attached", timeout=120000)
    seconds = time.monotonic() - start
    page.close()
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright  # scripts/setup.sh --oracle
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        runs = [os.path.join(folder, f"run-{number}") for number in range(options.runs)]
        for run in runs:
            make_run(run, options.steps)
        page = os.path.join(folder, "report.html")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium-headless-shell"),
                                             args=["--no-sandbox"])
        for _ in range(options.rounds):
            start = time.monotonic()
            subprocess.run([HEARTH, "report", *runs, "--out", page], check=True, capture_output=True)
            written = time.monotonic() - start
            print(f"written in {written:.2f} s, {os.path.getsize(page) / 1e6:.2f} MB, "
                  f"opens in {seconds_to_open(browser, page):.2f} s", flush=True)
        browser.close()


if __name__ == "__main__":
    main()
