"""Entry point of `cotrans`: registers the commands and turns errors into one line and an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import typer

from cotrans_cli.arguments.help_text import examples, tidy
from cotrans_cli.commands import (
    convert,
    data,
    demo,
    evaluate,
    export,
    extract,
    flops,
    info,
    models,
    report,
    stream,
    train,
    weights,
)
from cotrans_cli.display.console import note, print_line
from cotrans_cli.display.terminal_text import prepare_output
from cotrans_cli.entry import ENDINGS, exit_code
from pipelines import __version__
from pipelines.errors import CotransError, InputError
from pipelines.files import WriteError, unwritable
from pipelines.settings import load_settings
from pipelines.wording import visible

app = typer.Typer(
    name="cotrans",
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Continual transformers for audio and video: one token in, one exact prediction out.",
    epilog="First steps: `cotrans demo`, then `cotrans stream FILE`. Every command has examples in its own --help.\n\n"
    "Results go to stdout, everything else to stderr. Exit codes: 2 usage, 3 input, 4 configuration, "
    "5 checkpoint, 6 missing dependency or weights, 130 interrupted.",
)


def _print_version(value: bool) -> None:
    if value:
        print_line(f"cotrans {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
    debug: bool = typer.Option(False, "--debug", help="Show a traceback when something fails."),
) -> None:
    if debug:
        os.environ["COTRANS_DEBUG"] = "1"


app.command("stream", epilog=stream.EXAMPLES)(stream.stream)
app.command("extract", epilog=extract.EXAMPLES)(extract.extract)
app.command("train", epilog=train.EXAMPLES)(train.train)
app.command("convert", epilog=convert.EXAMPLES)(convert.convert)
app.command("export", epilog=export.EXAMPLES)(export.export)
app.command("evaluate", epilog=evaluate.EXAMPLES)(evaluate.evaluate)
app.command("flops", epilog=flops.EXAMPLES)(flops.flops)
app.command("info", epilog=info.EXAMPLES)(info.info)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.command("models", epilog=models.EXAMPLES)(models.models)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)
app.add_typer(data.app, name="data", epilog=examples(data.EXAMPLES))
app.add_typer(weights.app, name="weights", epilog=examples(weights.EXAMPLES))
tidy(app)

# Objects that come and go between two looks for garbage. Nearly all of ours are freed without it, and a look goes over
# everything that was imported: by Python's own numbers (700, 10, 10) it takes a tenth of a command's time.
GARBAGE = (100_000, 20, 20)

# Click's base class for wrong options and arguments; typer ships its own copy of click or uses the package,
# depending on its version, and exports only this subclass.
_ClickUsageError: type[Any] = typer.BadParameter.__bases__[0]


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(*GARBAGE)
    prepare_output()
    code = run(sys.argv[1:])
    _flush()
    for number in ENDINGS:  # all is said: a signal now would only break into Python's own goodbye
        signal.signal(number, signal.SIG_IGN)
    if code and "soxr" in sys.modules:
        # What was cut off hangs together in cycles, and soxr complains at length of every resampler in them.
        gc.collect()
    gc.freeze()  # nor is there a last look for garbage
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line and return its exit code."""
    if "COTRANS_DEBUG" not in os.environ and "--debug" in arguments:
        os.environ["COTRANS_DEBUG"] = "1"
    try:
        result = app(args=arguments, prog_name="cotrans", standalone_mode=False, default_map=_defaults())
    except CotransError as error:
        return _fail(str(error), error.exit_code)
    except _ClickUsageError as error:
        message = " ".join(error.format_message().split())
        if not message:  # no arguments at all: the help has been printed
            return 2
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else _command(arguments)
        return _fail(f"{message} (see '{command} --help')", 2)
    except (KeyboardInterrupt, typer.Abort) as stop:
        # Click makes an Abort of it. A command that stopped in its own way says by which signal.
        cause = stop if isinstance(stop, KeyboardInterrupt) else stop.__cause__
        number = getattr(cause, "signal", signal.SIGINT)
        return _fail(ENDINGS[number], exit_code(number))
    except BrokenPipeError:
        return _reader_left()
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer and rich make an exit out of it themselves
            return _reader_left()
        raise
    except UnicodeEncodeError as error:  # of a library that takes no such paths
        return _fail(f"a name is not UTF-8 ({visible(str(error.object)):.200}): rename the file", InputError.exit_code)
    except OSError as error:
        if isinstance(error, WriteError):
            return _fail(unwritable(Path(error.filename), error), InputError.exit_code)
        # The system's own words say it best.
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{error.strerror or error}", InputError.exit_code)
    except Exception as error:
        if _debugging():
            raise
        return _fail(f"{type(error).__name__}: {error} (a bug: --debug shows where)".replace("\n", " "), 1)
    return result if isinstance(result, int) else 0


def _command(arguments: list[str]) -> str:
    """The command that was typed: click does not say it of an option without its value."""
    command, words = typer.main.get_command(app), ["cotrans"]
    for argument in arguments:
        inner = getattr(command, "commands", {}).get(argument)
        if inner is None and not argument.startswith("-"):
            break
        if inner is not None:
            command = inner
            words.append(argument)
    return " ".join(words)


def _defaults() -> dict[str, dict[str, Any]]:
    """`device` and `threads` of the user's config.toml as the defaults of these options, wherever there are such."""
    settings = load_settings()
    values: dict[str, Any] = {"device": settings.device}
    if settings.threads is not None:
        values["threads"] = settings.threads
    return {command.name or "": values for command in app.registered_commands}


def _reader_left() -> int:
    """The reader of our output (head, less) went away: nothing is wrong, and nobody is listening."""
    _close_output()
    return 0


def _flush() -> None:
    """Write what is left; what cannot be written has been said, and Python must not say it again when it ends."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _close_output()


def _close_output() -> None:
    """Let Python write what is left nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _debugging() -> bool:
    return os.environ.get("COTRANS_DEBUG", "") not in ("", "0")


def _fail(message: str, exit_code: int) -> int:
    if _debugging() and sys.exc_info()[0] is not None:
        import traceback

        traceback.print_exc()
    note(f"cotrans: error: {message}")
    return exit_code
