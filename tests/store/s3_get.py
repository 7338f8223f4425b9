# SPDX-License-Identifier: Apache-2.0
"""What moto's server has, read without a client of S3.

    s3_get.py PORT KEY              writes the object of the bucket to standard output; exit code 9: there is none
    s3_get.py PORT FOLDER/ INTO     writes the objects of a folder to the folder INTO
"""
import os
import re
import sys
import urllib.error
import urllib.parse
import urllib.request

PORT, NAME = sys.argv[1:3]
# moto asks for no signature, but for the header.
SIGNED = "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"


def get(path):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}/bucket{path}", headers={"Authorization": SIGNED})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def content(key):
    return get("/" + urllib.parse.quote(key))


if len(sys.argv) == 3:
    try:
        sys.stdout.buffer.write(content(NAME))
    except urllib.error.HTTPError:
        sys.exit(9)
else:
    os.makedirs(sys.argv[3], exist_ok=True)
    for found in re.findall("<Key>(.*?)</Key>", get("?list-type=2&prefix=" + urllib.parse.quote(NAME)).decode()):
        path = os.path.join(sys.argv[3], os.path.relpath(found, NAME))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content(found))
