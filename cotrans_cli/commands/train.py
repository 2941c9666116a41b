"""`cotrans train`: from a dataset to a checkpoint that every other command takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cotrans_cli.arguments import dataset_options as flags_of_datasets
from cotrans_cli.arguments.choices import Encoding, Positional
from cotrans_cli.arguments.dataset_options import DATA
from cotrans_cli.arguments.options import option
from cotrans_cli.display.console import note, print_json, print_line

if TYPE_CHECKING:
    from pipelines.training.recipes.recipe import Recipe

EXAMPLES = """
Examples:

  cotrans train clips/                                       your own: clips/LABEL/*.wav or .mp4

  cotrans train --dataset gtzan --root GTZAN/ --features musicnn --model cotrans-b1 --split fault-filtered

  cotrans train --dataset thumos14 --root THUMOS/ --model cooadtr-b1 --validate-on test

  cotrans train --dataset folder --root MY_SOUNDS/ --features logmel --hop 0.05 --window 64 --learning-rate 1e-3

  cotrans train --recipe my.toml --root DATA/ --seeds 5      a copy of a preset's recipe: --write-recipe my.toml

  cotrans train --resume runs/gtzan-cotrans-b1               go on after Ctrl-C, bit for bit

  torchrun --nproc-per-node 4 -m cotrans_cli train …         several processes, the same result
"""
MODEL, OPTIMISATION, RUN = "Model", "Optimisation", "Run"


@flags_of_datasets.with_dataset_options
def train(
    *,
    path: flags_of_datasets.Folder = None,
    dataset: flags_of_datasets.MaybeName = None,
    root: flags_of_datasets.Root = None,
    dataset_options: flags_of_datasets.Given,
    validate_on: Annotated[
        str | None, option("--validate-on", panel=DATA, help="Split that best is chosen on: validation or test.")
    ] = None,
    foreign: Annotated[
        Path | None,
        option(
            "--foreign",
            panel=DATA,
            metavar="FOLDER|made",
            help="Recordings of no class: the model learns to answer none of these.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        option(
            "--features",
            panel=DATA,
            metavar="NAME[+NAME]",
            help="Extractors for media, run once (default: by sound, pictures and length).",
        ),
    ] = None,
    feature_option: flags_of_datasets.FeatureOption = None,
    weights: Annotated[
        list[str] | None,
        option("--weights", panel=DATA, metavar="[NAME=]FILE", help="Weights of an extractor: a file or a known name."),
    ] = None,
    cache: flags_of_datasets.Cache = None,
    finetune_extractor: Annotated[
        bool,
        option("--finetune-extractor", panel=DATA, help="First fine-tune the feature network (the paper's stage 1)."),
    ] = False,
    model: Annotated[
        str | None,
        option("--model", panel=MODEL, metavar="PRESET", help="cotrans-b1 (default), trans-b1, cooadtr-b1, deep, …"),
    ] = None,
    window: Annotated[
        int | None,
        option(
            "--window",
            panel=MODEL,
            help="n, rows that an answer has seen (default: by the length of clips or events; paper: 120).",
            least=1,
        ),
    ] = None,
    positional: Annotated[
        Positional | None,
        option(
            "--positional",
            panel=MODEL,
            metavar="KIND",
            help="Positions: none, static, recycling, relative, rope or alibi.",
        ),
    ] = None,
    encoding: Annotated[Encoding | None, option("--encoding", panel=MODEL, help="Learned or fixed.")] = None,
    positions: Annotated[
        int | None, option("--positions", panel=MODEL, help="Entries of the positional table (n or 2n − 1).", least=1)
    ] = None,
    class_token: Annotated[
        int | None, option("--class-token", panel=MODEL, help="Block that a class token enters at.", least=1)
    ] = None,
    dropout: Annotated[
        float | None,
        option("--dropout", panel=MODEL, help="In training (default: 0.3, many rows: 0.1; paper: 0.1).", least=0),
    ] = None,
    init: Annotated[
        Path | None, option("--init", panel=MODEL, help="Checkpoint to start from, or a built-in model's name.")
    ] = None,
    recipe: Annotated[
        str | None,
        option(
            "--recipe",
            panel=OPTIMISATION,
            metavar="FILE|NAME",
            help="Recipe; flags win over it. paper: the preset's own.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        option("--set", "-s", panel=OPTIMISATION, metavar="SECTION.KEY=VALUE", help="Any key of a recipe."),
    ] = None,
    epochs: Annotated[
        int | None,
        option(
            "--epochs",
            panel=OPTIMISATION,
            help="Passes over the data (default: for 300 steps, events 150; paper: 50); with --resume, in all.",
            least=1,
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        option(
            "--batch-size",
            panel=OPTIMISATION,
            help="Clips or windows in a step (default: 8 to 32; paper: 32).",
            least=1,
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        option("--learning-rate", panel=OPTIMISATION, help="Before the schedule (default: 1e-3; paper: 1e-5)."),
    ] = None,
    weight_decay: Annotated[
        float | None,
        option(
            "--weight-decay",
            panel=OPTIMISATION,
            help="Of the optimiser (default: 0.1, events 0.05; paper: 1e-4).",
            least=0,
        ),
    ] = None,
    sampling: Annotated[
        str | None,
        option(
            "--sampling",
            panel=OPTIMISATION,
            help="chunk: one banded pass trains every window in it; window; shared: windows of a chunk share work.",
        ),
    ] = None,
    loss_on: Annotated[
        str | None,
        option("--loss-on", panel=OPTIMISATION, help="Clips: last token or every token (default: every; paper: last)."),
    ] = None,
    no_baseline: Annotated[
        bool,
        option("--no-baseline", panel=RUN, help="Do not fit the classifiers of single rows, which have no memory."),
    ] = False,
    seed: Annotated[int | None, option("--seed", panel=RUN, help="Of all random numbers.", least=0)] = None,
    seeds: Annotated[
        int, option("--seeds", panel=RUN, help="Runs with that many seeds: mean ± standard deviation.", least=1)
    ] = 1,
    out: Annotated[
        Path | None, option("--out", panel=RUN, help="Folder of the run (default: runs/DATASET-MODEL).")
    ] = None,
    resume: Annotated[
        Path | None, option("--resume", panel=RUN, metavar="DIR", help="Go on with an interrupted run.")
    ] = None,
    device: Annotated[str, option("--device", panel=RUN, help="auto, cpu or cuda.")] = "auto",
    threads: Annotated[
        int | None, option("--threads", panel=RUN, help="Of the processor that PyTorch uses (default: all).", least=1)
    ] = None,
    write_recipe: Annotated[
        Path | None,
        option("--write-recipe", panel=RUN, metavar="FILE", help="Write the recipe, all keys (-: stdout), and stop."),
    ] = None,
    json: Annotated[bool, option("--json", panel=RUN, help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, option("--quiet", "-q", panel=RUN, help="No progress, only the result.")] = False,
) -> None:
    """Train a model on your own clips or on a dataset; what you do not say follows from the data.

    `cotrans train clips/` is enough for clips/LABEL/*.wav (or .mp4), or recordings and a table labels.csv.

    Defaults below are those for your own data; named datasets have their preset's, and --recipe paper the paper's.
    """
    dataset, root = flags_of_datasets.named_data(path, dataset, root)
    flags: dict[str, Any] = {
        "data.dataset": dataset,
        "data.root": _text(root),
        "data.validate_on": validate_on,
        "data.foreign": _text(foreign),
        "features.names": features,
        "features.cache": _text(cache),
        "features.finetune": finetune_extractor or None,
        "model.preset": model,
        "model.window": window,
        "model.positional": positional and positional.value,
        "model.encoding": encoding and encoding.value,
        "model.positions": positions,
        "model.class_token_block": class_token,
        "model.dropout": dropout,
        "model.init": _text(init),
        "training.epochs": epochs,
        "training.batch_size": batch_size,
        "training.sampling": sampling,
        "training.loss_on": loss_on,
        "training.baseline": False if no_baseline else None,
        "training.seed": seed,
        "optimizer.learning_rate": learning_rate,
        "optimizer.weight_decay": weight_decay,
    }
    from pipelines.datasets.options import recipe_options
    from pipelines.errors import UsageError
    from pipelines.training.run_place import check_launch, require_free

    check_launch(out or resume)
    if out is not None and resume is None:
        require_free(out)  # what is wrong with it is told now, not after the imports below
    from pipelines.features.request import parse_weights
    from pipelines.training.fitting.distributed import is_main_process
    from pipelines.training.recipes.own_data import plan_recipe
    from pipelines.training.recipes.recipe_file import parse_settings, recipe_text
    from pipelines.untrusted.toml import parse_pairs

    flags |= recipe_options(dataset_options)
    named = [key for key, value in flags.items() if value is not None]
    flags |= {
        f"features.options.{key}": value for key, value in parse_pairs(feature_option or [], "--feature-option").items()
    }
    flags |= {f"features.weights.{name}": file for name, file in parse_weights(weights or []).items()}
    flags |= parse_settings(set_ or [])
    given = {key: value for key, value in flags.items() if value is not None}
    if resume is not None:
        others = given.keys() - {"training.epochs"}
        if others or recipe is not None or out is not None or seeds != 1 or write_recipe is not None:
            raise UsageError("--resume goes on with the recipe in its folder: only --epochs goes with it")
        _run(None, resume, True, seeds, device, threads, json, quiet, epochs)
        return
    planned = plan_recipe(recipe, given, named)
    chosen = planned.recipe
    if write_recipe is not None:
        _write_recipe(
            write_recipe, recipe_text(chosen), [*([Path(recipe)] if recipe else []), *([init] if init else [])]
        )
        return
    if planned.choices and not quiet and is_main_process():
        note("chosen for these data (flags win; --recipe paper takes the paper's):")
        for choice in planned.choices:
            note(f"  {choice}", indent=15)  # below what was chosen
    _run(chosen, out or _free_folder(chosen), False, seeds, device, threads, json, quiet)


def _run(
    recipe: Recipe | None,
    out: Path,
    resume: bool,
    seeds: int,
    device: str,
    threads: int | None,
    json: bool,
    quiet: bool,
    epochs: int | None = None,
) -> None:
    from cotrans_cli.display.training_progress import print_result, print_seeds, training_progress
    from pipelines.devices import use_threads
    from pipelines.training.fitting.distributed import is_main_process
    from pipelines.training.fitting.loop import TrainingInterrupted
    from pipelines.training.seeds import SeedsResult, train_runs

    use_threads(threads)
    try:
        with training_progress(quiet or not is_main_process()) as progress:
            result = train_runs(recipe, out, seeds, resume, device, progress, progress.on_item, epochs)
    except TrainingInterrupted as stop:
        if is_main_process():
            note(f"{stop}; everything is saved: cotrans train --resume {out}")
        raise
    if not is_main_process():
        return
    if json:
        print_json(result.to_dict())
    elif isinstance(result, SeedsResult):
        print_seeds(result)
    else:
        print_result(result)
        if not quiet:
            note(f"use it with `cotrans stream FILE --model {result.folder}`; the curves: {result.folder}/report.html")


def _write_recipe(path: Path, text: str, inputs: list[Path]) -> None:
    from pipelines.files import refuse_overwriting, write_text

    if str(path) == "-":
        print_line(text.rstrip())
    else:
        refuse_overwriting([("--write-recipe", path)], inputs)
        write_text(path, text)
        note(f"wrote {path}: change it and run cotrans train --recipe {path}")


def _free_folder(recipe: Recipe) -> Path:
    """runs/DATASET-MODEL, with a number where that is taken."""
    base = Path("runs") / f"{recipe.data.dataset or 'run'}-{recipe.model.preset}"
    number = 1
    folder = base
    while folder.exists():
        number += 1
        folder = base.with_name(f"{base.name}-{number}")
    return folder


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
