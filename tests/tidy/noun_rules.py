# SPDX-License-Identifier: Apache-2.0
"""A rule about the names of types: a name has one meaning in the tree, so that `git grep -w` finds one thing."""

import re

# Comments become blanks and texts empty texts: their braces and words declare nothing. A quote after a digit separates
# the digits of a number.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
# A directive of the preprocessor, with the lines that continue it.
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
# What may stand between `struct` and the name: a standard attribute, alignas and a compiler's attribute with whatever is
# in their parentheses, and a macro of ours.
ATTRIBUTE = r"(?:\[\[[^\]]*\]\]|(?:alignas|__\w+|HEARTH_\w+)\s*\([^;{]*\)|HEARTH_\w+\b)\s*"
# A definition of a type up to its brace, an alias, or a brace. What ends with a semicolon is a forward declaration, and
# `struct Bpe::Tables {` belongs to Bpe.
TOKEN = re.compile(
    rf"\b(?:struct|class|union|enum(?:\s+(?:class|struct))?)\b\s*(?:{ATTRIBUTE})*"
    r"(?P<type>\w+)\s*(?:final\s*)?(?::(?!:)[^;{]*)?\{"
    r'|\busing\s+(?P<alias>\w+)\s*(?:\[\[[^\]]*\]\]\s*)?=|(?P<scope>\bnamespace\b[^{;]*\{|\bextern\s*""\s*\{)'
    r"|(?P<brace>[{}])")


def types_of(text):
    """The types and aliases that a header declares at namespace scope, with their lines."""
    text = NO_CODE.sub(lambda match: '""' if match.group()[0] != "/" else "\n" * match.group().count("\n"), text)
    text = DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"), text)
    inside = []  # of each open brace: whether it is not a namespace's
    for match in TOKEN.finditer(text):
        name = match["type"] or match["alias"]
        if name and not any(inside):
            yield name, text.count("\n", 0, match.start()) + 1
        if match["brace"] == "}":
            del inside[-1:]
        elif not match["alias"]:
            inside.append(not match["scope"])


def one_meaning(tree):
    """No two headers declare a type of one name, also not in different namespaces. Types in other types may repeat."""
    problems, known = [], {}
    for path, text in tree.select((".h",), "src/"):
        for name, line in types_of(text):
            first = known.setdefault(name, path)
            if first != path:
                problems.append(f"{path}:{line}: {name} is a type of {first}, too: one noun has one meaning")
    return problems


RULES = [one_meaning]
