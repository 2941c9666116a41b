"""The options of the live page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cotrans_cli.arguments.options import option

if TYPE_CHECKING:
    from pipelines.serving.address import ServeOptions

PAGE = "Live page"

Serve = Annotated[
    str | None,
    option(
        "--serve",
        metavar="[HOST:]PORT",
        help="Show the stream in browsers while it runs; at 127.0.0.1 unless told otherwise.",
        panel=PAGE,
    ),
]
Token = Annotated[
    str | None,
    option(
        "--token",
        metavar="TEXT|auto",
        help="… to those who have this token; `auto` makes one. Any address but this machine's own needs it.",
        panel=PAGE,
    ),
]
KeepServing = Annotated[
    bool,
    option("--keep-serving", help="… until Ctrl-C, after the stream has ended too.", panel=PAGE),
]


def serve_options(serve: str | None, token: str | None, keep_serving: bool) -> ServeOptions | None:
    """None: nothing is served. What cannot be served is said before anything is loaded."""
    from pipelines.errors import UsageError

    if serve is None:
        if token is not None or keep_serving:
            raise UsageError("--token and --keep-serving are about the live page: add --serve PORT")
        return None
    from pipelines.serving.address import parse_serving
    from pipelines.serving.server import check_installed

    check_installed()
    options = parse_serving(serve, token)
    options.listen().close()
    return options
