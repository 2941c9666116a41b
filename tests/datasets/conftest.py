"""Fixtures of the dataset tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("COTRANS_CACHE", str(folder))
    monkeypatch.delenv("COTRANS_DATA", raising=False)
    return folder
