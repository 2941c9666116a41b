"""Any model that we read, as one of ours: our own checkpoints, and those of other projects by their keys."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pipelines.checkpoints.checkpoint import Checkpoint, default_class_names, load_checkpoint
from pipelines.checkpoints.foreign_files.imported import Hints, Imported
from pipelines.checkpoints.foreign_files.source_file import SourceFile, file_kind, read_source, require_finite
from pipelines.checkpoints.projects import encoder_import, lstr, miniroad, oadtr, own_import
from pipelines.checkpoints.projects.encoder_layouts import find_encoder, joined_projections
from pipelines.errors import CheckpointError
from pipelines.wording import listed


class Importer(Protocol):
    """A module that reads the files of one project."""

    def recognise(self, keys: Collection[str]) -> bool: ...

    def read(self, source: SourceFile, hints: Hints) -> Imported: ...


# Whole models of other projects, by name; encoders of libraries are looked for after them.
IMPORTERS: dict[str, Importer] = {"OadTR": oadtr, "MiniROAD": miniroad, "LSTR or TeSTra": lstr}


@dataclass(frozen=True)
class OpenedSource:
    """A model, and the file that it was read from."""

    imported: Imported
    own: Checkpoint | None  # where the file is one of ours
    beside: tuple[str, ...]  # other entries of the file: "optimizer", "epoch", …


def open_source(path: Path, hints: Hints | None = None) -> OpenedSource:
    """Read a model of any project that we know. hints: what the file does not say."""
    if file_kind(path) == "cotrans":
        (hints or Hints()).refuse_others((), "a checkpoint of cotrans, which says everything itself,")
        checkpoint = load_checkpoint(path)
        return OpenedSource(own_import.read(checkpoint), checkpoint, ())
    source = read_source(path)
    return OpenedSource(import_source(source, hints), None, source.beside)


def open_checkpoint(path: Path, hints: Hints | None = None) -> Checkpoint:
    """Read a checkpoint of ours, or convert another project's in memory: exactly, without the proof."""
    opened = open_source(path, hints)
    if opened.own is not None:
        return opened.own
    imported = opened.imported
    model = own_import.filled_model(imported.config, imported.weights)
    names = imported.class_names or default_class_names(imported.config.classes)
    return Checkpoint(model, imported.config, names, None, {"source": path.name, "kind": imported.kind})


def recognised_as(source: SourceFile) -> str | None:
    """Which importer a file is for, or None."""
    project = _project(source)
    if project is not None:
        return project[0]
    encoder = find_encoder(joined_projections(source.weights), None)
    return None if encoder is None else encoder.layout.library


def import_source(source: SourceFile, hints: Hints | None = None) -> Imported:
    """The model in another project's file that has been read already."""
    hints = hints or Hints()
    require_finite(source.weights, source.path)
    project = _project(source) if hints.prefix is None else None
    if project is not None:
        name, inner = project
        return IMPORTERS[name].read(inner, hints)
    if encoder_import.recognise(joined_projections(source.weights), hints.prefix):
        return encoder_import.read(source, hints)
    raise CheckpointError(
        f"{source.path} is no model that we know (OadTR, CoOadTR, MiniROAD, LSTR, TeSTra, "
        f"torch.nn.TransformerEncoder, continual.TransformerEncoder); its keys: {listed(list(source.weights))}"
    )


def _project(source: SourceFile) -> tuple[str, SourceFile] | None:
    """Whose whole model this is, and its weights without what stands before every key ("model." of Lightning)."""
    keys = list(source.weights)
    while keys:
        for name, importer in IMPORTERS.items():
            if importer.recognise(keys):
                weights = dict(zip(keys, source.weights.values(), strict=True))
                return name, replace(source, weights=weights)
        first = keys[0].partition(".")[0] + "."
        if not all(key.startswith(first) for key in keys):
            return None
        keys = [key.removeprefix(first) for key in keys]
    return None
