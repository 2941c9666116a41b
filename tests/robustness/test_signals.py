"""Ctrl-C and SIGTERM at any moment: no traceback, the right exit code, and nothing half written that stays."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

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
