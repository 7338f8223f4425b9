#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the files of the families of models as text, for src/config/families.h.

    model_families.py MODELS_FOLDER OUT.cpp
"""

import os
import sys


def main():
    models, out = sys.argv[1:]
    rows = []
    for family in sorted(os.listdir(models)):
        folder = os.path.join(models, family)
        if not os.path.isdir(folder):
            continue
        # llama3.toml stands before llama3.1.toml.
        names = sorted(name for name in os.listdir(folder) if name.endswith(".toml"))
        for name in sorted(names, key=lambda name: name.removesuffix(".toml")):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            assert ')TOML"' not in text, f"{folder}/{name}"
            rows.append(f'    {{"{family}", "{name}", R"TOML({text})TOML"}},\n')
    with open(out + ".new", "w", encoding="utf-8") as file:
        file.write('#include "config/families.h"\n\nnamespace hearth::config {\n\n')
        file.write("std::span<const FamilyFile> family_files() {\n  static constexpr FamilyFile kFiles[] = {\n")
        file.write("".join(rows) + "  };\n  return kFiles;\n}\n\n}  // namespace hearth::config\n")
    os.replace(out + ".new", out)


main()
