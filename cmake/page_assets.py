#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the texts that src/report/page_assets.h declares.

    page_assets.py DYGRAPHS_FOLDER LICENSE SCRIPT STYLE OUT.cpp

LICENSE: the file with dygraphs' license, which the script carries as a comment, as the license asks; it may be missing.
"""

import os
import re
import sys


def literal(text):
    """A C++ string. g++ reads long ones slowly, so that it is cut into pieces."""
    bytes_of_text = text.encode()
    pieces = [bytes_of_text[i:i + 4000] for i in range(0, len(bytes_of_text), 4000)]
    quoted = []
    for piece in pieces:
        escaped = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in piece)
        quoted.append(f'    "{escaped}"')
    return "\n".join(quoted) or '    ""'


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    folder, license_file, script, style, out = sys.argv[1:]
    terms = read(license_file) if os.path.exists(license_file) else ""
    # A developer's tools would ask for the map.
    without_map = re.compile(r"/[/*]# sourceMappingURL=.*?(\*/|$)", re.MULTILINE)
    dygraphs = "".join(("/*\n" + terms.replace("*/", "* /") + "*/\n" if terms else "",
                        without_map.sub("", read(os.path.join(folder, "dygraph.min.js")))))
    texts = {
        "kDygraphs": dygraphs,
        "kDygraphsStyle": without_map.sub("", read(os.path.join(folder, "dygraph.min.css"))),
        "kScript": read(script),
        "kStyle": read(style),
    }
    for name, text in texts.items():
        if re.search(r"</(script|style)", text, re.IGNORECASE):
            sys.exit(f"{name} would end the element that it stands in")
    with open(out + ".new", "w", encoding="ascii") as file:
        file.write('#include "report/page_assets.h"\n\nnamespace hearth::report::page_assets {\n\n')
        for name, text in texts.items():
            file.write(f"const std::string_view {name} =\n{literal(text)};\n\n")
        file.write("}  // namespace hearth::report::page_assets\n")
    os.replace(out + ".new", out)


main()
