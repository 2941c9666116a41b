"""Ctrl-C and SIGTERM at any moment: no traceback, the right exit code, and nothing half written that stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cotrans_cli.entry import ENDINGS
from tests.robustness.small_run import started
from tests.streaming.made_streams import write_model, write_rows

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


@pytest.mark.parametrize("number", [*CODES])
@pytest.mark.parametrize("delay", [0.15, 0.3, 0.6, 1.2])
def test_signals_while_importing(tmp_path: Path, number: signal.Signals, delay: float) -> None:
    write_rows(tmp_path / "rows.npy", 400)
    model = write_model(tmp_path / "model.safetensors")
    arguments = ["stream", str(tmp_path / "rows.npy"), "--model", str(model), "--hop", "1"]
    process = started([*arguments, "--format", "jsonl", "--snapshot", str(tmp_path / "state")])
    wait_for_imports(process.pid)
    time.sleep(delay)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in err and "Exception ignored" not in err
    assert process.returncode == CODES[number], err
    assert all(line.endswith("}") for line in out.splitlines())
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("number", [*CODES])
def test_a_signal_while_text_is_evaluated(tmp_path: Path, number: signal.Signals) -> None:
    """As typer does with annotations: Python remembers a KeyboardInterrupt that leaves an `eval`, caught or not."""
    (tmp_path / "ended.py").write_text(
        "import os\n"
        "import cotrans_cli.main\n"
        "from cotrans_cli.entry import main\n"
        f"cotrans_cli.main._defaults = lambda: eval('[os.kill(os.getpid(), {number:d})] + [0 for _ in range(10**6)]')\n"
        "main()\n"
    )
    assert_ended_by(number, tmp_path)


@pytest.mark.parametrize("place", ["TyperOption.process_value", "TyperCommand.invoke"])
@pytest.mark.parametrize("number", [*CODES])
def test_a_signal_inside_of_a_command_says_which(tmp_path: Path, number: signal.Signals, place: str) -> None:
    """While options are read, and while a command runs: typer would make 130 of any signal, and say nothing."""
    (tmp_path / "ended.py").write_text(
        "import os\n"
        "import typer.core\n"
        "import cotrans_cli.main\n"
        "from cotrans_cli.entry import main\n"
        f"typer.core.{place} = lambda *_: os.kill(os.getpid(), {number:d})\n"
        "main()\n"
    )
    assert_ended_by(number, tmp_path)


def assert_ended_by(number: signal.Signals, folder: Path) -> None:
    """`cotrans models`, started by ended.py in the folder, says which signal ended it."""
    paths = os.pathsep.join([str(folder), str(Path(__file__).parents[2])])
    command = [sys.executable, "-m", "ended", "models"]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == CODES[number], ended.stderr
    assert ended.stderr == f"cotrans: error: {ENDINGS[number]}\n"


def wait_for_imports(process: int) -> None:
    """Until Python has come to our own code, which answers signals: then SIGTERM is caught."""
    status = Path(f"/proc/{process}/status")
    bit = 1 << (signal.SIGTERM - 1)
    for _ in range(2000):
        caught = next((line for line in status.read_text().splitlines() if line.startswith("SigCgt:")), None)
        if caught is not None and int(caught.split()[1], 16) & bit:
            return
        time.sleep(0.005)
    raise AssertionError("it never answered signals")
