"""Which package of `pipelines` may know which: dependencies point one way."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("rich", "typer", "cotrans_cli")
# From the lowest up: a package imports those before it, and nothing after it.
LAYERS = (
    *("model", "metrics", "costs", "features", "datasets", "checkpoints"),
    *("running", "flops", "training", "evaluation", "streaming"),
)


def modules_of(path: Path) -> list[str]:
    """Everything that a file imports, inside functions too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full here"
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


def package_imports() -> dict[str, dict[str, list[str]]]:
    """package -> package -> files that import it. The single files of `pipelines` are the package ""."""
    graph: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "pipelines").rglob("*.py")):
        parts = path.relative_to(ROOT / "pipelines").parts
        own = parts[0] if len(parts) > 1 else ""
        for module in modules_of(path):
            head, _, rest = module.partition(".")
            target = rest.split(".")[0]
            if head == "pipelines" and target in LAYERS and target != own:
                graph[own][target].append(str(path.relative_to(ROOT)))
    return graph


def test_every_package_has_a_layer() -> None:
    packages = {path.parent.name for path in (ROOT / "pipelines").glob("*/__init__.py")}
    assert packages == set(LAYERS)


def test_packages_import_only_lower_ones_so_there_is_no_cycle() -> None:
    wrong = [
        f"{', '.join(files)} in {own or 'pipelines'} imports {target}"
        for own, targets in package_imports().items()
        for target, files in targets.items()
        if own == "" or LAYERS.index(target) > LAYERS.index(own)
    ]
    assert not wrong


@pytest.mark.parametrize("package", LAYERS)
def test_the_core_does_not_know_the_command_line(package: str) -> None:
    for path in (ROOT / "pipelines" / package).rglob("*.py"):
        assert not [module for module in modules_of(path) if module.split(".")[0] in HEAVY], path
