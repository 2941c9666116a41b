"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

GOLDEN = Path(__file__).parent / "golden"


def pytest_configure() -> None:
    # Two test processes share two cores.
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first: of two processes, one would otherwise wait for the other's last long file."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def golden_dir() -> Path:
    """Reference numbers that ship with the tests."""
    return GOLDEN


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real data beside the checkout; tests that need it skip where it is absent."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("../shared is not here")
    return path


@pytest.fixture
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the settings nor the cache of whoever runs the tests."""
    monkeypatch.setenv("COTRANS_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("COTRANS_CACHE", str(tmp_path / "cache"))
