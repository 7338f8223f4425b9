# SPDX-License-Identifier: Apache-2.0
"""Runs scripts for the tests of one binary (support/python.h). Python's libraries take seconds to import.

The server imports what a script imports, then runs the script in a fork. A second script with the same imports
starts at once: the server also imports what the first one imported while it ran. For example, transformers imports
the module of a model where the model is used.

A request is a line with a length in bytes, then the words of a command line, quoted as for a shell: SCRIPT ARGUMENT...
or -c CODE ARGUMENT... A reply is a line "EXIT_CODE LENGTH", then the bytes of standard output and standard error
together.
"""
import ast
import gc
import importlib
import os
import shlex
import sys
import sysconfig
import tempfile
import traceback
import types

# For all scripts: no network, and no threads that spin while they wait for matrices of four rows.
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", OPENBLAS_NUM_THREADS="1")


def import_what_it_imports(code, folder):
    """Imports the libraries of `code`. A library that is missing is the script's error and not the server's."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        if any(os.path.exists(os.path.join(folder, name.split(".")[0] + ".py")) for name in names):
            continue
        try:
            exec(ast.unparse(node), {})
        except Exception:
            pass


def installed_modules():
    """The names of the modules that are loaded from installed libraries, in the order of their imports."""
    folder = sysconfig.get_paths()["purelib"]
    return [name for name, module in list(sys.modules.items())
            if (getattr(module, "__file__", None) or "").startswith(folder)]


def import_what_was_imported(names):
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            pass


def run(code, path, arguments):
    """The script as Python's own __main__. Returns the exit code."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    sys.argv = arguments
    sys.path[0] = os.path.dirname(path)
    try:
        exec(compile(code, path, "exec"), main.__dict__)
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    return 1


def answer(words):
    """Returns the exit code (128 + signal if killed) and the output of one script."""
    if words[0] == "-c":
        code, path, arguments = words[1], "", ["-c"] + words[2:]
    else:
        path, arguments = words[0], words
        with open(path, encoding="utf-8") as file:
            code = file.read()
    import_what_it_imports(code, os.path.dirname(path))
    reader, writer = os.pipe()
    imported = tempfile.TemporaryFile()
    gc.freeze()  # the child's garbage collector would copy every page that it looks at
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        os.close(reader)
        os.close(writer)
        known = set(sys.modules)
        exit_code = run(code, path, arguments)
        imported.write("\n".join(name for name in installed_modules() if name not in known).encode())
        imported.flush()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code & 0xFF)
    os.close(writer)
    with open(reader, "rb") as file:
        output = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with imported:
        imported.seek(0)
        import_what_was_imported(imported.read().decode().splitlines())
    return (status if status >= 0 else 128 - status), output


def main():
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in 1, 2:  # what an import prints is not a script's output
        os.dup2(nowhere, descriptor)
    while length := requests.readline():
        exit_code, output = answer(shlex.split(requests.read(int(length)).decode()))
        replies.write(b"%d %d\n" % (exit_code, len(output)) + output)
        replies.flush()


main()
