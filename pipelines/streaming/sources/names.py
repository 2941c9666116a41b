"""What sources and models are called where others can read it: no path of this machine, no password of an address."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from pipelines.streaming.sources.source import StreamSource, feature_paths

HOST = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9A-Fa-f:.]+\](:[0-9]+)?")
PIPE = "standard input"


def public_names(sources: Sequence[StreamSource]) -> list[str]:
    """A name for each; those that are called the same are numbered."""
    names = [public_name(source) for source in sources]
    counts, seen = Counter(names), Counter[str]()
    numbered = []
    for name in names:
        seen[name] += 1
        numbered.append(f"{name} ({seen[name]})" if counts[name] > 1 else name)
    return numbered


def public_name(source: StreamSource) -> str:
    if source.kind == "pipe":
        return PIPE
    if source.kind == "url":
        return public_address(source.target)
    if source.device:
        scheme, _, device = source.name.partition(":")
        return f"{scheme}:{base_name(device)}"
    if source.kind == "features":
        parts = "+".join(base_name(part) for part in feature_paths(source.target))
        return f"{parts}:{base_name(source.entry)}" if source.entry else parts
    return base_name(source.target)


def public_address(address: str) -> str:
    """Scheme, host and port. Paths and queries of cameras and servers hold keys, so they are left out too."""
    scheme, _, rest = address.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    host = authority.rpartition("@")[2]
    # A password with a slash in it ends the authority too early, and then what looks like the host is part of it.
    clear = "@" not in rest[len(authority) :] and HOST.fullmatch(host)
    return f"{scheme}://{host}" if clear else f"{scheme}://…"


def base_name(path: str) -> str:
    """The last part of a path; a built-in model's name is that already."""
    return PurePath(path).name or path
