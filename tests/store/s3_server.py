# SPDX-License-Identifier: Apache-2.0
"""A real S3 server (`rclone serve s3`, or moto's) behind a proxy that makes faults.

    s3_server.py rclone|moto PYTHON FOLDER

Both servers are in the environment of PYTHON. It writes the proxy's port to FOLDER/port, one line a request to
FOLDER/log, and ends where its standard input ends. There is one bucket, named bucket. rclone has its objects in
FOLDER/objects/bucket/KEY, moto in memory. FOLDER/faults has lines "METHOD PATTERN FROM TO ACTION": a request is
counted for each line whose method (or *) and pattern fit, and the line's requests FROM to TO (both included, counted
from 1) get the action:

    500, 503, 501   that status, with S3's XML
    404-once        "NoSuchKey"
    reset           the connection is reset without an answer
    400             "InvalidArgument"
    hang            no answer until the client gives up
    cut             half of the answer's body
    lost            the request is done, but its answer never comes
    twice           the request is done twice, and the answer is the second one
    late            no answer. The request is done when the test writes FOLDER/late, which is removed after that
    flip            a bit of the request's body is flipped
    rflip           a bit of the answer's body is flipped

"If-None-Match: *" and "If-Match: ETAG", which moto knows and rclone does not, are obeyed here for rclone: 412.
"""
import contextlib
import hashlib
import http.client
import http.server
import os
import re
import select
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse

KIND, PYTHON, FOLDER = sys.argv[1], sys.argv[2], os.path.abspath(sys.argv[3])
LOCK = threading.Lock()
PUT_LOCK = threading.Lock()
COUNTS = {}  # fault line -> requests that fit it, since the file changed
LAST = [""]
HELD = []  # late requests: (method, path, headers, body)
STATUS = {"400": "InvalidArgument", "404": "NoSuchKey", "500": "InternalError", "501": "NotImplemented",
          "503": "SlowDown"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def action_for(method, path):
    try:
        with open(f"{FOLDER}/faults", encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        text = ""
    action = None
    with LOCK:
        if text != LAST[0]:
            LAST[0] = text
            COUNTS.clear()
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        for line in lines:
            wanted, pattern, first, last, what = line.split(" ")
            if wanted not in ("*", method) or not re.search(pattern, path):
                continue
            COUNTS[line] = COUNTS.get(line, 0) + 1
            if int(first) <= COUNTS[line] <= int(last):
                action = what
        with open(f"{FOLDER}/log", "a", encoding="utf-8") as log:
            log.write(f"{method} {path} {action or '-'}\n")
    return action


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]


def sent_headers(headers):
    skipped = ("connection", "expect", "transfer-encoding")
    names = {"if-none-match": "If-None-Match", "if-match": "If-Match"}
    return {names.get(name.lower(), name): value for name, value in headers.items() if name.lower() not in skipped}


def send(connection, method, path, headers, body):
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer, answer.read()


def may_write(path, headers):
    """Whether the object is as the request's condition wants it, for rclone. The caller has PUT_LOCK."""
    if KIND != "rclone":
        return True
    file = FOLDER + "/objects" + urllib.parse.unquote(path.split("?")[0])
    wanted = headers.get("If-Match")
    if wanted is not None:
        if not os.path.exists(file):
            return False
        with open(file, "rb") as content:
            return hashlib.md5(content.read()).hexdigest() == wanted.strip('"')
    return headers.get("If-None-Match") != "*" or not os.path.exists(file)


def do_late_requests():
    while True:
        time.sleep(0.01)
        if not os.path.exists(f"{FOLDER}/late"):
            continue
        with LOCK:
            held = HELD[:]
            HELD.clear()
        for method, path, headers, body in held:
            connection = http.client.HTTPConnection("127.0.0.1", SERVER_PORT, timeout=60)
            with PUT_LOCK:
                if may_write(path, headers):
                    send(connection, method, path, headers, body)
            connection.close()
        os.remove(f"{FOLDER}/late")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms
    wbufsize = 1 << 16
    upstream = None

    def log_message(self, *_):
        pass

    def handle_expect_100(self):
        go_on = super().handle_expect_100()
        self.wfile.flush()
        return go_on

    def refuse(self, status, code):
        body = f"<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>made by the test</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def vanish(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.wfile = open(os.devnull, "wb")
        self.connection.close()

    def body_of_request(self):
        if "chunked" not in (self.headers.get("Transfer-Encoding") or ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            body += self.rfile.read(size)
            self.rfile.readline()
            if size == 0:
                return body

    def ask(self, method, body):
        if self.upstream is None:
            self.upstream = http.client.HTTPConnection("127.0.0.1", SERVER_PORT, timeout=60)
            self.upstream.connect()
            self.upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            return send(self.upstream, method, self.path, sent_headers(self.headers), body)
        except OSError:  # an answer without reading the request
            self.upstream = None
            raise

    def handle_any(self):
        body = self.body_of_request()
        action = action_for(self.command, self.path)
        if action in ("500", "503", "501", "400"):
            return self.refuse(int(action), STATUS[action])
        if action == "404-once":
            return self.refuse(404, STATUS["404"])
        if action == "reset":
            return self.vanish()
        if action == "hang":
            select.select([self.connection], [], [], 60)  # readable: the client has closed it
            return self.vanish()
        if action == "flip" and body:
            body = flipped(body)
        if action == "late":
            with LOCK:
                HELD.append((self.command, self.path, sent_headers(self.headers), body))
            return self.vanish()
        for _ in range(2 if action == "twice" else 1):
            with PUT_LOCK if self.command in ("PUT", "POST") else contextlib.nullcontext():
                if not may_write(self.path, sent_headers(self.headers)):
                    self.refuse(412, "PreconditionFailed")
                    return self.vanish() if action == "lost" else None
                answer, data = self.ask(self.command, body)
        if action == "lost":
            return self.vanish()
        if action == "rflip" and data:
            data = flipped(data)
        self.send_response(answer.status)
        skipped = ("transfer-encoding", "connection", "content-length", "server", "date")
        for name, value in answer.getheaders():
            if name.lower() not in skipped:
                self.send_header(name, value)
        size = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
        if size is not None:
            self.send_header("Content-Length", size)
        self.end_headers()
        if action == "cut":
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            return self.vanish()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any


def command_of_server(port):
    if KIND == "moto":
        return [PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    return [os.path.join(os.path.dirname(PYTHON), "rclone"), "serve", "s3", "--config", "/dev/null", "--addr",
            f"127.0.0.1:{port}", "--auth-key", "testing,secret", f"{FOLDER}/objects"]


SERVER_PORT = free_port()
os.makedirs(f"{FOLDER}/objects/bucket", exist_ok=True)
# Tests of many parts have small ones.
server = subprocess.Popen(command_of_server(SERVER_PORT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env=dict(os.environ, S3_UPLOAD_PART_MIN_SIZE="1"))
for _ in range(30000):
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", SERVER_PORT)) == 0:
            break
    time.sleep(0.02)
if KIND == "moto":
    upstream = http.client.HTTPConnection("127.0.0.1", SERVER_PORT)
    upstream.request("PUT", "/bucket")
    upstream.getresponse().read()
http.server.ThreadingHTTPServer.daemon_threads = True
threading.Thread(target=do_late_requests, daemon=True).start()
proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=proxy.serve_forever, daemon=True).start()
with open(f"{FOLDER}/server_port", "w", encoding="utf-8") as file:
    file.write(str(SERVER_PORT))
with open(f"{FOLDER}/port.tmp", "w", encoding="utf-8") as file:
    file.write(str(proxy.server_address[1]))
os.rename(f"{FOLDER}/port.tmp", f"{FOLDER}/port")
sys.stdin.buffer.read()
server.kill()
server.wait()
