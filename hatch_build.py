"""Compiles `pipelines/model/native` while the package is built or installed, where there is a C compiler for it.

Without one, or on another processor, the package is pure Python and PyTorch does that work: nothing fails.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path(__file__).parent / "pipelines" / "model" / "native"
FLAGS = ["-O3", "-std=gnu11", "-fPIC", "-fno-math-errno", "-fno-trapping-math"]
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mprefer-vector-width=512"]
SETS = {"avx512": [*AVX2, *AVX512], "avx2": AVX2}


class NativeHook(BuildHookInterface):
    """hatchling's hook: before a wheel, editable or not."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        try:
            library = compiled()
        except (OSError, ValueError, subprocess.SubprocessError) as error:  # ValueError: a CC that is no command
            self.app.display_warning(f"cotrans is installed without its C kernels: {error}")
            return
        if library is not None:
            build_data["artifacts"].append(library.relative_to(Path(self.root)).as_posix())
            build_data["pure_python"], build_data["infer_tag"] = False, False
            build_data["tag"] = f"py3-none-linux_{platform.machine()}"  # for machines like the one that compiles


def compiled() -> Path | None:
    """The library; None where there is no compiler, or no kernel for the processor."""
    compiler = (
        shlex.split(os.environ.get("CC", "")) or [name for name in ("gcc", "cc", "clang") if shutil.which(name)][:1]
    )
    if not compiler or sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    library = FOLDER / "kernels.so"
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        objects = [
            _object(compiler, "kernels", scratch / f"{instructions}.o", f"-DAS={instructions}", *flags)
            for instructions, flags in SETS.items()
        ]
        objects.append(_object(compiler, "processor", scratch / "processor.o", f'-DSOURCES="{sources_digest()}"'))
        made = scratch / library.name
        _run([*compiler, "-shared", *objects, "-lm", "-o", str(made)])
        fresh = library.with_suffix(".new")  # a library that somebody has loaded must not be written into
        shutil.copyfile(made, fresh)
        fresh.replace(library)
    return library


def _object(compiler: list[str], source: str, made: Path, *flags: str) -> str:
    _run([*compiler, *FLAGS, *flags, "-c", str(FOLDER / f"{source}.c"), "-o", str(made)])
    return str(made)


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)


def sources_digest() -> str:
    """As `library.py` has it."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.[ch]")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
