"""The errors that cotrans raises on purpose. Each message is one line: what, where and what to do.

The command line prints the message and ends with the error's exit code; see `cotrans_cli/main.py`. Which class, the
same for every command (`tests/cli/test_exit_codes.py`):

- what was typed is wrong whatever the files hold, UsageError: an unknown name (of a model, preset, dataset, extractor,
  split, mode, key), a number out of range, options that contradict each other or are missing;
- a file or folder is not there, cannot be read or written, or does not hold what it should, InputError: media,
  features, datasets, tables, model files that are not there at all, and every output;
- every value is possible, but together they cannot work, ConfigurationError: heads that do not divide the width,
  features that are not the model's, classes that are not the dataset's; and mistakes in recipes and config.toml;
- a model file or snapshot that is there and cannot be used, or a proof that failed, CheckpointError;
- something has to be installed, downloaded or plugged in first, MissingDependencyError.

Whoever has to tell errors apart does so by class and fields, never by the wording of a message.
"""

from __future__ import annotations


class CotransError(Exception):
    """Base of every error that a user can do something about."""

    exit_code = 1

    def located(self, where: str) -> CotransError:
        """The same error, with its class and fields, and where it happened in front of its message."""
        error = type(self).__new__(type(self), f"{where}: {self}")
        error.__dict__.update(self.__dict__)
        return error


class UsageError(CotransError):
    """A wrong name, number or combination of options on the command line."""

    exit_code = 2


class InputError(CotransError):
    """A file, stream or array that is not there or cannot be used as it is."""

    exit_code = 3


class SourceError(InputError):
    """What is wrong with one file, folder or address; `problem` says it where the name has been said already."""

    def __init__(self, source: str, problem: str) -> None:
        self.source, self.problem = source, problem
        super().__init__(f"{source}: {problem}")


class ConfigurationError(CotransError):
    """A model, recipe or dataset configuration that cannot work, each value of it being possible."""

    exit_code = 4


class CheckpointError(CotransError):
    """A checkpoint or state snapshot that is damaged, unsafe, unknown or does not fit."""

    exit_code = 5


class OtherModelError(CheckpointError):
    """A state snapshot, in itself right, of a model that is not this one."""


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
