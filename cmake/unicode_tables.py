#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables that src/tokenizer/unicode/unicode.h declares, from the Unicode Character Database.

    unicode_tables.py UCD_FOLDER GRAPHEME_RANGES OUT.cpp

Categories are those of VERSION for a folder of any version. Code points of a later age count as unassigned. ADDED has
the code points that a folder of 15.0 (Debian 12) lacks, measured on the engine of `tokenizers` 0.23
(tests/tokenizer/unicode/unicode_test.cpp compares every code point). Normalization is that of NFC_VERSION, by age
alone: the stability policy of Unicode fixes it for assigned characters. What BertNormalizer removes, and what counts
as punctuation, is that of BERT_VERSION. Lower case is that of 17.0, and GRAPHEME_RANGES
(cmake/grapheme_ranges.txt) has the properties of 17.0 for grapheme clusters. Format of the files: UAX #44.
"""

import os
import sys

VERSION = (16, 0)     # kUnicodeVersion in src/tokenizer/unicode/unicode.h
NFC_VERSION = (9, 0)  # kNormalFormVersion there
BERT_VERSION = (8, 0)
LOWER_VERSION = (17, 0)  # kLowerVersion there
OLDEST = (15, 0)      # the oldest folder that ADDED completes
BLOCK_BITS = 7     # unicode_tables::kBlockBits
SIZE = 0x110000
# The order of enum class Category.
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co".split()
WHITE_SPACE = 32
# Code points that 15.1 and 16.0 assigned or changed: FIRST[-LAST]:CATEGORY.
ADDED = """
897:Mn 1B4E-1B4F:Po 1B7F:Po 1C89:Lu 1C8A:Ll 2427-2429:So 2FFC-2FFF:So 31E4-31E5:So 31EF:So A7CB-A7CC:Lu A7CD:Ll A7DA:Lu
A7DB:Ll A7DC:Lu 105C0-105F3:Lo 10D40-10D49:Nd 10D4A-10D4D:Lo 10D4E:Lm 10D4F:Lo 10D50-10D65:Lu 10D69-10D6D:Mn 10D6E:Pd
10D6F:Lm 10D70-10D85:Ll 10D8E-10D8F:Sm 10EC2-10EC4:Lo 10EFC:Mn 11380-11389:Lo 1138B:Lo 1138E:Lo 11390-113B5:Lo 113B7:Lo
113B8-113BA:Mc 113BB-113C0:Mn 113C2:Mc 113C5:Mc 113C7-113CA:Mc 113CC-113CD:Mc 113CE:Mn 113CF:Mc 113D0:Mn 113D1:Lo
113D2:Mn 113D3:Lo 113D4-113D5:Po 113D7-113D8:Po 113E1-113E2:Mn 116D0-116E3:Nd 1171E:Mc 11BC0-11BE0:Lo 11BE1:Po
11BF0-11BF9:Nd 11F5A:Mn 13460-143FA:Lo 16100-1611D:Lo 1611E-16129:Mn 1612A-1612C:Mc 1612D-1612F:Mn 16130-16139:Nd
16D40-16D42:Lm 16D43-16D6A:Lo 16D6B-16D6C:Lm 16D6D-16D6F:Po 16D70-16D79:Nd 18CFF:Lo 1CC00-1CCEF:So 1CCF0-1CCF9:Nd
1CD00-1CEB3:So 1E5D0-1E5ED:Lo 1E5EE-1E5EF:Mn 1E5F0:Lo 1E5F1-1E5FA:Nd 1E5FF:Po 1F8B2-1F8BB:So 1F8C0-1F8C1:So 1FA89:So
1FA8F:So 1FABE:So 1FAC6:So 1FADC:So 1FADF:So 1FAE9:So 1FBCB-1FBEF:So 2EBF0-2EE5D:Lo
"""
# Bits above the combining class, in kNormClasses. NFKC_QC=Maybe has the characters of NFC_QC=Maybe.
NFC_NO, NFC_MAYBE, NFD_NO, NFKC_NO, NFKD_NO, MARK = 256, 512, 1024, 2048, 4096, 8192
NONSPACING_OF_BERT, OTHER_OF_BERT = 16384, 32768
QUICK_CHECKS = {"NFC_QC": NFC_NO, "NFD_QC": NFD_NO, "NFKC_QC": NFKC_NO, "NFKD_QC": NFKD_NO}
# What StripAccents of `tokenizers` removes differs from the marks (M*) by age: these two are removed, this one is not.
MARKS_OF_9, NO_MARKS_OF_9 = (0x1CF2, 0x1CF3), (0x111C9,)
# BertNormalizer removes the characters that were Mn in 8.0. These two were, and the next four are since.
NONSPACING_OF_8, NO_NONSPACING_OF_8 = (0x1734, 0x1171E), (0x1885, 0x1886, 0xA9BD, 0x111C9)
# Punctuation is P* of 8.0, where these two were Po, and the symbols of ASCII.
PUNCTUATION_OF_8, ASCII_SYMBOLS = (0x166D, 0x111C9), "$+<=>^`|~"
# Lower case that 16.0 and 17.0 added: FIRST[-LAST]:LOWER_OF_FIRST.
ADDED_LOWER = """
1C89:1C8A A7CB:264 A7CC:A7CD A7CE:A7CF A7D2:A7D3 A7D4:A7D5 A7DA:A7DB A7DC:19B 10D50-10D65:10D70 16EA0-16EB8:16EBB
"""
# The order of the classes in src/tokenizer/unicode/graphemes.cpp.
GRAPHEME_CLASSES = """Other CR LF Control L V T LV LVT Regional_Indicator Prepend Linker ZeroWidthJoiner
ZeroWidthNonJoiner SpacingMark Extend Consonant Pictographic""".split()


def rows(folder, name):
    """The fields of each line, and the code points that its first field names."""
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        for line in file:
            fields = [field.strip() for field in line.split("#")[0].split(";")]
            if fields != [""]:
                first, _, last = fields[0].partition("..")
                yield range(int(first, 16), int(last or first, 16) + 1), fields


def characters(folder):
    """UnicodeData.txt: (code points, fields); a pair of First and Last lines is one range."""
    start = 0
    for points, fields in rows(folder, "UnicodeData.txt"):
        if fields[1].endswith(", First>"):
            start = points.start
        elif fields[1].endswith(", Last>"):
            yield range(start, points.stop), fields
        else:
            yield points, fields


def assigned(folder, version):
    """A flag for each code point: whether it was assigned in `version`."""
    flags = bytearray(SIZE)
    for points, fields in rows(folder, "DerivedAge.txt"):
        if tuple(int(part) for part in fields[1].split(".")) <= version:
            for point in points:
                flags[point] = 1
    return flags


def check_version(folder):
    """The folder's version; ends the program if it is older than OLDEST."""
    version = max(tuple(int(part) for part in fields[1].split(".")) for _, fields in rows(folder, "DerivedAge.txt"))
    if version < OLDEST:
        sys.exit(f"unicode_tables.py: {folder} is Unicode {version[0]}.{version[1]}, at least {OLDEST[0]}.{OLDEST[1]} is needed")
    return version


def two_stages(values):
    """(index of each block's contents, the different contents one after the other)"""
    size = 1 << BLOCK_BITS
    numbers, blocks, contents = {}, [], []
    for start in range(0, SIZE, size):
        block = tuple(values[start:start + size])
        if block not in numbers:
            numbers[block] = len(numbers)
            contents += block
        blocks.append(numbers[block])
    return blocks, contents


def classes(folder):
    values = [0] * SIZE
    is_assigned = assigned(folder, VERSION)
    for points, fields in characters(folder):
        for point in points:
            if is_assigned[point]:
                values[point] = CATEGORIES.index(fields[2])
    if check_version(folder) < VERSION:
        for word in ADDED.split():
            points, category = word.split(":")
            first, _, last = points.partition("-")
            for point in range(int(first, 16), int(last or first, 16) + 1):
                values[point] = CATEGORIES.index(category)
    for points, fields in rows(folder, "PropList.txt"):
        if fields[1] == "White_Space":
            for point in points:
                values[point] |= WHITE_SPACE
    return values


def normalization(folder):
    """Combining classes with the bits above, full decompositions (canonical, compatibility), and pairs that compose."""
    is_assigned, is_of_bert = assigned(folder, NFC_VERSION), assigned(folder, BERT_VERSION)
    norm = [0] * SIZE
    direct, compatible = {}, {}
    for points, fields in characters(folder):
        if not is_assigned[points.start]:
            continue
        is_mark = fields[2].startswith("M")
        for point in points:
            norm[point] = int(fields[3]) | (MARK if (is_mark or point in MARKS_OF_9) and point not in NO_MARKS_OF_9 else 0)
            if is_of_bert[point] and fields[2] in ("Cc", "Cf", "Co"):
                norm[point] |= OTHER_OF_BERT
            if is_of_bert[point] and (fields[2] == "Mn" or point in NONSPACING_OF_8) and point not in NO_NONSPACING_OF_8:
                norm[point] |= NONSPACING_OF_BERT
        if fields[5]:
            parts = [int(part, 16) for part in fields[5].split(">")[-1].split()]
            compatible[points.start] = parts
            if not fields[5].startswith("<"):
                direct[points.start] = parts
    excluded = set()
    for points, fields in rows(folder, "DerivedNormalizationProps.txt"):
        if fields[1] == "Full_Composition_Exclusion":
            excluded.update(points)
        elif fields[1] in QUICK_CHECKS and (fields[2] == "N" or fields[1] == "NFC_QC"):
            for point in points:
                norm[point] |= (QUICK_CHECKS[fields[1]] if fields[2] == "N" else NFC_MAYBE) if is_assigned[point] else 0

    def full(point, table):
        return [leaf for part in table[point] for leaf in full(part, table)] if point in table else [point]

    canonical = [(point, full(point, direct)) for point in sorted(direct)]
    compatibility = [(point, full(point, compatible)) for point in sorted(compatible)]
    pairs = sorted((parts[0], parts[1], point) for point, parts in direct.items() if len(parts) == 2
                   and point not in excluded)
    return norm, canonical, compatibility, pairs


def punctuation(folder):
    """Ranges (first, last) of what `tokenizers` cuts at as punctuation."""
    is_of_bert = assigned(folder, BERT_VERSION)
    found = {*PUNCTUATION_OF_8, *map(ord, ASCII_SYMBOLS)}
    for points, fields in characters(folder):
        if fields[2].startswith("P"):
            found.update(point for point in points if is_of_bert[point])
    ranges = []
    for point in sorted(found):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return ranges


def lower_case(folder):
    """Pairs (character, its lower case), without U+0130, whose lower case is two characters."""
    is_assigned = assigned(folder, LOWER_VERSION)
    pairs = {points.start: int(fields[13], 16) for points, fields in characters(folder)
             if fields[13] and is_assigned[points.start]}
    for word in ADDED_LOWER.split():
        points, lower = word.split(":")
        first, _, last = points.partition("-")
        for point in range(int(first, 16), int(last or first, 16) + 1):
            pairs[point] = int(lower, 16) + point - int(first, 16)
    pairs.pop(0x130)
    return sorted(pairs.items())


def graphemes(folder, ranges):
    values = [0] * SIZE
    newest = max(tuple(int(part) for part in fields[1].split(".")) for _, fields in rows(folder, "DerivedAge.txt"))
    is_old, is_new = assigned(folder, OLDEST), assigned(folder, newest)
    for points, fields in rows(folder, os.path.join("auxiliary", "GraphemeBreakProperty.txt")):
        if fields[1] not in ("Extend", "ZWJ", "SpacingMark", "Prepend"):
            for point in points:
                if is_old[point] or not is_new[point]:  # unassigned ones are controls, too
                    values[point] = GRAPHEME_CLASSES.index(fields[1])
    name = ""
    with open(ranges, encoding="ascii") as file:
        for word in (word for line in file if not line.startswith("#") for word in line.split()):
            if word.startswith("@"):
                name = word[1:]
                continue
            first, _, last = word.partition("-")
            for point in range(int(first, 16), int(last or first, 16) + 1):
                values[point] = GRAPHEME_CLASSES.index(name)
    return values


def table(kind, name, values):
    lines, line = [], ""
    for value in values:
        if len(line) > 110:
            lines.append(line)
            line = ""
        line += f"{value},"
    return f"extern const {kind} {name}[{len(values)}] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


def decomposition_tables(name, decompositions):
    ends = [0]
    for _, parts in decompositions:
        ends.append(ends[-1] + len(parts))
    return (table("char32_t", f"k{name}From", [point for point, _ in decompositions])
            + table("uint16_t", f"k{name}Ends", ends)
            + table("char32_t", f"k{name}Parts", [part for _, parts in decompositions for part in parts])
            + f"extern const size_t kNum{name} = {len(decompositions)};\n")


def main():
    folder, ranges, out = sys.argv[1:]
    text = ("// Generated by cmake/unicode_tables.py.\n#include <cstddef>\n#include <cstdint>\n\n"
            "namespace hearth::tokenizer::unicode_tables {\n")
    blocks, contents = two_stages(classes(folder))
    text += table("uint16_t", "kClassBlocks", blocks) + table("uint8_t", "kClasses", contents)
    norm, canonical, compatibility, pairs = normalization(folder)
    blocks, contents = two_stages(norm)
    text += table("uint16_t", "kNormBlocks", blocks) + table("uint16_t", "kNormClasses", contents)
    text += decomposition_tables("Canonical", canonical) + decomposition_tables("Compatibility", compatibility)
    text += table("uint64_t", "kPairs", [first << 32 | second for first, second, _ in pairs])
    text += table("char32_t", "kComposed", [point for _, _, point in pairs])
    text += f"extern const size_t kNumPairs = {len(pairs)};\n"
    lower = lower_case(folder)
    text += table("char32_t", "kUpper", [point for point, _ in lower])
    text += table("char32_t", "kLower", [other for _, other in lower])
    text += f"extern const size_t kNumLower = {len(lower)};\n"
    cuts = punctuation(folder)
    text += table("char32_t", "kPunctuation", [point for pair in cuts for point in pair])
    text += f"extern const size_t kNumPunctuation = {len(cuts)};\n"
    blocks, contents = two_stages(graphemes(folder, ranges))
    text += table("uint16_t", "kGraphemeBlocks", blocks) + table("uint8_t", "kGraphemes", contents)
    text += "}  // namespace hearth::tokenizer::unicode_tables\n"
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w", encoding="ascii") as file:
        file.write(text)


main()
