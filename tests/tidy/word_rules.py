# SPDX-License-Identifier: Apache-2.0
"""Rules about words: plain sentences in comments, documents and string literals.

A passage is a text that a reader reads in one piece: a paragraph or a list item of Markdown, a cell of a table, the
comment lines that follow each other, a string. The rules look at passages, so a habit is found across line ends.
"""

import io
import re
import tokenize

# Paths that keep the rules: files, or folders with their slash.
PLAIN = ("README.md", "STYLE.md", "CONTRIBUTING.md", ".github/", "bench/README.md", "docs/", "scripts/", "src/",
         "tests/")
MAX_SENTENCE_WORDS = 40
ENDINGS = (".cpp", ".h", ".cu", ".py", ".sh", ".md")

# What is found, and what to write. `\s+` keeps the patterns from finding themselves.
HABITS = [
    (r"\b(?:that|which|who)\s+(?:is|are|was|were)\s+none\b", 'say what it lacks: "without a number", not a riddle'),
    (r"\b(?:is|are|was|were)\s+none(?=\s*(?:[.;,:!?)]|$))", 'write "there is no ..."'),
    (r"\bby\s+turns\b", 'write "in alternation"'),
    (r"\btells?\s+(?:themselves|itself)\b", 'write "can be told apart by" or "are found from"'),
    (r"\b(?:is|are|was|were)\s+told\s+(?:by|from)\b", 'write "is found from" or "differs from ... by"'),
    (r"\bbeside\s+(?:\d|eager\b|ATen|PyTorch|torch)", 'write "compared with"'),
    (r"(?:^|[.!?]\s+)Of\s+(?!course\b)", "begin with the subject of the sentence"),
    (r"\bwhat\s+stems\s+from\b", "name the thing"),
]


def markdown_passages(text):
    """(line number, passage, whether it is prose) of a document, without its code blocks and code spans."""
    found, lines, first, in_block = [], [], 0, False

    def close():
        if lines:
            found.append((first, " ".join(lines), True))
            lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            close()
            in_block = not in_block
            continue
        stripped = re.sub(r"`[^`]*`", "CODE", line.strip())
        indented_code = line.startswith("    ") and not lines
        if in_block or not stripped or indented_code or line.startswith(("#", "|")):
            close()
            if not in_block and line.startswith("|"):
                found += [(number, cell.strip(), False) for cell in stripped.strip("|").split("|")]
            continue
        if re.match(r"[-*] |\d+\. ", stripped):
            close()
            stripped = re.sub(r"^([-*]|\d+\.) +", "", stripped)
        if not lines:
            first = number
        lines.append(stripped)
    close()
    return found


def joined_comments(comments):
    """From (line number, text, whether it has the line to itself): comments on lines that follow each other are one."""
    found, last = [], 0
    for number, text, alone in comments:
        if found and alone and number == last + 1 and text:
            found[-1] = (found[-1][0], f"{found[-1][1]} {text}")
        else:
            found.append((number, text))
        last = number
    return found


def python_passages(text):
    comments, strings = [], []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.append((token.start[0], token.string.lstrip("#! "), token.line.lstrip().startswith("#")))
        elif token.type == tokenize.STRING:
            strings.append((token.start[0], " ".join(token.string.strip("rbfu\"'").split())))
    return joined_comments(comments) + strings


def other_passages(text, comment):
    """C++ or shell, line by line: the strings, and what follows the first `comment` outside them."""
    comments, strings = [], []
    for number, line in enumerate(text.splitlines(), 1):
        literal = r'"(?:[^"\\]|\\.)*"' + (r"|'[^']*'" if comment == "#" else r"|'(?:[^'\\]|\\.)'")
        code = re.sub(literal, lambda match: " " * len(match.group(0)), line)
        start = re.search(rf"(?:^|\s){comment}", code)
        end = start.start() if start else len(line)
        strings += [(number, match.group(0)[1:-1]) for match in re.finditer(literal, line[:end])]
        if start:
            comments.append((number, line[start.end():].lstrip("/#! "), not code[:end].strip()))
    return joined_comments(comments) + strings


def passages(path, text):
    """(line number, text, whether its sentences are counted)."""
    if path.endswith(".md"):
        return markdown_passages(text)
    if path.endswith(".py"):
        found = python_passages(text)
    else:
        found = other_passages(text, "#" if path.endswith(".sh") else "//")
    return [(number, passage, False) for number, passage in found]


def plain_words(tree, plain=PLAIN):
    """Habits that make a reader read twice, and sentences of documents that are too long."""
    problems = []
    for path, text in tree.select(ENDINGS, *plain):
        for number, passage, prose in passages(path, text):
            for habit, instead in HABITS:
                match = re.search(habit, passage, re.MULTILINE)
                if match:
                    problems.append(f'{path}:{number}: "{match.group(0).strip()}": {instead}')
            for sentence in re.split(r"(?<=[.!?])\s+", passage) if prose else []:
                words = len(re.findall(r"\w\S*", sentence))
                if words > MAX_SENTENCE_WORDS:
                    problems.append(f'{path}:{number}: a sentence of {words} words, "{sentence[:30]}..."; '
                                    f"at most {MAX_SENTENCE_WORDS}")
    return problems


RULES = [plain_words]
