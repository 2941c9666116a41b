"""What `convert` must be told about an LSTR or TeSTra: its configuration, or the same as flags."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cotrans_cli.arguments.options import option

MEMORIES = "LSTR and TeSTra: what their configuration says"

Config = Annotated[
    Path | None,
    option("--config", panel=MEMORIES, metavar="FILE.yaml", help="Their configuration, instead of the flags below."),
]
Fps = Annotated[float | None, option("--fps", panel=MEMORIES, help="Frames per second of the features.", least=0)]
LongSeconds = Annotated[
    float | None, option("--long-seconds", panel=MEMORIES, help="LONG_MEMORY_SECONDS, length of the long memory.")
]
LongRate = Annotated[
    int | None,
    option("--long-rate", panel=MEMORIES, help="LONG_MEMORY_SAMPLE_RATE: every so many frames.", least=1),
]
WorkSeconds = Annotated[
    float | None, option("--work-seconds", panel=MEMORIES, help="WORK_MEMORY_SECONDS, length of the work memory.")
]
WorkRate = Annotated[
    int | None, option("--work-rate", panel=MEMORIES, help="WORK_MEMORY_SAMPLE_RATE (default 1).", least=1)
]
LongPositions = Annotated[
    bool | None,
    typer.Option(
        "--long-positions/--no-long-positions",
        rich_help_panel=MEMORIES,
        help="LONG_MEMORY_USE_PE: LSTR has positions there, TeSTra has not.",
    ),
]
IncludeWork = Annotated[
    bool | None,
    typer.Option(
        "--include-work/--no-include-work",
        rich_help_panel=MEMORIES,
        help="LONG_MEMORY_INCLUDE_WORK: TeSTra does, LSTR does not.",
    ),
]
Decay = Annotated[float | None, option("--decay", panel=MEMORIES, help="ENC_ATTENTION_DECAY, 1 for none.", least=0)]
