"""Several models on one source: the numbers of single runs, from one decode."""

from __future__ import annotations

import io
import json
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from pipelines.errors import UsageError
from pipelines.features.media import AudioBlock
from pipelines.streaming import StreamModel, find_sources, open_model
from pipelines.streaming.messages import SourceEnded
from pipelines.streaming.options import PlayOptions, PredictionOptions
from pipelines.streaming.output.choice import OutputOptions
from pipelines.streaming.predicting.model_choice import ModelChoice, choose_models
from pipelines.streaming.predicting.prediction import Prediction
from pipelines.streaming.run import RunOptions, StreamRun
from pipelines.streaming.several_models import SeveralModels
from pipelines.streaming.sources import media_source
from pipelines.streaming.sources.shared_media import SharedMedia, Tracks
from tests.features.made_media import AudioTrackOptions, VideoTrackOptions, brightness, write_media
from tests.streaming.made_streams import chirp, played, small_model, write_rows, write_sound, write_video


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[StreamModel]:
    """One that hears, one that watches and one that does both, each on its own clock."""
    folder = tmp_path_factory.mktemp("models")
    return [
        small_model(folder, "logmel", hop=0.1),
        small_model(folder, "mobilenet_v2", hop=0.2, seed=1, classes=3),
        small_model(folder, "mobilenet_v2+logmel", hop=0.25, seed=2),
    ]


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every source that is opened for decoding."""
    opened: list[Any] = []
    original = media_source.decode

    def counted(source: Any, **options: Any) -> Any:
        opened.append(source)
        return original(source, **options)

    monkeypatch.setattr(media_source, "decode", counted)
    return opened


def events_of(paths: list[Path], models: list[StreamModel], **play: Any) -> tuple[SeveralModels, list[Any]]:
    options = PlayOptions(**{"fast": True, **play})
    stream = SeveralModels(find_sources([str(path) for path in paths]), models, options, PredictionOptions())
    return stream, list(stream.events())


def of_model(events: list[Any], name: str, source: str) -> list[Prediction]:
    return [
        event for event in events if isinstance(event, Prediction) and (event.model, event.source) == (name, source)
    ]


@pytest.mark.parametrize("chosen", [(0, 1), (0, 1, 2)])
def test_each_equals_its_own_run_from_one_decode(
    chosen: tuple[int, ...], tmp_path: Path, models: list[StreamModel], decodes: list[Any]
) -> None:
    paths = [write_video(tmp_path / "a.mp4", 2.0), write_video(tmp_path / "b.mp4", 1.5, size=(48, 64))]
    several = [models[index] for index in chosen]
    stream, events = events_of(paths, several)
    assert sorted(map(str, decodes)) == sorted(map(str, paths))  # each once
    assert stream.media.decodes == len(paths) and not stream.errors
    for model in several:
        single = played(paths, model)
        for path in paths:
            together = of_model(events, model.name, str(path))
            alone = [prediction for prediction in single if prediction.source == str(path)]
            assert len(together) == len(alone) > 0
            for prediction, other in zip(together, alone, strict=True):
                np.testing.assert_array_equal(prediction.scores, other.scores)
                assert (prediction.index, prediction.time, prediction.label) == (other.index, other.time, other.label)
    summary = stream.summary()
    assert summary.frames == sum(isinstance(event, Prediction) for event in events)
    assert summary.seconds == pytest.approx(3.5, abs=0.3)  # what is watched by several is media once


def test_the_built_in_models_that_watch_equal_their_own_runs(tmp_path: Path, decodes: list[Any]) -> None:
    times = [index / 29.97 for index in range(20)]
    path = write_media(tmp_path / "a.mp4", VideoTrackOptions(times=times, picture=brightness))
    several = [open_model("objects"), open_model("golf-swing")]
    _, events = events_of([path], several)
    assert len(decodes) == 1
    for model in several:
        together, alone = of_model(events, model.name, str(path)), played([path], model)
        assert [prediction.label for prediction in together] == [prediction.label for prediction in alone] and len(
            alone
        ) > 0
        np.testing.assert_array_equal(
            [prediction.scores for prediction in together], [prediction.scores for prediction in alone]
        )
        np.testing.assert_array_equal(
            [prediction.probabilities for prediction in together], [prediction.probabilities for prediction in alone]
        )


def test_tracks_of_different_lengths_are_what_they_are_alone(tmp_path: Path, models: list[StreamModel]) -> None:
    times = [index / 25 for index in range(50)]
    sound = AudioTrackOptions(samples=np.stack([chirp(1.2, 44_100)] * 2))
    path = write_media(tmp_path / "a.mp4", VideoTrackOptions(times=times, picture=brightness), sound)
    _, events = events_of([path], models[:2])
    for model in models[:2]:
        assert len(of_model(events, model.name, str(path))) == len(played([path], model))


def test_a_track_that_is_missing_fails_for_those_who_need_it(tmp_path: Path, models: list[StreamModel]) -> None:
    silent = write_video(tmp_path / "silent.mp4", 1.0, sound=False)
    stream, events = events_of([silent], models[:2])
    (error,) = stream.errors
    assert "has no audio track, but the model's features need audio" in str(error)
    assert len(of_model(events, models[1].name, str(silent))) == 5
    ended = {event.number: event.error is None for event in events if isinstance(event, SourceEnded)}
    assert ended == {0: False, 1: True}


def test_one_that_is_stopped_does_not_hold_up_the_others(tmp_path: Path, models: list[StreamModel]) -> None:
    path = write_video(tmp_path / "a.mp4", 2.0)
    options = PlayOptions(fast=True, loop=True)
    stream = SeveralModels(find_sources([str(path)]), models[:2], options, PredictionOptions())
    seen = 0
    for event in stream.events():
        seen += isinstance(event, Prediction)
        if seen == 60:
            stream.stop()
    assert seen >= 60


def test_passes_that_all_have_gone_through_are_let_go(tmp_path: Path) -> None:
    """A source may play again and again for days."""
    (source,) = find_sources([str(write_sound(tmp_path / "a.wav", 0.5))])
    media = SharedMedia([Tracks(audio=True, video=False)] * 2)

    def heard(stream: int) -> int:
        reader = media.open(stream, source, True, False, PlayOptions(), Event())
        return sum(len(item.samples) for item in reader if isinstance(item, AudioBlock))

    for stream in (0, 0, 1, 0, 1, 1, *(0, 1) * 5):  # one is a pass or two ahead at times
        assert heard(stream) == 8000
    assert len(media._passes) <= 2
    media.leave(1, source)
    assert [heard(0) for _ in range(10)] == [8000] * 10
    assert len(media._passes) <= 2 and media.decodes == 18


def test_feature_files_and_rows_that_say_whose_they_are(tmp_path: Path, models: list[StreamModel]) -> None:
    rows = small_model(tmp_path)
    write_rows(tmp_path / "rows.npy", 8)
    other = small_model(tmp_path, seed=5)
    other = StreamModel(**{**vars(other), "name": "other"})
    text = run_to_text([tmp_path / "rows.npy"], [rows, other], OutputOptions("jsonl"))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["model"] for line in lines].count("other") == 8 and len(lines) == 16
    table = run_to_text([tmp_path / "rows.npy"], [rows, other], OutputOptions("csv", segments=True))
    assert table.startswith("source,model,start,end,label,score,frames\n")
    columns = run_to_text([tmp_path / "rows.npy"], [rows, other], OutputOptions("csv")).splitlines()
    assert columns[0].startswith("source,model,index,") and all(
        line.count(",") == columns[0].count(",") for line in columns
    )
    folder = OutputOptions("jsonl", tmp_path / "out")
    run_to_text([tmp_path / "rows.npy"], [rows, other], folder)
    assert len(list((tmp_path / "out").glob("rows.*.jsonl"))) == 2


def run_to_text(
    paths: list[Path], models: list[StreamModel], output: OutputOptions, prediction: PredictionOptions | None = None
) -> str:
    class Nobody:
        def begin(self, _: Any) -> None: ...

        def predicted(self, _: Any) -> None: ...

        def played(self, *_: Any) -> None: ...

        def ended(self, _: Any) -> None: ...

        def remark(self, _: Any) -> None: ...

    text = io.StringIO()
    options = RunOptions(PlayOptions(fast=True), prediction or PredictionOptions(), output)
    StreamRun(find_sources([str(path) for path in paths]), models, options, Nobody(), text).run()
    return text.getvalue()


def test_what_does_not_go_together_is_refused(tmp_path: Path, models: list[StreamModel]) -> None:
    path = write_video(tmp_path / "a.mp4", 0.5)
    with pytest.raises(UsageError, match="names a model twice"):
        events_of([path], [models[0], models[0]])
    with pytest.raises(UsageError, match="one model"):
        events_of([path], models[:2], snapshot=tmp_path / "s.safetensors")
    with pytest.raises(UsageError, match="use --format jsonl for several"):
        run_to_text([path], models[:2], OutputOptions("csv", scores=True))


def test_the_source_chooses_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))
    silent = str(write_video(tmp_path / "silent.mp4", 0.2, sound=False))
    both, sound = str(write_video(tmp_path / "both.mp4", 0.2)), str(write_sound(tmp_path / "a.wav", 0.2))
    pictures = ModelChoice(("objects",), "pictures and no sound")
    assert choose_models(None, find_sources([silent])) == pictures
    assert choose_models(None, find_sources(["camera:0"])) == pictures
    assert choose_models(None, find_sources([both, sound])) == ModelChoice(("sound-events",), "sound")
    assert choose_models(None, find_sources([silent, sound])).names == ("sound-events",)
    assert choose_models(None, find_sources(["mic:"])) == ModelChoice(("sound-events",))
    # What is not there, or cannot be opened, has no say.
    (tmp_path / "empty.mp4").touch()
    unusable = [str(tmp_path / "absent.wav"), str(tmp_path / "empty.mp4")]
    assert choose_models(None, find_sources([*unusable, silent])) == pictures
    assert choose_models(None, find_sources(unusable)) == ModelChoice(("sound-events",))
    assert choose_models("objects, sound-events", find_sources([silent])).names == ("objects", "sound-events")
    with pytest.raises(UsageError, match="separate models by one comma"):
        choose_models("a,,b", [])
    (tmp_path / "config.toml").write_text('default_model = "music-genre"\n')
    assert choose_models(None, find_sources([silent])).names == ("music-genre",)
