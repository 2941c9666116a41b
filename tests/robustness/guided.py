"""Fuzzing that follows which code an input reaches (atheris): `python -m tests.robustness.guided KIND FOLDER RUNS`.

Ends with exit code 0, or with 77 and the input in FOLDER. libFuzzer ends the process itself, so it has one of its own.
The corpus is the good files that the other fuzzing starts from. An input that costs more than it may is found too.
"""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from pathlib import Path

from tests.robustness.costs import MOST_MEGABYTES, MOST_SECONDS

KINDS = ("pickle", "npy")  # readers of `parsers` whose formats have the most to follow
SKIPPED = 78  # exit code where atheris is not installed
IMPORTED = 500  # megabytes that PyTorch and the readers take before anything is read


def main() -> int:
    kind, folder, runs = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    try:
        import atheris
    except ImportError:
        sys.stderr.write("atheris is not installed (pip install atheris)\n")
        return SKIPPED
    import torch  # noqa: F401  not instrumented: it is large, and not what is tried

    with atheris.instrument_imports(include=["pipelines", "pickletools", "numpy.lib._format_impl", "ast"]):
        from pipelines.errors import CotransError
        from tests.robustness.parsers import all_parsers

    warnings.simplefilter("ignore")
    parser = all_parsers(folder)[kind]
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(parser.seeds):
        (corpus / str(number)).write_bytes(seed)
    path = folder / f"input{parser.suffix}"

    def read(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(CotransError):
            parser.read(path)

    options = (
        *(f"-runs={runs}", f"-artifact_prefix={folder}/found-", "-max_len=20000", "-print_final_stats=1"),
        *(f"-timeout={MOST_SECONDS:.0f}", f"-rss_limit_mb={MOST_MEGABYTES + IMPORTED:.0f}", "-verbosity=0"),
    )
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
