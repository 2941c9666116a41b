"""A torch whose compiler waits until somebody looks into it computes the same, and gives all of itself when asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.features.made_recordings import write_video
from tests.streaming.made_streams import write_model

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    """What a fresh process prints: this one has imported torch long ago."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_what_is_deferred_is_not_loaded_and_is_whole_when_asked_for() -> None:
    code = """
import sys
from pipelines.quick_torch import DEFERRED, defer_compiler
defer_compiler()
import torch
waiting = [name for name in sorted(DEFERRED) if name in sys.modules and type(sys.modules[name]).__name__ == "_Deferred"]
print(len(waiting) > 5, "torch._refs" in sys.modules, "torch.optim.sgd" in sys.modules)
x = torch.nn.Parameter(torch.ones(3))
optimiser = torch.optim.SGD([x], lr=0.5)
(x * x).sum().backward()
optimiser.step()
print(x.tolist(), torch.distributions.Normal(0.0, 1.0).mean.item())
from torch.utils.data import DataLoader
print(len(list(DataLoader([1, 2, 3]))), torch.export.Dim("rows").__name__, torch.compiler.is_compiling())
try:
    torch.optim.no_such_thing
except AttributeError as error:
    print(error)
"""
    assert run(code).splitlines() == [
        "True False False",
        "[0.0, 0.0, 0.0] 0.0",
        "3 rows False",
        "module 'torch.optim' has no attribute 'no_such_thing'",
    ]


def test_it_changes_nothing_once_torch_is_there() -> None:
    code = """
import sys, torch
from pipelines.quick_torch import defer_compiler
before = list(sys.meta_path)
defer_compiler()
print(sys.meta_path == before)
"""
    assert run(code) == "True"


def test_mistakes_and_absent_files_are_told_without_torch() -> None:
    code = """
import sys
from cotrans_cli.main import run
print(run(["stream", "absent.wav"]), "torch" in sys.modules)
for text in ("--smooth -1", "--top-k 0", "--model sound-event", "--format xml", "--fast --late drop"):
    print(run(["stream", "weights/demo/demo.ogg", *text.split()]), "torch" in sys.modules)
"""
    assert run(code).splitlines() == ["3 False", *["2 False"] * 5]


def test_a_stream_with_a_deferred_compiler_gives_the_same_lines() -> None:
    code = """
import sys
{first}
from cotrans_cli.main import run
run(["stream", "weights/demo/demo.ogg", "--fast", "--format", "csv", "--duration", "2", "--model", "{model}"])
"""
    for model in ("spoken-digits", "sound-events"):
        plain, quick = (run(code.format(first=first, model=model)) for first in ("import torch", ""))
        assert plain.count("\n") > 5
        times = [[line.split(",")[:-1] for line in text.splitlines()] for text in (plain, quick)]  # latency differs
        assert times[0] == times[1]


def test_untrained_networks_in_a_process_of_their_own(tmp_path: Path) -> None:
    """Random numbers need parts of torch that `stream` defers; in this process somebody has loaded them."""
    write_video(tmp_path / "video.mp4", seconds=1.0)
    write_model(tmp_path / "model.safetensors", "mobilenet_v2", hop=0.5)
    arguments = ["stream", str(tmp_path / "video.mp4"), "--model", str(tmp_path / "model.safetensors"), "--fast", "-q"]
    quick = run(f"from cotrans_cli.main import run; run({[*arguments, '--scores', '--format', 'jsonl']!r})")
    plain = run(
        f"import torch; from cotrans_cli.main import run; run({[*arguments, '--scores', '--format', 'jsonl']!r})"
    )
    first, second = ([json.loads(line)["scores"] for line in text.splitlines()] for text in (quick, plain))
    assert len(first) == 2 and first == second
