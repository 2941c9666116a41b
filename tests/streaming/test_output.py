"""What is written: every format is valid, and says what the predictions say."""

from __future__ import annotations

import csv
import io
import json
import resource
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from pipelines.errors import InputError, UsageError
from pipelines.metrics.probabilities import probabilities
from pipelines.streaming import PlayOptions, PredictionOptions, StreamModel, find_sources
from pipelines.streaming.output.choice import OutputOptions
from pipelines.streaming.output.formats import TextLines
from pipelines.streaming.output.palette import class_colours
from pipelines.streaming.output.report_options import ReportOptions
from pipelines.streaming.output.segments import SegmentMerger
from pipelines.streaming.predicting.prediction import Interpreter, Prediction
from pipelines.streaming.run import RunOptions, StreamRun
from tests.streaming.made_streams import CLASSES, played, small_model, write_rows, write_video


class Nobody:
    """An observer that does not look."""

    def begin(self, statistics: Any) -> None: ...

    def predicted(self, prediction: Any) -> None: ...

    def played(self, number: int, item: Any, time: float) -> None: ...

    def ended(self, event: Any) -> None: ...

    def remark(self, remark: Any) -> None: ...


def written(
    paths: list[Path],
    model: StreamModel,
    output: OutputOptions,
    prediction: PredictionOptions | None = None,
    overlay: Path | None = None,
) -> str:
    text = io.StringIO()
    options = RunOptions(PlayOptions(fast=True), prediction or PredictionOptions(), output, overlay)
    StreamRun(find_sources([str(path) for path in paths]), [model], options, Nobody(), text).run()
    return text.getvalue()


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    write_rows(tmp_path / "rows.npy", 30)
    return tmp_path / "rows.npy"


@pytest.mark.parametrize(
    ("columns", "mentioned"),
    [
        (None, "   matchstick 30 %  nematode 10 %  wall clock 10 %"),
        (83, "   matchstick 30 %  nematode 10 %  wall clock 10 %"),
        (82, "   matchstick 30 %  nematode 10 %"),
        (60, "   matchstick 30 %"),
        (20, ""),
    ],
)
def test_lines_of_a_terminal_mention_the_classes_that_fit(columns: int | None, mentioned: str) -> None:
    names = ("digital clock", "matchstick", "nematode", "wall clock")
    values = np.array([0.5, 0.3, 0.1, 0.1])
    top = tuple(zip(names, values.tolist(), strict=True))
    prediction = Prediction("a", 0, 0, 1.0, 0, 1.0, names[0], 0.5, top, False, 0.0, values, values)
    line = TextLines(names, several=False, columns=columns).prediction(prediction)
    assert line == f"  0:01.00   digital clock  50.0 %{mentioned}\n"


def test_json_lines_have_exactly_the_documented_keys(rows: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path)
    lines = [json.loads(line) for line in written([rows], model, OutputOptions("jsonl", scores=True)).splitlines()]
    predictions = played([rows], model)
    keys = ["source", "index", "time", "begin", "end", "label", "score", "top", "warmup", "latency_ms", "scores"]
    assert [list(line) for line in lines] == [keys] * 30
    for line, prediction in zip(lines, predictions, strict=True):
        np.testing.assert_allclose(line["scores"], prediction.scores, atol=1e-6)
        assert line["label"] == line["top"][0][0] == prediction.label
        assert line["score"] == line["top"][0][1] == pytest.approx(prediction.score, abs=1e-6)
        assert len(line["top"]) == 3
    assert "scores" not in json.loads(written([rows], model, OutputOptions("jsonl")).splitlines()[0])


def test_where_no_class_is_there_no_score_stands_beside_it(rows: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path)
    lines = written([rows], model, OutputOptions("table"), PredictionOptions(threshold=1.0)).splitlines()
    for line, prediction in zip(lines, played([rows], model), strict=True):
        best = f"{prediction.top[0][0]} {100 * prediction.top[0][1]:.0f} %"
        before, dash, after = line.partition("–")
        assert dash and "%" not in before and after.strip().startswith(best)


def test_the_summary_says_where_nothing_was_named(rows: Path, tmp_path: Path) -> None:
    model, said = small_model(tmp_path), {}
    for threshold in (0.0, 1.0):
        options = RunOptions(PlayOptions(fast=True), PredictionOptions(threshold=threshold), None)
        summary = StreamRun(find_sources([str(rows)]), [model], options, Nobody(), None).run()
        said[threshold] = summary.lines()
        assert summary.to_dict()["named"] == summary.named == (0 if threshold else summary.frames)
    assert not any("no frame got a label" in line for line in said[0.0])
    assert sum("no frame got a label" in line and "--threshold 0" in line for line in said[1.0]) == 1


@pytest.mark.parametrize(("lag", "rows"), [(0, 6), (1, 6), (4, 6), (4, 3)])
def test_the_summary_counts_as_many_rows_as_were_told(lag: int, rows: int, tmp_path: Path) -> None:
    """Two sources; the last answers of a model with a lag come when no frame does any more."""
    model, out = small_model(tmp_path, lag=lag), tmp_path / "out"
    sources = [str(tmp_path / f"{name}.npy") for name in "ab"]
    for source in sources:
        write_rows(Path(source), rows)
    options = RunOptions(PlayOptions(fast=True), PredictionOptions(threshold=0.0), OutputOptions("jsonl", out))
    summary = StreamRun(find_sources(sources), [model], options, Nobody(), None).run()
    told = [json.loads(line) for path in out.iterdir() for line in path.read_text().splitlines()]
    late = len(told) - 2 * rows
    assert summary.frames == summary.named == 2 * rows and late == 2 * min(lag, rows)
    spoken = f"{2 * rows} frames (and {late} rows of the lag), " if lag else f"{2 * rows} frames, "
    assert any(line.startswith(spoken) for line in summary.lines())
    assert sum(not row.get("early", False) for row in told) == summary.frames


@pytest.mark.parametrize("report", [False, True])
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"least": 0.0}, None),
        ({"least": 60.0}, "no segment lasts 60 s, and shorter ones are left out; --least 0 tells of them too"),
        ({"hide": CLASSES}, "no frame got a label: none of the classes that --only and --hide leave"),
        ({"threshold": 1.0, "least": 60.0}, "no frame got a label"),
    ],
)
def test_the_summary_says_why_there_is_no_segment(
    rows: Path, tmp_path: Path, asked: dict[str, Any], said: str | None, report: bool
) -> None:
    page = ReportOptions(tmp_path / "page.html") if report else None
    output = OutputOptions("table", segments=not report)
    options = RunOptions(PlayOptions(fast=True), PredictionOptions(**asked), output, report=page)
    out = io.StringIO()
    summary = StreamRun(find_sources([str(rows)]), [small_model(tmp_path)], options, Nobody(), out).run()
    lines = [line for line in summary.lines() if line.startswith("no ")]
    assert lines == [] if said is None else len(lines) == 1 and lines[0].startswith(said)
    if not report:
        assert (out.getvalue() == "") == (said is not None)


def test_the_summary_says_that_only_background_was_there(rows: Path, tmp_path: Path) -> None:
    model, said = small_model(tmp_path), {}
    quiet = played([rows], model)[0].label
    names = tuple("background" if name == quiet else name for name in CLASSES)
    for kind in ("softmax", "sigmoid"):
        own = replace(model, class_names=names, score_kind=kind)
        asked = PredictionOptions(thresholds={name: 1.0 for name in names if name != "background"})
        options = RunOptions(PlayOptions(fast=True), asked, OutputOptions(segments=True))
        summary = StreamRun(find_sources([str(rows)]), [own], options, Nobody(), io.StringIO()).run()
        said[kind] = [line for line in summary.lines() if line.startswith("no ")]
    assert said["softmax"] == ["no segment: only background was heard or seen; --only background tells of it"]
    assert len(said["sigmoid"]) == 1 and "--threshold" in said["sigmoid"][0]


def test_a_resumed_stream_knows_the_segments_that_were_told_before(rows: Path, tmp_path: Path) -> None:
    model, out = small_model(tmp_path), tmp_path / "out.csv"
    state = tmp_path / "state"
    for play in (PlayOptions(fast=True, snapshot=state), PlayOptions(fast=True, resume=state)):
        options = RunOptions(play, PredictionOptions(), OutputOptions(out=out, segments=True))
        summary = StreamRun(find_sources([str(rows)]), [model], options, Nobody(), None).run()
    assert len(out.read_text().splitlines()) > 2
    assert not any(line.startswith("no segment") for line in summary.lines())


def test_csv_is_valid(rows: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path)
    model = replace(model, class_names=('a "b", c', *CLASSES[1:]))
    table = list(csv.DictReader(io.StringIO(written([rows], model, OutputOptions("csv", scores=True)))))
    predictions = played([rows], model)
    assert [row["label"] for row in table] == [prediction.label for prediction in predictions]
    assert [int(row["index"]) for row in table] == list(range(30))
    assert [row["warmup"] for row in table] == ["true"] * 5 + ["false"] * 25
    np.testing.assert_allclose(
        [[float(row[f"scores[{name}]"]) for name in model.class_names] for row in table],
        [prediction.scores for prediction in predictions],
        atol=1e-6,
    )


@pytest.mark.parametrize("suffix", ["srt", "vtt"])
def test_subtitles_are_read_by_ffmpeg_and_cover_the_stream(rows: Path, tmp_path: Path, suffix: str) -> None:
    model = small_model(tmp_path)
    model = replace(model, class_names=("a <b> & c", *CLASSES[1:]))
    file = tmp_path / f"out.{suffix}"
    assert written([rows], model, OutputOptions(out=file)) == ""
    text = file.read_text()
    assert text.startswith("WEBVTT\n\n1\n00:00:00.000 --> " if suffix == "vtt" else "1\n00:00:00,000 --> ")
    with av.open(str(file)) as container:
        packets = [packet for packet in container.demux() if packet.size]
        clock = packets[0].time_base
        cues = [
            (float(packet.pts * clock), float((packet.pts + packet.duration) * clock), bytes(packet))
            for packet in packets
        ]
    frames = played([rows], model)
    changes = [0] + [place for place in range(1, 30) if frames[place].label != frames[place - 1].label] + [30]
    assert [cue[0] for cue in cues] == pytest.approx([0.25 * place for place in changes[:-1]], abs=1e-3)
    assert [cue[1] for cue in cues] == pytest.approx([0.25 * place for place in changes[1:]], abs=1e-3)
    for cue, place in zip(cues, changes[:-1], strict=True):
        label = str(frames[place].label)
        shown = label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") if suffix == "vtt" else label
        assert cue[2].decode().startswith(shown)


def test_segments_are_runs_of_one_label(rows: Path, tmp_path: Path) -> None:
    model = small_model(tmp_path)
    options = PredictionOptions(threshold=0.5, smooth=0.75)
    text = written([rows], model, OutputOptions("jsonl", segments=True), options)
    segments = [json.loads(line) for line in text.splitlines()]
    frames = played([rows], model, options)
    covered = [None] * 30
    for segment in segments:
        first, last = round(segment["start"] / 0.25), round(segment["end"] / 0.25)
        assert segment["frames"] == last - first
        scores = [frames[place].score for place in range(first, last)]
        assert segment["score"] == pytest.approx(np.mean(scores), abs=1e-6)
        covered[first:last] = [segment["label"]] * (last - first)
    assert covered == [prediction.label for prediction in frames]
    assert None in covered  # the threshold leaves frames without a label
    table = written([rows], model, OutputOptions("table", segments=True), options).splitlines()
    assert len(table) == len(segments)
    assert table[0].startswith("  0:00.00 – ") or segments[0]["start"] > 0


def test_several_labels_at_once() -> None:
    def frame(index: int, *probabilities: float) -> Prediction:
        values = np.array(probabilities)
        return Prediction("a", 0, index, index + 1.0, index, index + 1.0, "x", 0.9, (), False, 0.0, values, values)

    frames = [frame(0, 0.9, 0.1), frame(1, 0.8, 0.7), frame(2, 0.2, 0.6), frame(4, 0.1, 0.9)]
    merger = SegmentMerger("a", "sigmoid")
    segments = [segment for frame in frames for segment in merger.push(frame, ("x", "y"))] + merger.finish()
    assert [(stretch.label, stretch.start, stretch.end) for stretch in segments] == [
        ("x", 0, 2),
        ("y", 1, 3),
        ("y", 4, 5),
    ]
    joined = SegmentMerger("a", "sigmoid", joined=True)
    segments = [segment for frame in frames for segment in joined.push(frame, ("x", "y"))] + joined.finish()
    assert [(stretch.label, stretch.start, stretch.end) for stretch in segments] == [
        ("x", 0, 1),
        ("x, y", 1, 2),
        ("y", 2, 3),
        ("y", 4, 5),
    ]


def test_probabilities_are_smoothed_over_the_last_rows() -> None:
    scores = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32) * 20
    interpreter = Interpreter(("a", "b", "c", "d"), "softmax", smooth_rows=3)
    pieces = (scores[:1], scores[1:5], scores[5:])  # what comes together makes no difference
    smoothed = [answer.probabilities for piece in pieces for answer in interpreter.answers(piece)]
    single = np.stack([probabilities(row, "softmax") for row in scores])
    np.testing.assert_allclose(single.sum(axis=1), 1.0)
    for place in range(6):
        np.testing.assert_allclose(smoothed[place], single[max(0, place - 2) : place + 1].mean(axis=0))
    extreme = np.array([-1000.0, 1000.0, 0.0], np.float32)
    np.testing.assert_allclose(probabilities(extreme, "sigmoid"), [0.0, 1.0, 0.5])
    np.testing.assert_allclose(probabilities(extreme, "softmax"), [0.0, 1.0, 0.0])


def test_a_folder_gets_a_file_for_each_source(tmp_path: Path) -> None:
    model = small_model(tmp_path)
    paths = [tmp_path / name / "same.npy" for name in ("one", "two")] + [tmp_path / "other.npy"]
    for index, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        write_rows(path, 5 + index, seed=index)
    with pytest.raises(UsageError, match="srt holds one source"):
        written(paths, model, OutputOptions("srt"))
    written(paths, model, OutputOptions("srt", out=tmp_path / "subtitles"))
    files = sorted(path.name for path in (tmp_path / "subtitles").iterdir())
    assert files == ["other.srt", "same-1.srt", "same-2.srt"]
    table = written(paths, model, OutputOptions("table"))
    assert len(table.splitlines()) == 5 + 6 + 7


def test_the_overlay_shows_the_labels_and_keeps_the_rest(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", 1.6, size=(160, 120))
    model = small_model(tmp_path, "logmel", hop=0.2)
    target = tmp_path / "overlay.mp4"
    written([video], model, OutputOptions("jsonl"), overlay=target)
    with av.open(str(video)) as before, av.open(str(target)) as after:
        old = [frame.to_ndarray(format="rgb24").astype(int) for frame in before.decode(video=0)]
        new = [frame.to_ndarray(format="rgb24").astype(int) for frame in after.decode(video=0)]
        assert len(new) == len(old) == 40
        assert float(after.duration) == pytest.approx(float(before.duration), abs=60_000)
        assert len(after.streams.audio) == 1
    height = old[0].shape[0]
    # Nothing is known before the first row, at 0.2 s; then the lower part carries the labels.
    assert np.abs(new[2] - old[2]).mean() < 8
    for place in (8, 20, 39):
        assert np.abs(new[place][: height // 6] - old[place][: height // 6]).mean() < 8
        panel = new[place][-20:, :80]
        assert panel.max() > 150  # light letters on a dark box
        assert panel.min() < 70
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "logmel.safetensors", "overlay.mp4"]


def test_the_overlay_keeps_the_shape_of_pixels_and_draws_the_strip(tmp_path: Path) -> None:
    video = tmp_path / "a.mp4"
    with av.open(str(video), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 160, 120, "yuv420p"
        stream.codec_context.sample_aspect_ratio = Fraction(16, 15)
        for shade in range(40):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((120, 160, 3), shade, np.uint8), "rgb24")))
        container.mux(stream.encode(None))
    model = small_model(tmp_path, "mobilenet_v2", hop=0.2)
    target = tmp_path / "overlay.mp4"
    predictions = played([video], model)
    written([video], model, OutputOptions("jsonl"), overlay=target)
    with av.open(str(target)) as after:
        assert after.streams.video[0].sample_aspect_ratio == Fraction(16, 15)
        last = [frame.to_ndarray(format="rgb24").astype(int) for frame in after.decode(video=0)][-1]
    colour = class_colours(model.class_names)[str(predictions[-2].label)]
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    assert np.abs(last[-1, -1] - wanted).max() < 40  # as H.264 with half-size colour keeps it


def test_an_overlay_on_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    video = write_video(tmp_path / "a.mp4", 1.6, size=(160, 120))
    model = small_model(tmp_path, "logmel", hop=0.2)
    target = tmp_path / "overlay.mp4"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with pytest.raises(InputError, match=r"--overlay: (the disk is full: )?cannot write to .*overlay\.mp4"):
            written([video], model, OutputOptions("jsonl"), overlay=target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)
    assert not [path.name for path in tmp_path.iterdir() if "overlay" in path.name]


def test_options_that_contradict_each_other(tmp_path: Path, rows: Path) -> None:
    with pytest.raises(UsageError, match="unknown --format 'xml': choose from table, jsonl, csv, srt, vtt"):
        OutputOptions("xml")
    with pytest.raises(UsageError, match="--scores needs --format jsonl or csv"):
        OutputOptions("table", scores=True)
    with pytest.raises(UsageError, match="does not go with --segments"):
        OutputOptions("csv", scores=True, segments=True)
    with pytest.raises(UsageError, match="--threshold must be from 0 to 1"):
        PredictionOptions(threshold=1.5)
    with pytest.raises(UsageError, match="--overlay draws on one video file"):
        written([rows], small_model(tmp_path), OutputOptions("jsonl"), overlay=tmp_path / "o.mp4")
