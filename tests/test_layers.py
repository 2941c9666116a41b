"""Which package of `pipelines` may know which: dependencies point one way."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("rich", "typer", "cotrans_cli")
# The package that everything may import, the single files of `pipelines` too.
FOUNDATION = "untrusted"
# What a package may import beside those, from the lowest package up.
ALLOWED: dict[str, tuple[str, ...]] = {
    "model": (),
    "metrics": (),
    "costs": ("model",),
    "features": (),
    "datasets": ("features",),
    "pages": ("features", "datasets"),
    "checkpoints": ("model", "metrics", "costs", "features"),
    "exporting": ("model", "metrics", "features", "checkpoints"),
    "running": ("model",),
    "flops": ("model", "costs", "checkpoints"),
    "training": ("model", "metrics", "features", "datasets", "pages", "checkpoints", "running"),
    "evaluation": ("model", "metrics", "costs", "features", "datasets", "pages", "checkpoints", "running", "training"),
    "streaming": ("model", "metrics", "costs", "features", "datasets", "pages", "checkpoints", "exporting", "running"),
    "serving": ("features", "pages", "streaming"),
    "api": ("model", "features", "datasets", "checkpoints", "exporting", "running", "training", "evaluation"),
}
LAYERS = tuple(ALLOWED)
SURFACE = ROOT / "pipelines" / "__init__.py"  # names of everything public, which are imported when they are asked for


def modules_of(path: Path) -> list[str]:
    """Everything that a file imports, inside functions too."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full here"
            modules += [f"{node.module}.{name.name}" for name in node.names]
    return modules


def package_imports() -> dict[str, dict[str, list[str]]]:
    """package -> package -> files that import it. The single files of `pipelines` are the package ""."""
    graph: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(set((ROOT / "pipelines").rglob("*.py")) - {SURFACE}):
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
    assert packages == {*LAYERS, FOUNDATION}


def test_packages_import_only_what_the_table_allows() -> None:
    wrong = [
        f"{', '.join(files)} in {own or 'pipelines'} imports {target}"
        for own, targets in package_imports().items()
        for target, files in targets.items()
        if target not in ALLOWED.get(own, ())
    ]
    assert not wrong


def test_the_table_allows_lower_packages_only_so_there_is_no_cycle() -> None:
    for own, targets in ALLOWED.items():
        assert all(LAYERS.index(target) < LAYERS.index(own) for target in targets), own


def test_the_table_allows_nothing_that_no_file_needs() -> None:
    imports = package_imports()
    unused = [
        f"{own} does not import {target}"
        for own, targets in ALLOWED.items()
        for target in targets
        if target not in imports[own]
    ]
    assert not unused


def test_contributing_shows_the_table() -> None:
    rows = [
        f"| `{own}` | {', '.join(f'`{target}`' for target in targets) or '—'} |" for own, targets in ALLOWED.items()
    ]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in page


def test_modules_import_each_other_in_one_direction() -> None:
    """No cycle of files either, with the imports that stand in functions."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "pipelines").rglob("*.py")
        if path != SURFACE
    }
    targets = {
        name: {module if module in paths else module.rpartition(".")[0] for module in modules_of(path)} & set(paths)
        for name, path in paths.items()
    }
    done: set[str] = set()
    while ready := [name for name in targets if name not in done and targets[name] - {name} <= done]:
        done.update(ready)
    assert not set(targets) - done


@pytest.mark.parametrize("package", LAYERS)
def test_the_core_does_not_know_the_command_line(package: str) -> None:
    for path in (ROOT / "pipelines" / package).rglob("*.py"):
        assert not [module for module in modules_of(path) if module.split(".")[0] in HEAVY], path
