"""Where the processes of `torchrun` meet, after any of them was lost and all were started again.

torchrun numbers attempts for each node by itself: where one node restarts because its worker died and another because
the first one did, the numbers differ, and PyTorch, which meets under that number, would wait for ever. So the first
process makes up a name for every meeting and tells it to whoever asks. Processes of earlier attempts are gone by then.
"""

from __future__ import annotations

import os
import threading
import uuid
from datetime import timedelta
from typing import Any

from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

PATIENCE = timedelta(minutes=10)
LOOK = 0.05  # seconds between two looks for those who ask
ASKED, ANSWER = "cotrans/asked", "cotrans/answer"


def agents_store() -> Any | None:
    """The store that torchrun's agents share with their workers; None: it was started without one."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return TCPStore(address, port, is_master=False, timeout=PATIENCE)


class Meeting:
    """A part of the store that nobody has used before, while the block runs in which all meet there."""

    def __init__(self, store: Any, rank: int) -> None:
        self._store, self._rank = store, rank
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Any:
        if self._rank != 0:
            number = self._store.add(ASKED, 1)
            return PrefixStore(self._store.get(f"{ANSWER}/{number}").decode(), self._store)
        name = f"cotrans/{uuid.uuid4()}"
        self._thread = threading.Thread(target=self._answer, args=(agents_store(), name), daemon=True)
        self._thread.start()
        return PrefixStore(name, self._store)

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _answer(self, store: Any, name: str) -> None:
        """Tell the name to all who have asked, now or before: those of before no longer listen."""
        told = 0
        while not self._over.wait(LOOK):
            asked = store.add(ASKED, 0)
            for number in range(told + 1, asked + 1):
                store.set(f"{ANSWER}/{number}", name)
            told = asked
