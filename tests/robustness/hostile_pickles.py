"""Pickles that try to run something, in every way that a pickle can: each would make a file if it were believed."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pipelines.untrusted.torch_file import LEGACY_START

# Names that give an attacker something: a program, an import, an attribute, a file.
NAMES = (
    ("os", "system"), ("posix", "system"), ("subprocess", "Popen"), ("subprocess", "check_output"),
    ("builtins", "eval"), ("builtins", "exec"), ("__builtin__", "eval"), ("builtins", "getattr"),
    ("builtins", "__import__"), ("builtins", "open"), ("builtins", "compile"), ("builtins", "map"),
    ("importlib", "import_module"), ("runpy", "run_path"), ("shutil", "rmtree"), ("pathlib", "Path.touch"),
    ("torch", "load"), ("torch.hub", "load"), ("torch.jit", "load"), ("numpy", "load"),
    ("numpy.f2py.crackfortran", "getlincoef"), ("operator", "attrgetter"), ("functools", "partial"),
    ("types", "FunctionType"), ("code", "InteractiveInterpreter"), ("pickle", "loads"), ("_pickle", "loads"),
    ("copyreg", "_reconstructor"), ("collections", "OrderedDict.__class__"), ("argparse", "Namespace.__init__"),
)  # fmt: skip


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def _named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


Form = Callable[[str, str, bytes], bytes]
# module, name, what it is called with (a tuple on the stack) -> the instructions that call it
FORMS: dict[str, Form] = {
    "reduce": lambda module, name, given: _named(module, name) + given + b"R",
    "stack global": lambda module, name, given: _text(module) + _text(name) + b"\x93" + given + b"R",
    "inst": lambda module, name, given: b"(" + given[1:-1] + f"i{module}\n{name}\n".encode(),
    "obj": lambda module, name, given: b"(" + _named(module, name) + given[1:-1] + b"o",
    "new object": lambda module, name, given: _named(module, name) + given + b"\x81",
    "new object with keywords": lambda module, name, given: _named(module, name) + given + b"}\x92",
    "build": lambda module, name, given: _named(module, name) + b"}" + given + b"Nsb",
    "twice": lambda module, name, given: _named(module, name) + given + b"R" + given + b"R",
    "in a key": lambda module, name, given: b"}" + _named(module, name) + given + b"RNs",
    "persistent": lambda module, name, given: _named(module, name) + given + b"RQ",
}


def hostile_pickles(canary: Path) -> Iterator[tuple[str, bytes]]:
    """What it tries, and the pickle. canary: the file that would be there afterwards."""
    given = b"(" + _text(f"touch {canary}") + b"t"
    for form, write in FORMS.items():
        for module, name in NAMES:
            yield f"{module}.{name}, {form}", b"\x80\x04" + write(module, name, given) + b"."


def as_archive(program: bytes, path: Path) -> Path:
    """A .pth of today whose pickle this is."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", "3\n")
    return path


def as_legacy(program: bytes, path: Path) -> Path:
    """A .pth from before 2020."""
    path.write_bytes(LEGACY_START + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + program + pickle.dumps([], 2))
    return path


def as_pickle(program: bytes, path: Path) -> Path:
    path.write_bytes(program)
    return path
