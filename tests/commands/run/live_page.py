# SPDX-License-Identifier: Apache-2.0
"""HEARTH RUN LINES [browser]: serves RUN with `hearth report --serve`, appends LINES to its metrics.jsonl meanwhile,
ends the server by Ctrl-C, and prints what happened as JSON.

{"first_line": ..., "exit_code": ..., "status": {REQUEST: CODE}, "data_steps": [BEFORE, AFTER], "listens": [ADDRESSES],
 "beside_others": ..., "unreadable": [...],
 "points": [BEFORE, AFTER], "zoom": [BEFORE, AFTER], "errors": [...], "hosts": [...]}

"beside_others": a request is answered while one connection asks nothing and one takes no answer. "unreadable"
has the notes of a run whose metrics.jsonl became a folder.

"points" and what follows need the browser. Exit code 77: there is none here.
"""
import http.client
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from urllib.parse import urlparse

LIMIT_MS = 600_000  # on a busy machine Chromium's start alone takes longer than the usual 30 s
hearth, run, lines, in_browser = sys.argv[1], sys.argv[2], sys.argv[3], len(sys.argv) > 4
browser_path = shutil.which("chromium-headless-shell") or shutil.which("chromium")
if in_browser:
    if browser_path is None:
        print("there is no Chromium: apt-get install chromium-headless-shell")
        sys.exit(77)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("there is no Playwright: scripts/setup.sh --oracle")
        sys.exit(77)


def ask(port, path, host="127.0.0.1", method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request(method, path, headers={"Host": f"{host}:{port}"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def answers_beside_others(port):
    """Whether it answers while it has not yet given up a client that says nothing."""
    silent = socket.create_connection(("127.0.0.1", port))
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.connect(("127.0.0.1", port))
    deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    ask(port, "/version")
    given_up = select.select([silent], [], [], 0)[0]
    silent.close()
    deaf.close()
    return not given_up


def listening_addresses(process):
    """The local addresses of its TCP sockets that listen, from the kernel's tables."""
    inodes = {line.split()[9]: line.split()[1] for table in ("tcp", "tcp6") for line in open(f"/proc/net/{table}")
              if line.split()[3] == "0A"}
    links = subprocess.run(["ls", "-l", f"/proc/{process}/fd"], capture_output=True, text=True).stdout
    return [address.split(":")[0] for inode, address in inodes.items() if f"socket:[{inode}]" in links]


def append():
    with open(run + "/metrics.jsonl", "a") as metrics, open(lines) as more:
        metrics.write(more.read())


def browse(port, found):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"], timeout=LIMIT_MS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(LIMIT_MS)
        found["errors"], urls = [], []
        page.on("pageerror", lambda error: found["errors"].append(str(error)))
        page.on("console", lambda message: message.type == "error" and found["errors"].append(message.text))
        page.on("request", lambda request: urls.append(request.url))
        page.goto(f"http://127.0.0.1:{port}/")
        page.wait_for_selector("body[data-drawn=yes]", state="attached")
        # Rows with a value: the first and the last may be there for the range of the axis alone.
        rows = """(g => [...Array(g.numRows()).keys()].filter(i => g.getValue(i, 1) !== null).length)(
            hearthReport.charts.loss)"""
        window = "hearthReport.charts.loss.xAxisRange()"
        page.evaluate("hearthReport.charts.loss.updateOptions({dateWindow: [2, 4]})")
        page.locator("#chart-loss figcaption input").check()
        before, zoom = page.evaluate(rows), page.evaluate(window)
        append()
        end = time.monotonic() + 600
        while page.evaluate(rows) == before and time.monotonic() < end:
            page.wait_for_timeout(200)
        found["points"] = [before, page.evaluate(rows)]
        found["zoom"] = [zoom, page.evaluate(window)]
        found["log"] = page.locator("#chart-loss figcaption input").is_checked()
        found["hosts"] = sorted({urlparse(url).netloc.split(":")[0] for url in urls})
        browser.close()


server = subprocess.Popen([hearth, "report", run, "--serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
try:
    found = {"first_line": server.stdout.readline()}
    port = urlparse(found["first_line"].split()[0]).port
    found["listens"] = listening_addresses(server.pid)
    last_step = lambda: json.loads(ask(port, "/data")[1])["runs"][0]["last_step"]
    found["status"] = {"/": ask(port, "/")[0], "/nothing": ask(port, "/nothing")[0],
                       "foreign": ask(port, "/", host="example.org")[0], "POST": ask(port, "/", method="POST")[0],
                       "HEAD": ask(port, "/", method="HEAD")[0]}
    versions = [ask(port, "/version")[1]]
    found["data_steps"] = [last_step()]
    if in_browser:
        browse(port, found)
    else:
        append()
    end = time.monotonic() + 600  # it does not look at the files all the time
    while ask(port, "/version")[1] == versions[0] and time.monotonic() < end:
        time.sleep(0.1)
    versions.append(ask(port, "/version")[1])
    found["data_steps"].append(last_step())
    found["versions_differ"] = versions[0] != versions[1]
    found["beside_others"] = answers_beside_others(port)
    os.remove(run + "/metrics.jsonl")
    os.mkdir(run + "/metrics.jsonl")
    end = time.monotonic() + 600
    while ask(port, "/version")[1] == versions[1] and time.monotonic() < end:
        time.sleep(0.1)
    found["unreadable"] = json.loads(ask(port, "/data")[1])["runs"][0]["notes"]
finally:
    server.send_signal(signal.SIGINT)
    found["exit_code"] = server.wait(timeout=600)
json.dump(found, sys.stdout)
