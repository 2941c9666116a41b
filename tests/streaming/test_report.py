"""`cotrans report` and `stream --report`: what goes into the page, and what is refused."""

from __future__ import annotations

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotrans_cli.main import run
from pipelines.errors import CotransError, InputError, UsageError
from pipelines.streaming.output.file_report import FileReport, report_predictions
from pipelines.streaming.output.report_options import ReportOptions
from tests.features.made_recordings import write_sound, write_video
from tests.streaming.made_streams import CLASSES, write_model, write_rows


def page_data(path: Path) -> dict[str, Any]:
    """What a page was made with."""
    match = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S
    )
    assert match is not None
    return json.loads(match[1])


def write_lines(path: Path, source: str, labels: str, **more: Any) -> Path:
    """One row a quarter of a second; `labels` names the class of each, with a dash for none."""
    with path.open("a", encoding="utf-8") as file:
        for index, letter in enumerate(labels):
            time = 0.25 * (index + 1)
            top = [["b" if letter == "-" else letter, 0.75], ["z", 0.125]]
            line = {"source": source, "index": index, "time": time, "label": None if letter == "-" else letter}
            file.write(json.dumps({**line, "score": 0.75, "top": top, "latency_ms": 2.0, **more}) + "\n")
    return path


def report(path: Path, *media: Path, **options: Any) -> dict[str, Any]:
    hide, least = options.pop("hide", ()), options.pop("least", None)
    page = report_predictions(FileReport(path, ReportOptions(path.with_suffix(".html"), **options), media, hide, least))
    return page_data(page)


def test_segments_are_those_that_the_lines_say(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "a.wav", seconds=1.6)
    (recording,) = report(write_lines(tmp_path / "p.jsonl", "talks/a.wav", "aab-ba"), sound)["recordings"]
    assert recording["segments"] == [
        [0, 0.5, "a", 0.75],
        [0.5, 0.75, "b", 0.75],
        [1, 1.25, "b", 0.75],
        [1.25, 1.5, "a", 0.75],
    ]
    assert recording["classes"] == ["a", "b", "z"]
    assert recording["rows"]["runs"] == [[0, 6]] and recording["rows"]["hop"] == 0.25
    assert recording["media"]["href"] == "a.wav" and recording["strip"]["kind"] == "waveform"
    assert ["Latency", "2.0 ms", "median; p95 2.0, max 2.0"] in recording["figures"]


def test_short_stretches_are_left_out_where_that_is_said(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "p.jsonl", "a.wav", "aabaaa")
    (recording,) = report(path, least=0.5)["recordings"]
    assert recording["segments"] == [[0, 1.5, "a", 0.75]] and recording["least"] == 0.5
    with pytest.raises(UsageError, match="--least must be 0 or more"):
        report(path, least=-1)


def test_hidden_classes_and_background_have_no_lane_and_no_segment(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    for label in ("a", "background"):
        write_lines(path, "x", "aa", label=label, top=[[label, 0.5], ["b", 0.5]])
    recording = report(path, hide=("b",))["recordings"][0]
    assert [recording["classes"][index] for index in recording["hidden"]] == ["b", "background"]
    assert {segment[2] for segment in recording["segments"]} == {"a"}
    with pytest.raises(UsageError, match="no class 'dog'"):
        report(path, hide=("dog",))


def test_several_sources_are_chosen_by_name(tmp_path: Path) -> None:
    path = write_lines(write_lines(tmp_path / "p.jsonl", "x/b.mp4", "b"), "x/a.wav", "a")
    sound, video = write_sound(tmp_path / "a.wav", 1.0), write_video(tmp_path / "b.mp4", 1.0)
    first, second = report(path, video, sound)["recordings"]
    assert (first["media"]["kind"], second["media"]["kind"]) == ("audio", "video")
    assert len(second["strip"]["images"]) == 1
    with pytest.raises(UsageError, match=r"are about a\.wav, b\.mp4"):
        report(path, write_sound(tmp_path / "c.wav", 1.0))


def test_embedded_media_are_in_the_page(tmp_path: Path) -> None:
    sound = write_sound(tmp_path / "a.ogg", seconds=1.0)
    path = write_lines(tmp_path / "p.jsonl", "a.ogg", "a")
    media = report(path, sound, embed=True)["recordings"][0]["media"]
    assert media["block"] == "media-0" and "href" not in media
    assert 'id="media-0">T2dnUw' in path.with_suffix(".html").read_text()  # OggS
    with pytest.raises(UsageError, match="--media"):
        report(path, embed=True)


def test_the_truth_is_that_of_the_recording(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "p.jsonl", "talks/a.wav", "ab")
    table = tmp_path / "truth.csv"
    table.write_text("file,start,end,label\ntalks/a.wav,0,0.3,a\na,0.3,0.5,b\nother.wav,0,1,c\n")
    assert report(path, truth=table)["recordings"][0]["truth"] == [[0, 0.3, "a"], [0.3, 0.5, "b"]]
    table.write_text("file,start,end,label\nother.wav,0,1,c\n")
    with pytest.raises(InputError, match=r"no line about a\.wav; it names other\.wav"):
        report(path, truth=table)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("not json", "line 1: not JSON"),
        ('{"source": "a", "start": 0, "end": 1, "label": "a"}', "without --segments"),
        ('{"source": "a", "index": 0, "time": NaN, "label": "a", "top": [["a", 1]]}', "not a prediction"),
        ('{"source": "a", "index": 0, "time": 1, "label": "a", "top": [["a", 2]]}', "not a prediction"),
        ('{"source": "a", "index": 0, "time": 1, "label": "a", "top": []}', "not a prediction"),
        ('{"source": "a", "index": 0, "time": 1, "top": [["a", 1]]}', "not a prediction"),
        ('{"source": "a", "index": 0, "time": true, "label": "a", "top": [["a", 1]]}', "not a prediction"),
        ("[]", "not a prediction"),
        (
            "\n".join(
                f'{{"source": "a", "index": 0, "time": {number}, "label": null, "top": [["{number:x}", 0]]}}'
                for number in range(14_000)
            ),
            "more classes than its model can have",
        ),
        ("", "no predictions"),
    ],
)
def test_files_that_are_no_predictions(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text(line)
    with pytest.raises(InputError, match=says):
        report(path)


def test_a_recording_is_told_apart_from_predictions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "talk.wav").write_bytes(b"RIFF\xff\xfe\x00WAVE")
    assert run(["report", str(tmp_path / "talk.wav")]) == 3
    assert "`cotrans stream talk.wav --report FILE.html` makes the page" in capsys.readouterr().err
    assert not (tmp_path / "talk.html").exists()
    (tmp_path / "run").mkdir()
    assert run(["report", str(tmp_path / "run")]) == 3
    assert "run is a folder: give a file of predictions in it" in capsys.readouterr().err
    (tmp_path / "run" / "report.html").touch()
    assert run(["report", str(tmp_path / "run")]) == 3
    assert f"the page of a run is {tmp_path / 'run' / 'report.html'}" in capsys.readouterr().err


def test_what_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "p.jsonl", "a.wav", "a")
    errors: list[type[CotransError]] = [UsageError, UsageError]
    for error, page in zip(errors, (tmp_path / "page.pdf", path.with_suffix(".html")), strict=True):
        with pytest.raises(error):
            report_predictions(FileReport(path, ReportOptions(page, truth=page if page.suffix == ".html" else None)))
    assert run(["stream", "a.wav", "--embed"]) == 2
    assert run(["stream", "a.wav", "--report", "a.txt"]) == 2
    sound, model = str(write_sound(tmp_path / "a.wav")), str(write_model(tmp_path / "m.safetensors", "logmel"))
    for option in (["--loop"], ["--snapshot", "s"]):
        assert run(["stream", sound, "--model", model, "--report", str(tmp_path / "a.html"), *option]) == 2


def test_a_stream_reports_every_row_as_it_was_predicted(tmp_path: Path) -> None:
    model, page, lines = write_model(tmp_path / "model.safetensors"), tmp_path / "page.html", tmp_path / "lines.jsonl"
    files = [tmp_path / "one.npy", tmp_path / "two.npy"]
    for seed, file in enumerate(files):
        write_rows(file, 30, seed)
    shown = ["--top-k", str(len(CLASSES)), "--hide", CLASSES[1], "--fast", "--quiet"]
    outputs = ["--out", str(lines), "--report", str(page)]
    assert run(["stream", *map(str, files), "--model", str(model), *shown, *outputs]) == 0
    recordings = page_data(page)["recordings"]
    assert [recording["name"] for recording in recordings] == ["one.npy", "two.npy"]  # no path of this machine
    assert str(tmp_path) not in page.read_text()
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    for recording in recordings:
        assert recording["classes"] == list(CLASSES) and recording["hidden"] == [1]
        packed = zlib.decompress(base64.b64decode(recording["rows"]["packed"]))
        scores = np.frombuffer(packed, np.uint8).reshape(len(CLASSES), 30).T
        own = [dict(line["top"]) for line in written if Path(line["source"]).name == recording["name"]]
        expected = [[row[name] for name in CLASSES] for row in own]
        np.testing.assert_allclose(scores / 255, expected, atol=0.5 / 255 + 1e-6)
        assert all(segment[2] != CLASSES[1] for segment in recording["segments"])
        assert recording["media"] is None


def test_a_stream_that_fails_leaves_an_old_report(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("old")
    model = write_model(tmp_path / "model.safetensors", "logmel")
    (tmp_path / "a.wav").write_bytes(b"no sound")
    assert run(["stream", str(tmp_path / "a.wav"), "--model", str(model), "--fast", "--report", str(page)]) == 3
    assert page.read_text() == "old"


def test_several_models_embed_a_recording_once(tmp_path: Path) -> None:
    sound, page = write_sound(tmp_path / "a.wav", seconds=1.0), tmp_path / "a.html"
    models = [str(write_model(tmp_path / f"{name}.safetensors", "logmel", seed=len(name))) for name in ("x", "yy")]
    options = ["--fast", "--quiet", "--plain", "--embed", "--report", str(page)]
    assert run(["stream", str(sound), "--model", ",".join(models), *options]) == 0
    first, second = page_data(page)["recordings"]
    assert (first["name"], first["model"], second["model"]) == ("a.wav", "x.safetensors", "yy.safetensors")
    assert first["media"]["block"] == second["media"]["block"] == "media-0"
    assert page.read_text().count('id="media-') == 1


def test_lines_of_a_model_with_a_lag_make_the_page_that_the_stream_makes(tmp_path: Path) -> None:
    """What it says first is about nothing that was played, also where the stream begins late in its source."""
    model = write_model(tmp_path / "model.safetensors", lag=3)
    write_rows(tmp_path / "rows.npy", 40)
    lines, page = tmp_path / "p.jsonl", tmp_path / "live.html"
    flags = ["--model", str(model), "--fast", "--start", "5", "--top-k", "5"]
    files = ["--out", str(lines), "--report", str(page)]
    assert run(["stream", str(tmp_path / "rows.npy"), *flags, *files]) == 0
    rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert [row.get("early", False) for row in rows] == [True] * 3 + [False] * 20
    (live,), (read,) = page_data(page)["recordings"], report(lines)["recordings"]
    assert read["rows"]["runs"] == live["rows"]["runs"] == [[5, 20]]
    assert [row[:3] for row in read["segments"]] == [row[:3] for row in live["segments"]]
