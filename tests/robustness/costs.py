"""What reading a file costs: run in a process of its own, `python -m tests.robustness.costs KIND FILE…`.

Prints a line for each file: seconds of processor time, and megabytes of memory beyond what the imports took. Seconds
are those of a fast machine of today (`PACE`), so that a bound means the same on a slow one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.errors import CotransError

MOST_SECONDS, MOST_MEGABYTES = 10.0, 500.0
PACE = 50e6  # additions a second, in Python, of the machine whose seconds these are
ADDITIONS = 4_000_000  # that are tried


def readers() -> dict[str, Callable[[Path], Any]]:
    """By kind of file."""
    from pipelines.checkpoints.checkpoint import load_checkpoint
    from pipelines.checkpoints.labels import read_labels
    from pipelines.datasets.rows.pickle_cache import PickleFile
    from pipelines.evaluation.scores.predictions import read_predictions
    from pipelines.features.files.feature_files import read_features, read_manifest
    from pipelines.features.weights.reading import read_weight_file
    from pipelines.untrusted.safe_pickle import load_pickle
    from pipelines.untrusted.toml import load_toml
    from pipelines.untrusted.torch_file import read_torch_file
    from pipelines.untrusted.yaml_file import load_yaml

    return {
        "pth": read_torch_file,
        "pickle": load_pickle,
        "zipped pickle": lambda path: PickleFile(path, "a.pickle").load(lambda array: array),
        "npz predictions": read_predictions,
        "weights": read_weight_file,
        "npy": read_features,
        "checkpoint": load_checkpoint,
        "manifest": read_manifest,
        "labels": read_labels,
        "toml": load_toml,
        "yaml": load_yaml,
    }


def _megabytes(field: str) -> float:
    """VmRSS: memory that is held now; VmHWM: the most since it was last set back."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def pace() -> float:
    """Additions a second of this machine."""
    begin, total = time.process_time(), 0
    for number in range(ADDITIONS):
        total += number
    return ADDITIONS / (time.process_time() - begin)


def main() -> None:
    kind, *files = sys.argv[1:]
    read = readers()[kind]
    relative = pace() / PACE
    for name in files:
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
        before, begin = _megabytes("VmRSS"), time.process_time()
        try:
            read(Path(name))
            answer = "read"
        except CotransError:
            answer = "refused"
        seconds = relative * (time.process_time() - begin)
        sys.stdout.write(json.dumps([answer, round(seconds, 3), round(_megabytes("VmHWM") - before, 1)]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
