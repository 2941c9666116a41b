"""Packages that only some users need."""

from __future__ import annotations

import sys

import pytest

from pipelines.errors import MissingDependencyError
from pipelines.packages import installed, require


def test_what_is_here_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed("json", "numpy") and not installed("json", "no_such_package")
    require("--serve", "json", extra="serve")
    with pytest.raises(MissingDependencyError) as missing:
        require("--serve", "json", "no_such_package", extra="serve")
    assert str(missing.value) == "--serve: no_such_package is not installed: pip install 'cotrans[serve]'"
    monkeypatch.setitem(sys.modules, "json", None)
    assert not installed("json")


def test_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    assert installed("colorsys") and "colorsys" not in sys.modules
