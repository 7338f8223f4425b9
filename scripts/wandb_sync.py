#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends the metrics of a run to Weights & Biases, from its metrics.jsonl.

usage: scripts/wandb_sync.py RUN [--project NAME] [--name NAME] [--offline] [--follow]

RUN is a run folder. Call it again to go on: RUN/wandb.json has the id of the run at W&B and the place in metrics.jsonl
up to which it was sent. Steps that a resume or rewind repeats are sent again, at later steps of W&B's own: the metrics
have the step of the training as "step", which is the x axis. --offline writes W&B's files to RUN/wandb without a
network; `wandb sync` of that package uploads them later. --follow goes on until the run is done or Ctrl-C.

It needs the package wandb (pip install wandb); `hearth` itself does not.
"""
import argparse
import json
import os
import sys
import time
import tomllib
import uuid

NOT_SENT = {"step", "event", "skipped"}


def fail(what, fix):
    print(f"error: {what}\n  fix: {fix}", file=sys.stderr)
    sys.exit(2)


def read_state(path):
    if not os.path.exists(path):
        return {"id": uuid.uuid4().hex[:12], "offset": 0}
    try:
        with open(path) as file:
            state = json.load(file)
        if state["offset"] < 0:
            raise ValueError("a place before the file")
        return {"id": str(state["id"]), "offset": int(state["offset"])}
    except (ValueError, KeyError, TypeError):
        fail(f"{path} is damaged", "remove it: the run is then sent anew, under a new id")


def write_state(path, state):
    with open(path + ".tmp", "w") as file:
        json.dump(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def whole_lines(path, offset):
    """The whole lines from byte `offset` on, each with the offset after it. Half a line at the end waits."""
    with open(path, "rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, offset


def values_of(line):
    """The numbers of a line, by name; None: it is damaged, an event, or has none."""
    try:
        record = json.loads(line)
        if "event" in record or "step" not in record:
            return None
        numbers = {name: value for name, value in record.items()
                   if name not in NOT_SENT and isinstance(value, (int, float)) and not isinstance(value, bool)}
        return {"step": int(record["step"]), **numbers}
    except (ValueError, TypeError):
        return None


def configuration(run):
    path = os.path.join(run, "config.toml")
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except ValueError as error:  # the steps can be sent without it
        print(f"warning: {path} is damaged, and is not sent: {error}", file=sys.stderr)
        return {}


def send_new_lines(wandb_run, run, state):
    """Returns the numbers of lines that were sent and that were left out as damaged."""
    metrics = os.path.join(run, "metrics.jsonl")
    if not os.path.exists(metrics) or os.path.getsize(metrics) < state["offset"]:
        fail(f"{metrics} is shorter than what was sent, or gone",
             f"another training began in this folder: remove {run}/wandb.json")
    sent = left_out = 0
    for line, end in whole_lines(metrics, state["offset"]):
        values = values_of(line)
        if values is not None:
            wandb_run.log(values)
            sent += 1
        elif b'"event"' not in line:
            left_out += 1
        state["offset"] = end
    return sent, left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("run", metavar="RUN", help="a run folder")
    parser.add_argument("--project", default="hearth", help="at W&B")
    parser.add_argument("--name", help="of the run there (default: the folder's)")
    parser.add_argument("--offline", action="store_true", help="write RUN/wandb, without a network")
    parser.add_argument("--follow", action="store_true", help="go on until the run is done or Ctrl-C")
    options = parser.parse_args()
    run = os.path.normpath(options.run)
    if not os.path.exists(os.path.join(run, "metrics.jsonl")):
        fail(f"{run} has no metrics.jsonl", "name a run folder; a training writes the file at its first step")
    try:
        import wandb
    except ImportError:
        fail("the package wandb is not installed", "python3 -m pip install wandb")
    state_file = os.path.join(run, "wandb.json")
    state = read_state(state_file)
    name = options.name or os.path.basename(os.path.abspath(run))
    wandb_run = wandb.init(project=options.project, id=state["id"], name=name, resume="allow", dir=run,
                           mode="offline" if options.offline else "online", config=configuration(run))
    wandb_run.define_metric("step")
    wandb_run.define_metric("*", step_metric="step")
    sent = left_out = 0
    try:
        while True:
            done = os.path.exists(os.path.join(run, "done.json"))
            try:
                new, damaged = send_new_lines(wandb_run, run, state)
            finally:  # what was sent is not sent again, whatever ended it
                write_state(state_file, state)
            sent, left_out = sent + new, left_out + damaged
            if not options.follow or done:
                break
            time.sleep(10)
    except KeyboardInterrupt:
        pass
    wandb_run.finish()
    note = f", {left_out} damaged lines left out" if left_out else ""
    print(f"sent {sent} steps of {run} to {options.project}/{state['id']}{note}")


if __name__ == "__main__":
    main()
