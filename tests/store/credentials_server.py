# SPDX-License-Identifier: Apache-2.0
"""The servers that give credentials: EC2's metadata server, a container's, and STS for web identities.

    credentials_server.py FOLDER

It writes its port to FOLDER/port, one line a request to FOLDER/log, and ends where its standard input ends. The
answers are those of Amazon's documents. FOLDER/expires has the end of the credentials, else it is far away. The next
requests, as many as the number in FOLDER/failures, get the status 503. /moved and /private are a store's: a bucket of
another region, and one that refuses. A line of the log ends with "signed" if the request had an authorization.
"""
import http.server
import json
import os
import sys
import threading
import urllib.parse

FOLDER = sys.argv[1]
ROLE = "/latest/meta-data/iam/security-credentials/"


def content(name, otherwise):
    if not os.path.exists(f"{FOLDER}/{name}"):
        return otherwise
    with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
        return file.read()


def keys(name, token):
    return {"Code": "Success", "AccessKeyId": name, "SecretAccessKey": name + "-secret", token: name + "-token",
            "Expiration": content("expires", "2126-01-31T23:59:59Z")}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, text, headers=()):
        failures = int(content("failures", "0"))
        if failures > 0:
            status, text = 503, ""
            with open(f"{FOLDER}/failures", "w", encoding="utf-8") as file:
                file.write(str(failures - 1))
        signed = " signed" if "Authorization" in self.headers else ""
        with open(f"{FOLDER}/log", "a", encoding="utf-8") as log:
            log.write(f"{self.command} {self.path} {status}{signed}\n")
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        seconds = self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        good = self.path == "/latest/api/token" and seconds
        self.reply(200 if good else 400, "metadata-token" if good else "")

    def do_GET(self):
        if self.path == "/container":
            good = self.headers.get("Authorization") == "container-token"
            return self.reply(200 if good else 401, json.dumps(keys("container", "Token")))
        if self.path.startswith("/moved"):
            return self.reply(301, "<Error><Code>PermanentRedirect</Code></Error>",
                              [("x-amz-bucket-region", "eu-south-2")])
        if self.path.startswith("/private"):
            return self.reply(403, "<Error><Code>AccessDenied</Code></Error>")
        if self.headers.get("X-aws-ec2-metadata-token") != "metadata-token":
            return self.reply(401, "")
        answers = {ROLE: "my-role\n", ROLE + "my-role": json.dumps(keys("machine", "Token")),
                   "/latest/meta-data/placement/region": "eu-north-1"}
        self.reply(200 if self.path in answers else 404, answers.get(self.path, ""))

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        good = (form["Action"] == ["AssumeRoleWithWebIdentity"] and form["Version"] == ["2011-06-15"] and
                form["RoleArn"] == ["arn:aws:iam::1:role/a+b"] and form["WebIdentityToken"] == ["web/t+k&n=="])
        self.reply(200 if good else 403, """<AssumeRoleWithWebIdentityResponse
xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<SessionToken>web-token</SessionToken><SecretAccessKey>web-secret</SecretAccessKey>
<Expiration>2126-01-31T23:59:59Z</Expiration><AccessKeyId>web</AccessKeyId></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>""" if good else "<Error/>")


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
with open(f"{FOLDER}/port.tmp", "w", encoding="utf-8") as file:
    file.write(str(server.server_address[1]))
os.rename(f"{FOLDER}/port.tmp", f"{FOLDER}/port")
sys.stdin.buffer.read()
