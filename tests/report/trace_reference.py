# SPDX-License-Identifier: Apache-2.0
"""FOLDER: a trace by PyTorch's profiler, FOLDER/torch.json, and what PyTorch and NumPy say of it, as JSON.

{"self_us": {NAME: [CALLS, SELF TIME]}, "exposed_us": T, "communication_us": T}

Self times are torch.profiler's own. Communication is counted on a grid of nanoseconds.
"""
import json
import sys
import time

import numpy as np
import torch
import torch.distributed as dist

folder = sys.argv[1]
torch.set_num_threads(1)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
a, large = torch.randn(300, 300), torch.randn(2_000_000)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
    for _ in range(3):
        with torch.profiler.record_function("outer"):
            work = dist.all_reduce(large, async_op=True)
            torch.softmax(a @ a, dim=-1).relu()
            work.wait()
            work = dist.all_reduce(large, async_op=True)
            time.sleep(0.002)  # nothing is computed beside it
            work.wait()
profile.export_chrome_trace(folder + "/torch.json")
dist.destroy_process_group()

with open(folder + "/torch.json") as file:
    events = [event for event in json.load(file)["traceEvents"] if event["ph"] == "X" and event.get("cat") != "Trace"]
start = min(event["ts"] for event in events)
length = int(1000 * (max(event["ts"] + event["dur"] for event in events) - start)) + 2
busy, talks = np.zeros(length, bool), np.zeros(length, bool)
for event in events:
    begin = round(1000 * (event["ts"] - start))
    end = begin + round(1000 * event["dur"])
    if event["name"].startswith("gloo:"):
        talks[begin:end] = True
    elif event["cat"] == "cpu_op" and not event["name"].startswith("c10d::"):
        busy[begin:end] = True
own = {row.key: [row.count, row.self_cpu_time_total] for row in profile.key_averages()
       if not row.key.startswith("gloo:")}
json.dump({"self_us": own, "communication_us": talks.sum() / 1000, "exposed_us": (talks & ~busy).sum() / 1000},
          sys.stdout)
