"""Worker processes that outlive bad inputs: one that dies takes a single task with it, and the pool says which.

A worker is a process that runs MODULE as `python -m` would, and reads one JSON value per line: first its set-up, then
tasks. It answers a task with any number of {"progress": ...} lines and one {"result": ...} or {"fatal": ...} line. When
its standard input ends, its parent is gone, and it ends too, in the middle of whatever it is doing.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

Task = Any  # a JSON value
PATIENCE = 10.0  # seconds that a worker has to end when it is told to
ROOT = str(Path(__file__).parents[3])  # the folder that holds `pipelines`
# `python -m` would look in the working folder first, and take a user's `weights.py` or `pipelines/` there for ours.
START = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "  # before the imports, which take a while
    "import sys; module, root = sys.argv[1:]; sys.path[:] = [place for place in sys.path if place]; "
    "root in sys.path or sys.path.append(root); "
    "import runpy; runpy.run_module(module, run_name='__main__', alter_sys=True)"
)

OnProgress = Callable[[int, Any], None]  # index of the task, what the worker said


class WorkerDiedError(Exception):
    """The worker of a task ended without an answer."""


class FatalWorkerError(Exception):
    """A worker said that no task can succeed any more."""


class WorkerPool:
    """`count` processes of `module`, each set up with `setup`."""

    def __init__(self, module: str, setup: Any, count: int) -> None:
        self._module, self._setup, self._count = module, setup, count
        self._stopping = threading.Event()
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()

    def map(self, tasks: list[Task], on_progress: OnProgress | None = None) -> Iterator[tuple[int, Any]]:
        """Yield (index, result) as tasks end, in any order. A result is an exception when the worker died."""
        waiting: queue.Queue[tuple[int, Task]] = queue.Queue()
        for item in enumerate(tasks):
            waiting.put(item)
        said: queue.Queue[tuple[str, int, Any]] = queue.Queue()
        threads = [
            threading.Thread(target=self._serve, args=(waiting, said), daemon=True)
            for _ in range(min(self._count, len(tasks)))
        ]
        for thread in threads:
            thread.start()
        try:
            left = len(tasks)
            while left:
                kind, index, value = said.get()
                if kind == "progress":
                    if on_progress:
                        on_progress(index, value)
                elif kind == "fatal":
                    raise FatalWorkerError(value)
                else:
                    left -= 1
                    yield index, value
        finally:
            self._stop()
            for thread in threads:
                thread.join()

    def _serve(self, waiting: queue.Queue[tuple[int, Task]], said: queue.Queue[tuple[str, int, Any]]) -> None:
        """One worker after another: a new one when the last has died."""
        worker: _Worker | None = None
        while not self._stopping.is_set():
            try:
                index, task = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                if worker is None:
                    worker = self._start()
                for kind, value in worker.ask(task):
                    said.put((kind, index, value))
            except WorkerDiedError as error:
                if worker is not None:
                    self._end(worker)
                worker = None
                said.put(("result", index, error))
        if worker is not None:
            self._end(worker)

    def _start(self) -> _Worker:
        with self._lock:
            if self._stopping.is_set():
                raise WorkerDiedError("the pool is closing")
            worker = _Worker(self._module, self._count)
            self._workers.add(worker)
        worker.send(self._setup)
        return worker

    def _end(self, worker: _Worker) -> None:
        worker.close()
        with self._lock:
            self._workers.discard(worker)

    def _stop(self) -> None:
        with self._lock:
            self._stopping.set()
            for worker in self._workers:
                worker.terminate()


class _Worker:
    def __init__(self, module: str, count: int) -> None:
        environment = dict(os.environ)
        # The processes share the cores; each one's libraries would otherwise start a thread per core.
        environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // count)))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, module, ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=environment,
            )
        except OSError as error:  # no memory, or too many processes: nobody would answer for the task
            raise WorkerDiedError(f"it could not be started: {error.strerror or error}") from error

    def send(self, value: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(value) + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerDiedError(self._how()) from error

    def ask(self, task: Task) -> Iterator[tuple[str, Any]]:
        """What the worker says about a task, up to its result."""
        assert self._process.stdout is not None
        self.send(task)
        for line in self._process.stdout:
            ((kind, value),) = json.loads(line).items()
            yield kind, value
            if kind in ("result", "fatal"):
                return
        raise WorkerDiedError(self._how())

    def terminate(self) -> None:
        """Ask a worker to end with its task unfinished; it removes what it has half written."""
        self._process.terminate()

    def close(self) -> None:
        """Let an idle worker end, and wait for it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
        except OSError:
            self._process.kill()  # it is dead already: there is nothing left to tell it
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _how(self) -> str:
        code = self._process.wait()
        return f"killed by signal {-code}" if code < 0 else f"ended with code {code}"


def serve(work: Callable[[Any, Callable[[Any], None]], tuple[str, Any]], tasks: Iterator[Any], out: TextIO) -> None:
    """The worker's side: answer tasks until they end. `work(task, progress)` returns ("result" or "fatal", value)."""

    def say(kind: str, value: Any) -> None:
        out.write(json.dumps({kind: value}) + "\n")
        out.flush()

    for task in tasks:
        say(*work(task, lambda value: say("progress", value)))


def worker_channel() -> tuple[Iterator[Any], TextIO]:
    """The worker's tasks and where its answers go.

    Standard output is taken out of the way of libraries that print. The end of standard input means that the parent
    has ended or died; a thread watches for it, because the worker may be hours away from asking for its next task.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of a terminal; the parent decides
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()

    def tasks() -> Iterator[Any]:
        while True:
            yield json.loads(lines.get())

    return tasks(), out
