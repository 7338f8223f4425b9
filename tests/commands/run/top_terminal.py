# SPDX-License-Identifier: Apache-2.0
"""HEARTH RUN LINES [KEY]: shows RUN with `hearth top` in a terminal of 100 x 30, appends LINES to its metrics.jsonl,
and ends it by KEY ("q"; without it Ctrl-C). Prints what happened as JSON.

{"first": [ROW, ...], "later": [ROW, ...], "after": BYTES AFTER THE LAST SCREEN, "exit_code": ..., "echo": ...}
"""
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

hearth, run, lines = sys.argv[1:4]
key = (sys.argv[4] if len(sys.argv) > 4 else "\x03").encode()
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
before = termios.tcgetattr(slave)


def take_terminal():
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


process = subprocess.Popen([hearth, "top", run], stdin=slave, stdout=slave, stderr=slave, preexec_fn=take_terminal,
                           env={**os.environ, "LC_ALL": "C.UTF-8"})
seen = b""


def read_until(condition, seconds=600):
    global seen
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:
                return


def screens():
    """The whole screens: each begins at the upper left and ends by clearing the rest."""
    found = []
    for part in seen.split(b"\x1b[H")[1:]:
        if b"\x1b[J" in part:
            found.append(part.split(b"\x1b[J")[0].decode().replace("\x1b[K", "").split("\r\n"))
    return found


read_until(lambda: screens())
first = screens()[0]
with open(run + "/metrics.jsonl", "a") as metrics, open(lines) as more:
    metrics.write(more.read())
read_until(lambda: screens()[-1][0] != first[0])
later = screens()[-1]
started = seen.startswith(b"\x1b[?1049h\x1b[?25l")
os.write(master, key)
read_until(lambda: process.poll() is not None)
read_until(lambda: False, 0.5)
same = termios.tcgetattr(slave)[3] == before[3]
json.dump({"first": first, "later": later, "started": started, "after": seen.split(b"\x1b[J")[-1].decode(),
           "exit_code": process.wait(30), "terminal_restored": same}, sys.stdout)
