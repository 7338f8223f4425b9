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


def code_of(text):
    """A header without comments, texts and directives. Lines keep their numbers."""
    text = NO_CODE.sub(lambda match: '""' if match.group()[0] != "/" else "\n" * match.group().count("\n"), text)
    return DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"), text)


def types_of(text):
    """The types and aliases that a header declares at namespace scope, with their lines."""
    text = code_of(text)
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


# A row of the page's table: nouns, meaning, headers.
ROW = re.compile(r"\| ([a-z, -]+) \| [^|]+ \| ((?:`[\w./]+`(?:, )?)+) \|")


def nouns_in(text, nouns):
    """Those of the nouns that are words in a header's names: `slot` is one in UnitSlots and in num_slots."""
    names = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", code_of(text)).lower()
    return {noun for noun in nouns if re.search(rf"(\b|_){noun.replace('-', '_')}(s|es)?(\b|_)", names)}


def page_of_nouns(tree):
    """The headers of the table in STYLE.md exist and have names with its nouns, and no other header has such a type.

    Only a type whose whole name is a noun is bound to its row's headers. A longer name says what it adds (ZeroGroup),
    and only a reader can tell whether its last word has the row's meaning.
    """
    problems, headers_of = [], {}
    before, _, page = tree.files.get("STYLE.md", "").partition("\n## Nouns\n")
    for number, line in enumerate(page.partition("\n## ")[0].split("\n"), before.count("\n") + 3):
        row = ROW.fullmatch(line)
        if not row:
            if line.startswith("|") and not line.startswith(("| noun |", "|---|")):
                problems.append(f"STYLE.md:{number}: not a row of nouns, a meaning and headers")
            continue
        nouns, found = row[1].split(", "), set()
        headers = ["src/" + header for header in re.findall(r"`(.*?)`", row[2])]
        headers_of.update({"".join(map(str.capitalize, noun.split("-"))): headers for noun in nouns})
        for header in headers:
            here = nouns_in(tree.files.get(header, ""), nouns)
            found |= here
            if not here:
                what = f"declares no {' or '.join(nouns)}" if header in tree.files else "does not exist"
                problems.append(f"STYLE.md:{number}: {header} {what}")
        problems += [f"STYLE.md:{number}: none of the headers declares a {noun}" for noun in nouns if noun not in found]
    for path, text in tree.select((".h",), "src/"):
        problems += [f"{path}:{line}: {name} is a noun of STYLE.md, and its row does not name this header"
                     for name, line in types_of(text) if path not in headers_of.get(name, [path])]
    return problems


RULES = [one_meaning, page_of_nouns]
