"""Where a converted checkpoint goes: settled before anything heavy is imported or read."""

from __future__ import annotations

import os
from pathlib import Path

from pipelines.errors import InputError, UsageError
from pipelines.files import refuse_overwriting

OUTPUT_SUFFIX = ".cotrans.safetensors"
_SUFFIXES = (".cotrans.safetensors", ".safetensors", ".pth.tar", ".pth", ".pt", ".ckpt", ".bin", ".tar")


def output_path(path: Path, output: Path | None = None, force: bool = False, verify: Path | None = None) -> Path:
    """Where the result goes; refused when something is there that may not be overwritten."""
    target = output
    if target is None:
        stem = next((path.name.removesuffix(end) for end in _SUFFIXES if path.name.endswith(end)), path.stem)
        target = path.parent / (stem + OUTPUT_SUFFIX)
        if target == path:
            raise UsageError(
                f"{path} is called as a result is, which `cotrans stream` takes as it is: to convert it once more, "
                "choose another name with --out"
            )
    if target.is_dir():
        raise UsageError(f"{target} is a folder: give --out the name of a file")
    refuse_overwriting([("--out" if output else "the result", target)], [path, *filter(None, [verify])])
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(
            f"cannot write to {target} ({folder} is no folder that you may write to): choose another folder"
        )
    if target.exists() and not force:
        raise UsageError(f"{target} exists already: add --force to overwrite it, or --out for another name")
    return target
