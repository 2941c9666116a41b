"""Does a model of one's own tell clips that are played in a row, in their order?

    python benchmarks/clip_streams.py CLIPS/ [--fold 1 --fold 2 …] [--pause 0.3] [--orders 3] [--out RUNS/] [--json]
        [-- FLAGS OF TRAIN]

For each fold (none: the split that `train` draws) it runs `cotrans train CLIPS/`, joins clips that were kept for
validation into one recording, in orders that chance decides, and plays it with `cotrans stream --fast --segments`; no
other flags, unless behind `--`. A run that is in RUNS/ already is not trained again. Clips of one class that follow
each other without a pause are one segment. Errors are segments that are missed, wrong or too many: the fewest
insertions, deletions and changes that make the one sequence of labels the other. "alone" counts clips that `stream`
does not tell by their own label, and by no other, when it plays them by themselves: what is wrong with these is not
the stream's.
The first order of each fold takes one clip of each class; the others take all, or as many as `--most` says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from own_data_sets import join_clips

from pipelines.datasets.item import Item
from pipelines.datasets.source import open_source
from pipelines.training.recipes.recipe_file import build_recipe

COTRANS = (sys.executable, "-m", "cotrans_cli")
SEED = 20_261_119
MADE_BY = "clip_streams.json"  # in a run: the arguments that it was trained with


@dataclass(frozen=True)
class Played:
    """One recording of clips in a row, and what was told of it."""

    fold: str
    order: str
    clips: int
    wrong_alone: int  # of these clips
    truth: tuple[tuple[float, float, str], ...]
    told: tuple[tuple[float, float, str], ...]

    @property
    def errors(self) -> int:
        return distance([label for *_, label in self.truth], [label for *_, label in self.told])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", type=Path)
    parser.add_argument("--fold", action="append", help="to keep for validation; may be repeated")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds of silence after each clip")
    parser.add_argument("--orders", type=int, default=3, help="besides the one of a clip of each class")
    parser.add_argument("--most", type=int, default=40, help="clips in an order")
    parser.add_argument("--out", type=Path, default=Path("runs/clip-streams"))
    parser.add_argument("--show", action="store_true", help="print truth and segments of each recording")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    mine, flags = sys.argv[1:], []
    if "--" in mine:
        place = mine.index("--")
        mine, flags = mine[:place], mine[place + 1 :]
    arguments = parser.parse_args(mine)
    played: list[Played] = []
    for fold in arguments.fold or [""]:
        run = arguments.out / (f"fold-{fold}" if fold else "drawn")
        kept = [str(arguments.clips.resolve()), *(["--fold", fold] if fold else []), *flags]
        if not (run / "summary.json").is_file():
            subprocess.run([*COTRANS, "train", *kept, "--out", run, "--quiet"], check=True)
            (run / MADE_BY).write_text(json.dumps(kept), encoding="utf-8")
        elif not (run / MADE_BY).is_file() or json.loads((run / MADE_BY).read_text(encoding="utf-8")) != kept:
            parser.error(f"{run} was trained with other flags: name another --out")
        played += play(run, fold, arguments)
    if arguments.json:
        print(json.dumps([{**asdict(one), "errors": one.errors} for one in played], indent=2))
        return
    if arguments.show:
        for one in played:
            show(one)
    print(f"{'fold':>8} {'order':>12} {'clips':>6} {'wrong alone':>12} {'segments':>9} {'errors':>7}")
    for one in played:
        print(
            f"{one.fold or 'drawn':>8} {one.order:>12} {one.clips:6} {one.wrong_alone:12} {len(one.truth):9} "
            f"{one.errors:7}"
        )
    segments, errors = sum(len(one.truth) for one in played), sum(one.errors for one in played)
    print(
        f"{errors} errors of {segments} segments; {sum(not one.errors for one in played)} of {len(played)} without any"
    )


def play(run: Path, fold: str, arguments: argparse.Namespace) -> list[Played]:
    dataset = open_source(build_recipe(run / "config.toml", {}).source)
    names, items = dataset.class_names, [item for item in dataset.items if item.split == "validation"]
    alone = {
        item.name: [label for *_, label in segments] == [names[item.label or 0]]
        for item, segments in zip(items, tell([Path(str(item.media)) for item in items], run), strict=True)
    }
    generator = np.random.default_rng(SEED)
    orders = {"one of each": one_of_each(items, generator)}
    for number in range(arguments.orders):
        orders[str(number + 1)] = [items[place] for place in generator.permutation(len(items))[: arguments.most]]
    folder = run / "joined"
    folder.mkdir(exist_ok=True)
    results = []
    for order, chosen in orders.items():
        path = folder / f"{order.replace(' ', '-')}-{arguments.pause:g}{'.mp4' if is_video(chosen[0]) else '.wav'}"
        ends = join_clips([Path(str(item.media)) for item in chosen], path, arguments.pause)
        truth: list[tuple[float, float, str]] = []
        begin = 0.0
        for item, (end, following) in zip(chosen, ends, strict=True):
            label = names[item.label or 0]
            if truth and truth[-1][2] == label and truth[-1][1] == begin:
                begin = truth.pop()[0]
            truth.append((begin, end, label))
            begin = following
        wrong = sum(not alone[item.name] for item in chosen)
        (told,) = tell([path], run)
        results.append(Played(fold, order, len(chosen), wrong, tuple(truth), tuple(told)))
    return results


def one_of_each(items: list[Item], generator: np.random.Generator) -> list[Item]:
    by_class: dict[int | None, Item] = {}
    for place in generator.permutation(len(items)).tolist():
        by_class.setdefault(items[place].label, items[place])
    return list(by_class.values())


def is_video(item: Item) -> bool:
    return Path(str(item.media)).suffix == ".mp4"


def tell(files: list[Path], run: Path) -> list[list[tuple[float, float, str]]]:
    """What `stream --segments` says of each file."""
    command = [*COTRANS, "stream", *files, "--model", run, "--fast", "--segments", "--format", "jsonl", "--quiet"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    told: dict[str, list[tuple[float, float, str]]] = {str(file): [] for file in files}
    for segment in map(json.loads, lines):
        told[segment["source"]].append((segment["start"], segment["end"], segment["label"]))
    return list(told.values())


def distance(truth: list[str], told: list[str]) -> int:
    """Insertions, deletions and changes that make one of the other, at the least."""
    row = list(range(len(told) + 1))
    for count, label in enumerate(truth, 1):
        before, row = row, [count]
        for place, other in enumerate(told):
            row.append(min(before[place] + (label != other), before[place + 1] + 1, row[-1] + 1))
    return row[-1]


def show(one: Played) -> None:
    print(f"\nfold {one.fold or 'drawn'}, order {one.order}: {one.errors} errors of {len(one.truth)} segments")
    for name, segments in (("truth", one.truth), ("told", one.told)):
        print(f"  {name:6}", "  ".join(f"{begin:.1f}–{end:.1f} {label}" for begin, end, label in segments))


if __name__ == "__main__":
    main()
