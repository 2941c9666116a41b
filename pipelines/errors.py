"""The errors that cotrans raises on purpose. Each message is one line: what, where and what to do.

The command line prints the message and ends with the error's exit code; see `cotrans_cli/main.py`.
"""


class CotransError(Exception):
    """Base of every error that a user can do something about."""

    exit_code = 1


class UsageError(CotransError):
    """Options that do not fit together."""

    exit_code = 2


class InputError(CotransError):
    """A file, stream or array that cannot be used as it is."""

    exit_code = 3


class ConfigurationError(CotransError):
    """A model, recipe or dataset configuration that cannot work."""

    exit_code = 4


class CheckpointError(CotransError):
    """A checkpoint or state snapshot that is damaged, unsafe, unknown or does not fit."""

    exit_code = 5


class MissingDependencyError(CotransError):
    """A package, device or weight file that is needed and not there."""

    exit_code = 6


class NonFiniteInputError(InputError):
    """NaN or infinity in the tokens of some rows of a batch."""

    def __init__(self, rows: list[int]) -> None:
        self.rows = rows
        named = ", ".join(map(str, rows))
        super().__init__(
            f"NaN or infinity in the input of batch row{'s' if len(rows) > 1 else ''} {named}: "
            "no state was changed; leave these rows out with `active` and step again"
        )
