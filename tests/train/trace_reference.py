# SPDX-License-Identifier: Apache-2.0
"""FILE.json.gz...: for each trace, what Python's gzip and json read there, as JSON.

{"rank": R, "ranks": N, "threads": [NAME, ...],
 "spans": [{"name", "cat", "thread", "begin", "end", "args", "inside": [NAMES of the spans around it]}, ...]}

"begin" and "end" are seconds since 1970. A span that overlaps another one of its thread without being inside of it is
an error.
"""
import gzip
import json
import sys

found = []
for path in sys.argv[1:]:
    with gzip.open(path, "rt") as file:
        trace = json.load(file)
    base = trace["baseTimeNanoseconds"] / 1e9
    rank = trace["distributedInfo"]["rank"]
    threads = {}
    for event in trace["traceEvents"]:
        assert event["pid"] == rank, event
        if event["ph"] == "M" and event["name"] == "thread_name":
            threads[event["tid"]] = event["args"]["name"]
    spans = []
    around = {}
    complete = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    for event in sorted(complete, key=lambda event: (event["ts"], -event["dur"])):
        assert event["dur"] >= 0, event
        end = event["ts"] + event["dur"]
        stack = around.setdefault(event["tid"], [])
        while stack and stack[-1][0] <= event["ts"]:
            stack.pop()
        assert not stack or end <= stack[-1][0] + 0.01, (event, stack)
        spans.append({"name": event["name"], "cat": event["cat"], "thread": threads[event["tid"]],
                      "begin": base + event["ts"] / 1e6, "end": base + end / 1e6, "args": event.get("args", {}),
                      "inside": [name for _, name in stack]})
        stack.append((end, event["name"]))
    found.append({"rank": rank, "ranks": trace["distributedInfo"]["world_size"],
                  "threads": sorted(threads.values()), "spans": spans})
json.dump(found, sys.stdout)
