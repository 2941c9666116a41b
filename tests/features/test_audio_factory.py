"""Building audio extractors by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import UsageError
from pipelines.features.audio import AUDIO_EXTRACTORS, audio_options, build_audio_extractor, needs_weights
from pipelines.features.spec import FeatureSpec


def test_every_extractor_lists_its_options() -> None:
    for name in AUDIO_EXTRACTORS:
        assert all(isinstance(default, (str, int, float, bool)) for default in audio_options(name).values()), name
    assert audio_options("musicnn") == {"output": "pooled", "network": "auto"}
    assert all(needs_weights(name) for name in ("vggish", "musicnn", "speech", "soundnet", "yamnet"))
    assert not needs_weights("logmel")


def test_options_may_be_text() -> None:
    stream = build_audio_extractor("logmel", 0.1, {"n_mels": "20", "window": "0.2", "sample_rate": "8000"})
    assert stream.spec.width == 60 and stream.spec.window == 0.2 and stream.sample_rate == 8000


def test_a_specification_goes_through_json() -> None:
    part = build_audio_extractor("musicnn", 0.5, {"output": "tags"}).spec
    spec = FeatureSpec((part,), 0.5)
    assert FeatureSpec.from_dict(spec.to_dict()) == spec
    assert spec.width == 50 and spec.rate == 2.0
    assert build_audio_extractor("musicnn", 0.5, part.options).spec == part


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": 1}, "no option 'colour': choose from sample_rate"),
        ({"n_mels": "many"}, "must be a number, not 'many'"),
        ({"n_mels": 2.5}, "must be a whole number"),
        ({"n_mels": float("inf")}, "must be a number"),
        ({"window": "nan"}, "must be a finite number"),
        ({"window": "inf"}, "must be a finite number"),
    ],
)
def test_wrong_options_say_what_is_right(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_audio_extractor("logmel", 0.1, options)
    with pytest.raises(UsageError, match="true or false"):
        build_audio_extractor("vggish", 0.1, {"postprocess": "perhaps"}, random_weights=True)


def test_wrong_names_and_weights_say_what_is_right(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"choose from {', '.join(AUDIO_EXTRACTORS)}"):
        build_audio_extractor("vgg", 0.1)
    with pytest.raises(UsageError, match="has no weights"):
        build_audio_extractor("logmel", 0.1, weights_path=tmp_path)
    with pytest.raises(UsageError, match="choose one"):
        build_audio_extractor("musicnn", 0.1, weights_path=tmp_path, random_weights=True)
    with pytest.raises(UsageError, match="hop"):
        build_audio_extractor("logmel", 0.0)
    with pytest.raises(UsageError, match="alignment"):
        build_audio_extractor("logmel", 0.1, align="middle")  # type: ignore[arg-type]
