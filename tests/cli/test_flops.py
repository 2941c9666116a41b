"""`cotrans flops` as a user runs it: what it prints, where, and its exit codes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cotrans_cli.display.text_chart import log_chart
from cotrans_cli.main import run

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize(("size", "retroactive", "single"), [(100, "31×", "100×"), (1000, "308×", "1000×")])
def test_reductions_are_rounded_as_in_the_paper(size: int, retroactive: str, single: str, capsys: Output) -> None:
    assert run(["flops", "--n", str(size), "--d", str(size)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert retroactive in next(line for line in lines if line.startswith("retroactive")).split()
    assert single in next(line for line in lines if line.startswith("single-output")).split()


def test_the_table_of_attention(capsys: Output) -> None:
    assert run(["flops", "--n", "8", "--d", "8", "--heads", "2", "--detail"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "attention, one step: n = 8, d = 8, 2 heads of 4",
        "counts: the paper's formulas (appendix A.1); memory: float32",
        "",
        "                 mul  add  exp  total  reduction  state  state bytes  peak  peak bytes",
        "regular        1,152  944  128  2,224       1.0×    168          672   400       1,600",
        "retroactive      456  378   44    878       2.5×    254        1,016   386       1,544",
        "single-output    144  118   16    278       8.0×    112          448   160         640",
        "",
        "                        mul  add  exp",
        "regular        Eq. 1.1  576  448    0    D⁻¹ A V",
        "regular        Eq. 1.2  576  384  128    A = exp(Q Kᵀ / √d)",
        "regular        Eq. 1.3    0  112    0    D = diag(A 1ᵀ)",
        "retroactive    Eq. 2    112  124   28    d of the old rows: − exp(Q k_oldᵀ) + exp(Q k_newᵀ)",
        "retroactive    Eq. 3     88   86   16    d of the new row: exp(q_new Kᵀ / √d) 1ᵀ",
        "retroactive    Eq. 4    112  112    0    A V of the old rows: − exp(Q k_oldᵀ) v_old + exp(Q k_newᵀ) v_new",
        "retroactive    Eq. 5     64   56    0    A V of the new row",
        "retroactive    Eq. 6     80    0    0    d⁻¹ ⊙ A V",
        "single-output  Eq. 7.1   72   70    0    a V / a 1ᵀ",
        "single-output  Eq. 7.2   72   48   16    a = exp(q Kᵀ / √d)",
    ]


def test_json_of_a_preset_has_the_keys_that_we_promise(capsys: Output) -> None:
    assert run(["flops", "--model", "cooadtr-b1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["macs"] == {
        "published": 9_600_000,
        "published_exact": 9_598_998,
        "paper_rule": 9_598_998,
        "counted": 9_590_784,
        "executed": 9_590_784,
    }
    assert report["params"] == 9_468_950
    assert report["state_bytes"] == 2 * 64 * 1024 * 4 + 16
    assert report["window_macs"] == 612_390_912
    assert report["reduction"] == pytest.approx(612_390_912 / 9_590_784)
    assert report["step_flops"] == sum(row["step_flops"] for row in report["modules"])


def test_reasons_are_printed(capsys: Output) -> None:
    assert run(["flops", "--model", "trans-b1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "trans-b1: n = 120, d = 192, 16 heads, 1 block, input 128, 10 classes"
    assert lines[3].split() == ["(a", "window)", "15.2", "M", "35,207,050", "35,022,720", "35,022,720"]
    assert lines[4] == (
        "  published differs: the input projection is counted as 128 · n · n instead of n · (128 · d + d): -1.129 M"
    )


def test_all_settings_of_a_model_reach_it(capsys: Output) -> None:
    arguments = ["--model", "oadtr", "--n", "7", "--d", "24", "--heads", "3", "--input", "10", "--feed-forward", "11"]
    arguments += ["--blocks", "2", "--classes", "5", "--class-token-block", "2", "--positional", "recycling"]
    arguments += ["--encoding", "cyclic", "--positions", "9", "--norm", "post", "--activation", "relu"]
    arguments += ["--decoder-blocks", "1", "--decoder-queries", "2", "--decoder-heads", "4"]
    assert run(["flops", *arguments, "--decoder-feed-forward", "12", "--stacking", "exact", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    wanted = {"window": 7, "width": 24, "heads": 3, "input_width": 10, "feed_forward": 11, "blocks": 2, "classes": 5}
    wanted |= {"class_token_block": 2, "positional": "recycling", "encoding": "cyclic", "positions": 9}
    wanted |= {"norm": "post", "activation": "relu", "stacking": "exact"}
    wanted |= {"decoder_blocks": 1, "decoder_queries": 2, "decoder_heads": 4, "decoder_feed_forward": 12}
    assert {key: report["config"][key] for key in wanted} == wanted
    assert report["macs"]["counted"] == report["macs"]["executed"] == report["window_macs"]
    assert report["macs"]["published"] is None
    assert run(["flops", "--model", "cotrans-b1", "--n", "6", "--lag", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["lag"] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--n", "8", "--d", "8"],
        ["--n", "8", "--d", "8", "--detail"],
        ["--sweep", "n", "16..64"],
        ["--model", "cotrans-b1"],
        ["--model", "cotrans-b1", "--sweep", "n", "16..64"],
        ["--paper"],
    ],
)
def test_every_table_as_csv(arguments: list[str], capsys: Output) -> None:
    assert run(["flops", *arguments, "--csv"]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert len(rows) >= 3
    assert all(None not in row and None not in row.values() for row in rows)
    assert printed.err == ""


def test_every_report_as_a_table_and_as_json(capsys: Output) -> None:
    for arguments in (["--sweep", "d", "16,32"], ["--model", "deep", "--sweep", "n", "4,8"], ["--paper", "--detail"]):
        assert run(["flops", *arguments]) == 0
        assert len(capsys.readouterr().out.splitlines()) > 3
        assert run(["flops", *arguments, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"]


def test_the_sweep_and_its_chart(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["flops", "--sweep", "n", "16..64", "--d", "32"]) == 0
    plain = capsys.readouterr().out
    assert [line.split()[0] for line in plain.splitlines()[3:]] == ["16", "32", "64"]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert run(["flops", "--sweep", "n", "16..64", "--d", "32"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(plain)
    assert "R regular, c retroactive, . single-output" in shown


def test_the_chart_draws_straight_lines() -> None:
    lines = log_chart("title", (1, 10, 100), {"x": (10, 100, 1000)}, "n")
    assert lines[0] == "title"
    assert lines[1].endswith("x") and lines[1].startswith("  1e3 |")
    assert lines[14].startswith("  1e1 |x")
    columns = [line.rindex("x") for line in lines[1:15]]
    assert columns == sorted(columns, reverse=True)
    assert lines[-1].split() == ["1", "n", "100"]


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_the_chart_fits_the_terminal(columns: int) -> None:
    lines = log_chart("title", (16, 64, 4096), {"x": (10, 100, 1000)}, "n", columns)
    assert max(map(len, lines)) == min(columns, 63)
    assert lines[-1].split() == ["16", "n", "4096"]


def test_the_plot_goes_to_a_file(tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "scaling.png"
    assert run(["flops", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().err == f"wrote {path}\n"


def test_measure_prints_time_and_rate(capsys: Output) -> None:
    assert run(["flops", "--n", "8", "--d", "8", "--measure"]) == 0
    assert capsys.readouterr().out.count("GFLOP/s") == 3
    assert run(["flops", "--model", "cotrans-b1", "--n", "8", "--measure"]) == 0
    assert "measured (" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--n", "0", "--d", "8"], 2, "must be at least 1, not 0"),
        (["--n", "8", "--d", "-8"], 2, "must be at least 1, not -8"),
        (["--n", "8", "--d", "10", "--heads", "3"], 4, "d = 10 is not divisible by heads = 3"),
        (["--model", "cooadtr-b1", "--heads", "7"], 4, "width 1024 is not divisible by heads 7"),
        (["--model", "coadtr-b1"], 2, "there is no preset 'coadtr-b1'; did you mean 'cooadtr-b1'?"),
        (["pyproject.toml"], 5, "pyproject.toml is neither a PyTorch nor a safetensors file"),
        (["absent.safetensors"], 3, "there is no model file absent.safetensors"),
        (["--n", "8"], 2, "say what to count"),
        (["--n", "8", "--d", "8", "--json", "--csv"], 2, "give one of --json and --csv"),
        (["--plot", "x.png", "--csv"], 2, "a figure alone has none"),
        (["--sweep", "n", "8..4"], 2, "ends before it starts"),
    ],
)
def test_mistakes_are_one_clear_line(
    arguments: list[str], code: int, message: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert run(["flops", *arguments]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert message in printed.err


def test_an_exported_step_is_told_as_such(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "mine.onnx").write_bytes(b"\x08\x0a" * 20)
    assert run(["flops", str(tmp_path / "mine.onnx")]) == 5
    assert "is an exported step, for `cotrans stream` and onnxruntime: give the checkpoint" in capsys.readouterr().err


def test_counting_attention_does_not_load_torch() -> None:
    program = (
        "import sys; from pipelines.flops.choice import FlopsOptions, report;"
        "report(FlopsOptions(sizes={'window': 8, 'width': 8})); report(FlopsOptions(sweep=('n', '8..16')));"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
