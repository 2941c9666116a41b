"""Parts of evaluations that somebody edited: `--merge` refuses them with one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.datasets.source import DataSource, FeatureOptions
from pipelines.errors import InputError
from pipelines.evaluation.comparison import ComparisonOptions
from pipelines.evaluation.data.data_request import DataRequest
from pipelines.evaluation.sharing.part import ContenderPart, ModelPart, Part, read_part, write_part
from pipelines.features.request import FeatureRequest
from pipelines.shard import parse_shard

VALUES: tuple[Any, ...] = (-1, 1e308, [], {"a": {}}, True, [[]])


def whole_part() -> Part:
    features = FeatureOptions(FeatureRequest("logmel", hop=0.1, options={"n_mels": 32}), cache="/tmp/x")
    source = DataSource("folder", Path("clips"), {"fold": 2, "classes": ["a", "b"], "split": "x", "hop": 0.5}, features)
    options = ComparisonOptions(modes=("chunk", "stream"), foreign=Path("noise"), detail=0.9)
    contender = ContenderPart("m", (), (ModelPart(Path("m.safetensors"), "ab", "cd", ()),))
    return Part(parse_shard("1/2"), DataRequest(source, "validation", {"logmel": "w"}), options, (contender,))


def test_a_whole_part_is_read_as_it_was(tmp_path: Path) -> None:
    write_part(tmp_path / "p.json", whole_part())
    assert read_part(tmp_path / "p.json") == whole_part()


@pytest.mark.parametrize(
    "place",
    [
        *(("request", name) for name in ("dataset", "options", "part", "features", "weights")),
        *(("request", "features", name) for name in ("directory", "cache", "names", "align", "options")),
        *(("options", name) for name in ("modes", "protocol", "device", "precision", "baseline", "foreign")),
    ],
)
def test_values_of_another_type_are_refused(tmp_path: Path, place: tuple[str, ...]) -> None:
    path = tmp_path / "p.json"
    write_part(path, whole_part())
    text = path.read_text()
    for value in VALUES:
        if value == [] and place == ("options", "modes"):
            continue
        document = json.loads(text)
        inner = document
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value
        path.write_text(json.dumps(document))
        with pytest.raises(InputError, match="a damaged part"):
            read_part(path)
