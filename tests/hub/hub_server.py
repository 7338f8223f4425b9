# SPDX-License-Identifier: Apache-2.0
"""A stand-in for huggingface.co on 127.0.0.1, as far as `hf` needs it to list, download and upload files.

    hub_server.py STORE

It writes its port to STORE/port and one line a request to STORE/log, and ends where its standard input ends.
STORE/repos/models/ORG/NAME/... and STORE/repos/datasets/ORG/NAME/... are the repositories. NAME.json next to a folder
has its card. Files of weights and tables are LFS files. The token "hf_test" may write, and may read repositories
whose card says "gated". STORE/faults has lines "METHOD PATTERN ACTION COUNT", for the first COUNT requests that match.
ACTION is a status to answer with; or "cut", which ends the answer in its middle; or "flip", which changes a byte of
it; or "store-flip", which stores a wrong byte of an upload; or "hang", which answers nothing for a minute.
"""
import base64
import hashlib
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

STORE = os.path.abspath(sys.argv[1])
LFS = re.compile(r"\.(safetensors|bin|pth|model|distcp|parquet)$")
LOCK = threading.Lock()
USED = {}  # fault line -> how often it has happened


def folder_of(kind, repo):
    return f"{STORE}/repos/{kind}/{repo}"


def files_of(folder):
    found = [os.path.relpath(f"{at}/{name}", folder) for at, _, names in os.walk(folder) for name in names]
    return sorted(found)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def commit_of(folder):
    """A "commit": the hash of the names and contents."""
    digest = hashlib.sha1()
    for name in files_of(folder):
        digest.update(name.encode() + b"\0" + read(f"{folder}/{name}"))
    return digest.hexdigest()


def blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(folder, name):
    data = read(f"{folder}/{name}")
    found = {"type": "file", "path": name, "size": len(data), "oid": blob(data)}
    if LFS.search(name):
        pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(data).hexdigest()}\n"
        found["oid"] = blob(pointer.encode())
        found["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": len(pointer)}
    lie = f"{folder}.listing.json"  # a listing that a test has falsified
    if os.path.exists(lie):
        found.update(json.loads(read(lie)).get(name, {}))
    return found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fault = ""

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in (self.headers.get("Transfer-Encoding") or ""):
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, value=None, raw=None, headers=()):
        data = raw if raw is not None else json.dumps(value).encode() if value is not None else b""
        self.send_response(status)
        headers = dict(headers)
        headers.setdefault("Content-Length", str(len(data)))
        if raw is None:
            headers["Content-Type"] = "application/json"
        for name, text in headers.items():
            self.send_header(name, text)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.fault == "flip" and data:
            middle = len(data) // 2
            data = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:]
        if self.fault == "cut":
            self.wfile.write(data[:len(data) // 2])
            self.wfile.flush()
            self.close_connection = True
            return
        self.wfile.write(data)

    def find_fault(self, path):
        try:
            lines = read(f"{STORE}/faults").decode().splitlines()
        except FileNotFoundError:
            return ""
        for line in lines:
            method, pattern, action, count = line.split()
            if method != self.command or not re.search(pattern, path):
                continue
            with LOCK:
                USED[line] = USED.get(line, 0) + 1
                if USED[line] <= int(count):
                    return action
        return ""

    def handle_request(self):
        path = urllib.parse.unquote(self.path.split("?")[0])
        data = self.body()
        authorized = self.headers.get("Authorization") == "Bearer hf_test"
        with LOCK, open(f"{STORE}/log", "a", encoding="utf-8") as log:
            log.write(f"{self.command} {path} {'with a token' if self.headers.get('Authorization') else 'anonymous'}\n")
        self.fault = self.find_fault(path)
        if self.fault == "hang":
            time.sleep(3600)
        if self.fault.isdigit():
            return self.answer(int(self.fault), {"error": "this fault was asked for"})
        if self.command == "POST" and not authorized:
            return self.answer(401, {"error": "Invalid username or password."})
        for pattern, method in ROUTES:
            match = re.fullmatch(pattern, path)
            if match:
                return method(self, data, authorized, *match.groups())
        return self.answer(404, {"error": "no such page"})

    def whoami(self, _, authorized):
        if not authorized:
            return self.answer(401, {"error": "Invalid token"})
        token = {"type": "access_token", "accessToken": {"role": "write"}}
        return self.answer(200, {"name": "me", "type": "user", "orgs": [], "auth": token})

    def readable(self, kind, repo, authorized):
        """The folder, or None after an answer that says why not."""
        folder = folder_of(kind, repo)
        if not os.path.isdir(folder):
            self.answer(404, {"error": "Repository not found"}, headers={"X-Error-Code": "RepoNotFound"}.items())
            return None
        if self.card(folder).get("gated") and not authorized:
            self.answer(401, {"error": "Access is restricted"}, headers={"X-Error-Code": "GatedRepo"}.items())
            return None
        return folder

    @staticmethod
    def card(folder):
        return json.loads(read(f"{folder}.json")) if os.path.exists(f"{folder}.json") else {}

    def info(self, _, authorized, kind, repo, revision):
        folder = folder_of(kind, repo)
        if not os.path.isdir(folder):
            return self.readable(kind, repo, authorized)
        if revision not in (None, "main", commit_of(folder)):
            return self.answer(404, {"error": f"Invalid rev id: {revision}"},
                               headers={"X-Error-Code": "RevisionNotFound"}.items())
        card = self.card(folder)
        return self.answer(200, {"id": repo, "_id": "1", "modelId": repo, "sha": commit_of(folder), "private": False,
                                 "gated": "auto" if card.get("gated") else False, "downloads": 0, "likes": 0,
                                 "tags": [], "cardData": card,
                                 "siblings": [{"rfilename": name} for name in files_of(folder)]})

    def tree(self, _, authorized, kind, repo, _revision):
        if folder := self.readable(kind, repo, authorized):
            self.answer(200, [entry(folder, name) for name in files_of(folder)])

    def resolve(self, _, authorized, datasets, repo, _revision, name):
        kind = "datasets" if datasets else "models"
        folder = self.readable(kind, repo, authorized)
        if not folder:
            return
        if not os.path.isfile(f"{folder}/{name}"):
            self.answer(404, {"error": "Entry not found"}, headers={"X-Error-Code": "EntryNotFound"}.items())
            return
        data = read(f"{folder}/{name}")
        etag = hashlib.sha256(data).hexdigest() if LFS.search(name) else blob(data)
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit_of(folder), "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        if wanted:
            first, last = int(wanted[1]), int(wanted[2] or len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            self.answer(206, raw=data[first:last + 1], headers=headers.items())
            return
        self.answer(200, raw=data, headers=headers.items())

    def create(self, data, _):
        wanted = json.loads(data)
        repo = f"{wanted.get('organization') or 'me'}/{wanted['name'].split('/')[-1]}"
        folder = folder_of("models", repo)
        if os.path.isdir(folder):
            return self.answer(409, {"error": "You already created this model repo", "url": f"{self.base()}/{repo}"})
        os.makedirs(folder)
        with open(f"{folder}.created.json", "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        return self.answer(200, {"url": f"{self.base()}/{repo}", "name": repo, "id": "1"})

    def validate_card(self, *_):
        self.answer(200, {"errors": [], "warnings": []})

    def base(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def preupload(self, data, *_):
        files = [{"path": f["path"], "uploadMode": "lfs" if LFS.search(f["path"]) else "regular", "shouldIgnore": False,
                  "oid": None} for f in json.loads(data)["files"]]
        self.answer(200, {"files": files})

    def lfs_batch(self, data, *_):
        objects = []
        for wanted in json.loads(data)["objects"]:
            found = {"oid": wanted["oid"], "size": wanted["size"]}
            if not os.path.exists(f"{STORE}/lfs/{wanted['oid']}"):
                found["actions"] = {"upload": {"href": f"{self.base()}/lfs/upload/{wanted['oid']}", "header": {}},
                                    "verify": {"href": f"{self.base()}/lfs/verify", "header": {}}}
            objects.append(found)
        self.answer(200, {"transfer": "basic", "objects": objects},
                    headers={"Content-Type": "application/vnd.git-lfs+json"}.items())

    def lfs_upload(self, data, _, oid):
        if hashlib.sha256(data).hexdigest() != oid:
            return self.answer(400, {"error": "sha256 mismatch"})
        if self.fault == "store-flip":
            data = bytes([data[0] ^ 1]) + data[1:]
        with open(f"{STORE}/lfs/{oid}", "wb") as file:
            file.write(data)
        return self.answer(200, {})

    def lfs_verify(self, *_):
        self.answer(200, {})

    def commit(self, data, _, kind, repo, _revision):
        folder = folder_of(kind, repo)
        for line in data.decode().splitlines():
            step = json.loads(line)
            value = step["value"]
            if step["key"] not in ("file", "lfsFile"):
                continue
            path = os.path.normpath(f"{folder}/{value['path']}")
            assert path.startswith(folder)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            is_small = step["key"] == "file"
            content = base64.b64decode(value["content"]) if is_small else read(f"{STORE}/lfs/{value['oid']}")
            with open(path, "wb") as file:
                file.write(content)
        commit = commit_of(folder)
        self.answer(200, {"success": True, "commitOid": commit, "commitUrl": f"{self.base()}/{repo}/commit/{commit}",
                          "hookOutput": ""})

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_request


REPO = r"([^/]+/[^/]+)"
ROUTES = [
    (r"/api/whoami-v2", Handler.whoami),
    (r"/api/repos/create", Handler.create),
    (r"/api/validate-yaml", Handler.validate_card),
    (rf"/api/(models|datasets)/{REPO}/preupload/.+", Handler.preupload),
    (r".+\.git/info/lfs/objects/batch", Handler.lfs_batch),
    (r"/lfs/upload/(\w+)", Handler.lfs_upload),
    (r"/lfs/verify", Handler.lfs_verify),
    (rf"/api/(models|datasets)/{REPO}/commit/(.+)", Handler.commit),
    (rf"/api/(models|datasets)/{REPO}/tree/([^/]+)(?:/.*)?", Handler.tree),
    (rf"/api/(models|datasets)/{REPO}(?:/revision/(.+))?", Handler.info),
    (rf"/(datasets/)?{REPO}/resolve/([^/]+)/(.+)", Handler.resolve),
]


def main():
    os.makedirs(f"{STORE}/lfs", exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with open(f"{STORE}/port.tmp", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.rename(f"{STORE}/port.tmp", f"{STORE}/port")
    sys.stdin.read()


main()
