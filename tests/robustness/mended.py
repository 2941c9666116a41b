"""What a campaign against version 0.1 found, tried again on any checkout.

    python -m tests.robustness.mended [TREE [ITEM…]]

Everything goes through the command line of TREE (without it, this checkout), so that revisions can be compared: each
attack says "holds" or what it saw. Items are numbered as in
`docs/reliability.md`. The tests beside this file are sharper, and need the modules of today.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.robustness.bombs import _npy
from tests.robustness.hostile_pickles import as_archive, as_legacy
from tests.robustness.small_run import train_arguments, write_clips
from tests.untrusted.test_pickle_bounds import ATTACKS

ROOT = Path(__file__).parents[2]
LONGEST = 60.0  # seconds until a command counts as hanging
MEMORY = 1_100  # megabytes, of which the imports take 500
ADDRESSES = 12 << 30  # bytes of address space: a memo of 4 GiB fits, one of 64 does not
STEERING = ("\x1b", "\u202e")
REFUSED = (2, 3, 4, 5)
CHOSEN = ("memo", "nested key", "tensor of large integers", "identifier of a tensor")


@dataclass(frozen=True)
class Done:
    """How a command ended. code: None where it had to be killed."""

    code: int | None
    out: str
    err: str
    megabytes: float

    @property
    def wrong(self) -> str | None:
        """What no command may do, whatever it is given."""
        if self.code is None:
            return f"hangs: killed after {LONGEST:.0f} s"
        if self.megabytes > MEMORY:
            return f"{self.megabytes:,.0f} MB"
        for word in ("Traceback", "a bug"):
            if word in self.err:
                line = next(line for line in reversed(self.err.splitlines()) if line.strip())
                return f"exit code {self.code}, {word}: {line[:100]}"
        return None

    def refused(self) -> str | None:
        """None: refused with one line."""
        if self.wrong or self.code in REFUSED:
            return self.wrong
        return f"exit code {self.code}: {self.err.strip()[-100:]}"


class Tree:
    """A checkout, and a folder for what its commands read and write."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.model = folder / "model.safetensors"
        self.rows = folder / "rows.npy"
        self.sound = folder / "sound.wav"
        self.variables = {"COTRANS_CACHE": f"{folder}/cache", "COTRANS_CONFIG": f"{folder}/none.toml"}
        made = (
            "from tests.streaming.made_streams import *; from pathlib import Path; import sys; f = Path(sys.argv[1])\n"
        )
        self.python(
            f"{made}write_model(f / 'model.safetensors'); write_model(f / 'heard.safetensors', 'logmel')\n"
            "write_rows(f / 'rows.npy', 60); write_sound(f / 'sound.wav', 1.0)",
            str(folder),
        )

    def start(self, arguments: list[str], **options: object) -> subprocess.Popen[bytes]:
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.root), **self.variables}
        return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
            [sys.executable, *arguments],
            **{"cwd": self.root, "env": variables, "stdin": subprocess.DEVNULL, **options},
        )

    def run(self, *arguments: str, most: int | None = None, closed: int | None = None) -> Done:
        """A command. most: bytes that a file may have; closed: the number of an output that is not there."""

        def prepare() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
            if most is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            if closed is not None:
                os.close(closed)

        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.start(["-m", "cotrans_cli", *arguments], stdout=out, stderr=err, preexec_fn=prepare)
            code, megabytes = _ended(process)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        return Done(code, *texts, megabytes)  # type: ignore[arg-type]

    def python(self, code: str, *arguments: str) -> None:
        if self.start(["-c", code, *arguments]).wait():
            raise RuntimeError(f"a preparation failed in {self.root}")


def _ended(process: subprocess.Popen[bytes]) -> tuple[int | None, float]:
    """Its exit code (None: it had to be killed) and the most memory that it took, in megabytes."""
    until = time.monotonic() + LONGEST
    killed = False
    while True:
        number, status, usage = os.wait4(process.pid, 0 if killed else os.WNOHANG)
        if number:
            process.returncode = code = os.waitstatus_to_exitcode(status)
            return None if killed else code, usage.ru_maxrss / 1024
        if time.monotonic() > until:
            process.kill()
            killed = True
        time.sleep(0.05)


Result = str | None  # what is wrong


def small_pickles(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 1."""
    for name in CHOSEN:
        for form, write in (("zip", as_archive), ("legacy", as_legacy)):
            path = write(ATTACKS[name](), tree.folder / "small.pth")
            yield f"{name}, .pth ({form})", tree.run("info", str(path)).refused()


def bombs(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 2."""
    path = tree.folder / "scores.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scores.npy", _npy(400_000_000))
        archive.writestr("label.npy", _npy(400_000_000))
        archive.writestr("video.npy", _npy(10))
    yield f".npz of {path.stat().st_size:,} bytes", tree.run("evaluate", "--predictions", str(path)).refused()
    root = tree.folder / "thumos"
    root.mkdir()
    with zipfile.ZipFile(root / "anno_thumos.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train", "test"):
            # Not kept: a process counts what the one that started it held.
            archive.writestr(
                f"thumos_{name}_anno.pickle", pickle.dumps({"v": {"anno": np.zeros(1 << 30, np.uint8)}}, 4)
            )
    arguments = ("data", "inspect", "--dataset", "thumos14", "--root", str(root))
    yield "zip of a dataset that unpacks to 2 GB", tree.run(*arguments).refused()


def sources(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 3."""
    giant, out = tree.folder / "giant.npy", tree.folder / "labels"
    values = np.load(tree.rows)
    values[8] = 1e30
    np.save(giant, values)
    stream = ("stream", str(giant), str(tree.rows), "--model", str(tree.model), "--fast", "--out")
    for form in ("jsonl", "csv"):
        done = tree.run(*stream, f"{out}.{form}")
        text = Path(f"{out}.{form}").read_text()
        whole = text.count("/rows.npy") or text.count("rows.npy")
        problem = "nan in the output" if "nan" in text.lower() else None if whole == 60 else f"{whole} of 60 rows"
        yield f"a row of 1e30, {form}", done.wrong or problem
    long = tree.folder / f"{'x' * 250}.npy"
    long.write_bytes(tree.rows.read_bytes())
    done = tree.run("stream", str(long), *stream[2:], str(out), "--format", "jsonl")
    written = out / "rows.jsonl"
    lines = len(written.read_text().splitlines()) if written.exists() else 0
    yield "an output name that is too long", done.wrong or (None if lines == 60 else f"{lines} of 60 rows of the other")
    media = tree.folder / "media"
    media.mkdir()
    (media / "good.wav").write_bytes(tree.sound.read_bytes())
    os.mkfifo(media / "pipe.wav")
    arguments = ("extract", str(media), "--features", "logmel", "--out", str(tree.folder / "features"))
    yield "a FIFO in a folder", tree.run(*arguments).wrong


def training(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 4."""
    out, arguments = tree.folder / "run", train_arguments(write_clips(tree.folder / "clips"))
    code = (
        "import os, sys; from pipelines.training.artifacts import RunFolder; from cotrans_cli.main import run\n"
        "RunFolder.write_state = lambda *rest: os._exit(9)\nsys.exit(run(sys.argv[1:]))"
    )
    if not (tree.root / "pipelines" / "training" / "recipes" / "own_data.py").exists():
        arguments = [word for word in arguments if word not in ("--recipe", "paper")]  # version 0.1 has no such name
    killed = tree.start(["-c", code, *arguments, "--out", str(out)]).wait()
    assert killed == 9, killed
    done = tree.run("train", "--resume", str(out), "--quiet")
    problem = None if done.code == 0 else f"exit code {done.code}: {done.err.strip()[-90:]}"
    yield "killed between best.safetensors and state.pt, then --resume", done.wrong or problem
    both = tree.folder / "both"
    started = [tree.start(["-m", "cotrans_cli", *arguments, "--out", str(both)], stderr=-3) for _ in range(2)]
    codes = [process.wait() for process in started]
    yield "two at once into one folder", "both end with exit code 0" if codes == [0, 0] else None


def outputs(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 5."""
    stream = ("stream", str(tree.rows), "--model", str(tree.model), "--fast")
    done = tree.run(*stream, "--snapshot", str(tree.folder / "full"), most=1024)
    yield "--snapshot on a full disk", done.refused()
    out = tree.folder / "full.jsonl"
    done = tree.run(*stream, "--out", str(out), most=777)
    problem = None if str(out) in done.err else f"the file is not named: {done.err.strip()[-90:]}"
    yield "--out on a full disk", done.refused() or problem
    yield "--out on a full disk, last line", None if out.read_text().endswith("\n") else "half a line"
    yield "standard output closed", tree.run(*stream, closed=1).refused()
    done = tree.run(*stream, "--out", str(tree.folder / "o.jsonl"), closed=2)
    yield "standard error closed", done.wrong or (f"on standard output: {done.out[:60]!r}" if done.out else None)


def readers(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 6."""
    path = tree.folder / "header.npy"
    for descr in ("'(,)f4'", "'<f4', 'x': " + "(" * 300, "'<f4', 'shape': (99999999999999999999, 3), 'y': 0"):
        header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': (3, 4)}}".encode().ljust(511) + b"\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(48))
        yield f".npy header, descr {descr[:24]}", tree.run("stream", str(path), "--model", str(tree.model)).refused()
    config = tree.folder / "config.toml"
    for text in (f"threads = {'9' * 5000}", "a = " + "[" * 5000, 'cache = "~nobodyx/y"'):
        config.write_text(text)
        tree.variables["COTRANS_CONFIG"] = str(config)
        yield f"settings: {text[:24]}", tree.run("weights", "list").refused()
    tree.variables["COTRANS_CONFIG"] = str(tree.folder / "none.toml")
    for name, program in (("struct", b"\x80\x02(ctorch\nFloatStorage\nX\x01\x00\x00\x000tQ."), ("cut", b"\x80\x02")):
        broken = as_legacy(program, tree.folder / f"{name}.pth")
        yield f"legacy .pth ({name})", tree.run("info", str(broken)).refused()
    hop = ("extract", str(tree.sound), "--features", "logmel", "--hop", "1e-300", "--out", str(tree.folder / "hop"))
    yield "--hop 1e-300", tree.run(*hop).refused()
    yield from _edited_snapshots(tree)


def _edited_snapshots(tree: Tree) -> Iterator[tuple[str, Result]]:
    state, stream = tree.folder / "state", ("stream", str(tree.rows), "--model", str(tree.model), "--fast", "--quiet")
    tree.run(*stream, "--snapshot", str(state), "--duration", "5", "--out", str(tree.folder / "first.jsonl"))
    data = state.read_bytes()
    size = int.from_bytes(data[:8], "little")
    changes: dict[str, dict[str, Any]] = {"slot 99": {"slot": 99, "over": False}}
    changes["row 10^12"] = {"place": {"turn": 0, "row": 10**12, "index": 10**12}, "over": False}
    for what, change in changes.items():
        header = json.loads(data[8 : 8 + size])
        stream_state = json.loads(json.loads(header["__metadata__"]["extra"])["stream"])
        stream_state["sources"][0].update(change)
        header["__metadata__"]["extra"] = json.dumps({"stream": json.dumps(stream_state)})
        header["__metadata__"].pop("checksum", None)
        text = json.dumps(header).encode()
        state.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
        done = tree.run(*stream, "--resume", str(state), "--duration", "5", "--out", str(tree.folder / "first.jsonl"))
        yield f"snapshot with {what}", done.refused()


def names(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 7."""
    odd = os.fsdecode(os.fsencode(tree.folder) + b"/caf\xe9.npy")
    Path(odd).write_bytes(tree.rows.read_bytes())
    done = tree.run("stream", odd, "--model", str(tree.model), "--fast", "--format", "jsonl")
    yield (
        "a name that is not UTF-8",
        done.wrong or (None if done.code == 0 else f"exit code {done.code}: {done.err[-90:]}"),
    )
    evil = tree.folder / "evil\x1b[2J\nname.npy"
    evil.write_bytes(tree.rows.read_bytes())
    done = tree.run("stream", str(evil), str(tree.folder / "absent\x1b.npy"), "--model", str(tree.model), "--fast")
    raw = any(sign in done.out + done.err for sign in STEERING)
    yield "ESC in a name", "reaches the terminal" if raw else done.wrong
    weights = tree.folder / "w.pth"
    tree.python("import torch, sys; torch.save({'a': torch.zeros(1)}, sys.argv[1])", str(weights))
    yield "weights add with ESC in the name", tree.run("weights", "add", "a\x1b[31m", str(weights)).refused()


def signals(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 8."""
    for number, expected in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        problem = None
        for delay in (0.25, 0.5, 1.0):
            arguments = ["-m", "cotrans_cli", "stream", str(tree.rows), "--model", str(tree.model), "--hop", "1"]
            process = tree.start(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            time.sleep(delay)
            process.send_signal(number)
            _, err = process.communicate(timeout=LONGEST)
            if b"Traceback" in err or process.returncode != expected:
                trace = ", a traceback" if b"Traceback" in err else ""
                problem = problem or f"after {delay} s: exit code {process.returncode}{trace}"
        yield f"{number.name} while it starts", problem
    left = tree.folder / ".o.safetensors.abcdefgh.part"
    target = tree.folder / "o.safetensors"
    code = (
        "import os, signal, sys; from pathlib import Path; from pipelines.files import atomic_write\n"
        "with atomic_write(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_bytes(b'half'); os._exit(0)"
    )
    tree.python(code, str(target))
    for left in tree.folder.glob(".*.part"):
        os.utime(left, (time.time() - 60,) * 2)
    tree.run("convert", str(tree.model), "--out", str(target))
    yield "half files of a killed run", "stay" if [*tree.folder.glob(".o.*")] else None


def meaning(tree: Tree) -> Iterator[tuple[str, Result]]:
    """Item 9."""
    stream = ("stream", str(tree.rows), "--model", str(tree.model), "--fast")
    yield "--threads 100000", tree.run(*stream, "--threads", "100000").refused()
    place = tree.folder / "lists"
    place.mkdir()
    film = place / "film.mp4"
    film.write_text(f"ffconcat version 1.0\nfile '{tree.sound}'\n")
    heard = str(tree.folder / "heard.safetensors")
    yield "a playlist that names a file elsewhere", tree.run("stream", str(film), "--model", heard, "--fast").refused()
    film.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{tree.sound}\n#EXT-X-ENDLIST\n")
    yield "an HLS playlist that does", tree.run("stream", str(film), "--model", heard, "--fast").refused()


ITEMS: tuple[Callable[[Tree], Iterator[tuple[str, Result]]], ...] = (
    *(small_pickles, bombs, sources, training, outputs, readers, names, signals, meaning),
)  # fmt: skip


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    chosen = [int(word) for word in sys.argv[2:]] or range(1, len(ITEMS) + 1)
    broken = 0
    for number in chosen:
        with tempfile.TemporaryDirectory() as folder:
            for what, problem in ITEMS[number - 1](Tree(root, Path(folder))):
                print(f"{number}. {what}: {problem or 'holds'}", flush=True)  # noqa: T201
                broken += problem is not None
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
