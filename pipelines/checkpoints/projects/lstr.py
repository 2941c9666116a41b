"""LSTR and TeSTra: the official checkpoints, with the configuration that belongs to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import Tensor

from pipelines.checkpoints.checkpoint import MOST_COMPUTED, empty_model
from pipelines.checkpoints.foreign_files.imported import Hints, Imported
from pipelines.checkpoints.foreign_files.key_table import rename
from pipelines.checkpoints.foreign_files.source_file import SourceFile
from pipelines.checkpoints.projects.lstr_keys import TABLE, key_table
from pipelines.checkpoints.projects.lstr_reference import LstrReference
from pipelines.checkpoints.projects.lstr_settings import FLAGS, LstrSettings, Structure, read_settings
from pipelines.errors import CheckpointError, ConfigurationError
from pipelines.model.lstr.config import LstrConfig

CLASSIFIER = "classifier.weight"
_HEAD = "feature_head_work."
# Keys of models that are not supported, and what those are.
_UNSUPPORTED = {
    "dec_query.weight": "an anticipation model, which predicts frames to come",
    "classifier_verb.weight": "a model with verb and noun heads (EPIC-KITCHENS)",
    "classifier_noun.weight": "a model with verb and noun heads (EPIC-KITCHENS)",
}


def recognise(keys: Collection[str]) -> bool:
    """Whether these are the keys of an LSTR or TeSTra."""
    decodes = any(key.startswith("dec_modules.layers.0.") for key in keys)
    return decodes and (CLASSIFIER in keys or any(key.startswith(("enc_queries.", _HEAD)) for key in keys))


def read(source: SourceFile, hints: Hints) -> Imported:
    """An LSTR or TeSTra as one of our models."""
    weights, path = source.weights, source.path
    for key, what in _UNSUPPORTED.items():
        if key in weights:
            raise CheckpointError(f"{path} is {what} (it has {key}): not supported yet")
    hints.refuse_others((*FLAGS, "config", "work_rate", "activation"), "an LSTR or TeSTra")
    encoder = _encoder(source)
    settings = read_settings(path, hints)
    where = str(hints.config) if hints.config is not None else "what you say"
    try:
        config = _config(source, settings, encoder)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where} does not fit {path}: {error}") from error
    if settings.structure is not None:
        _check_structure(config, settings.structure, where, source)
    cut = dict(weights)
    if config.position_count and TABLE in weights:
        if weights[TABLE].shape[0] < config.position_count:
            rows = weights[TABLE].shape[0]
            raise CheckpointError(
                f"{path} has {rows} positions, but the memories of {where} need more: they do not fit"
            )
        cut[TABLE] = weights[TABLE][: config.position_count]
    dropped = {} if config.position_count else {TABLE: "no memory has positions"}
    shapes = {name: tuple(value.shape) for name, value in empty_model(config).state_dict().items()}
    renamed = rename(cut, key_table(config), dropped, shapes, path)
    return Imported.of(
        renamed,
        kind=_kind(config),
        config=config,
        notes=settings.notes,
        class_names=settings.class_names,
        # In float64 like the proof: a reference that rounds would only measure itself.
        reference=LstrReference({name: value.double() for name, value in weights.items()}, config),
    )


def _encoder(source: SourceFile) -> tuple[tuple[int, int, bool], ...]:
    """Queries (0: none), layers and norm of every encoder module, from the weights."""
    weights = source.weights
    count = len({key.split(".")[1] for key in weights if key.startswith("enc_modules.")})
    modules = []
    for index in range(count):
        queries = weights.get(f"enc_queries.{index}.weight")
        layers = _layers(weights, f"enc_modules.{index}")
        modules.append(
            (0 if queries is None else queries.shape[0], layers, f"enc_modules.{index}.norm.weight" in weights)
        )
    if not modules:
        raise CheckpointError(f"{source.path} is an LSTR without a long memory or an encoder of it: not supported yet")
    if not modules[0][0]:
        raise CheckpointError(
            f"{source.path} begins with an encoder module without queries (ENC_MODULE -1), which attends to the whole "
            "long memory from all of it: not supported yet"
        )
    return tuple(modules)


def _layers(weights: Mapping[str, Tensor], name: str) -> int:
    prefix = f"{name}.layers."
    return len({key.removeprefix(prefix).split(".")[0] for key in weights if key.startswith(prefix)})


def _config(source: SourceFile, settings: LstrSettings, encoder: tuple[tuple[int, int, bool], ...]) -> LstrConfig:
    weights, path = source.weights, source.path
    hidden = "dec_modules.layers.0.linear1.weight"
    head = "feature_head_work.input_linear.0.weight"
    missing = [key for key in (hidden, CLASSIFIER, "classifier.bias") if key not in weights]
    if missing:
        raise CheckpointError(f"{path} looks like an LSTR or TeSTra, but lacks {', '.join(missing)}")
    flat = [key for key in (hidden, head, CLASSIFIER) if key in weights and weights[key].dim() != 2]
    if flat:
        raise CheckpointError(f"{path} looks like an LSTR or TeSTra, but its {flat[0]} is no matrix")
    for name, frames, rate in (
        ("long", settings.long_frames, settings.long_rate),
        ("work", settings.work_frames, settings.work_rate),
    ):
        if rate < 1 or frames < 1 or frames % rate:
            raise ConfigurationError(
                f"a {name} memory of {frames} frames cannot be sampled every {rate} frames: "
                "the first must be a multiple of the second"
            )
    config = LstrConfig(
        input_width=weights[head if head in weights else CLASSIFIER].shape[1],
        width=weights[CLASSIFIER].shape[1],
        heads=settings.heads,
        feed_forward=weights[hidden].shape[0],
        classes=weights[CLASSIFIER].shape[0],
        long_samples=settings.long_frames // settings.long_rate,
        long_rate=settings.long_rate,
        work_samples=settings.work_frames // settings.work_rate,
        work_rate=settings.work_rate,
        encoder_queries=tuple(queries for queries, _, _ in encoder),
        encoder_layers=tuple(layers for _, layers, _ in encoder),
        encoder_norms=tuple(norm for _, _, norm in encoder),
        decoder_layers=_layers(weights, "dec_modules"),
        decoder_norm="dec_modules.norm.weight" in weights,
        feature_head=head in weights,
        activation=settings.activation,
        long_positions=settings.long_positions,
        work_positions=settings.work_positions,
        include_work=settings.include_work,
        decay=settings.decay,
        dropout=settings.dropout,
    )
    if config.computed_numbers > MOST_COMPUTED:
        raise ConfigurationError(
            f"memories of {config.window:,} frames at a width of {config.width} are more than can be held: shorten them"
        )
    return config


def _check_structure(config: LstrConfig, stated: Structure, where: str, source: SourceFile) -> None:
    """Refuse a configuration of another model: what both say must be the same."""
    encoder = tuple(zip(config.encoder_queries, config.encoder_layers, config.encoder_norms, strict=True))
    pairs: list[tuple[str, object, object]] = [
        ("ENC_MODULE", _modules_text(stated.encoder), _modules_text(encoder)),
        ("DEC_MODULE", list(stated.decoder), [config.decoder_layers, config.decoder_norm]),
        ("DIM_FEEDFORWARD", stated.feed_forward, config.feed_forward),
    ]
    pairs.append(("LINEAR_ENABLED", stated.feature_head, config.feature_head))
    if stated.feature_head:
        stated_width = config.input_width if stated.width == -1 else stated.width
        pairs.append(("LINEAR_OUT_FEATURES", stated_width, config.width))
    if stated.classes is not None:
        pairs.append(("NUM_CLASSES", stated.classes, config.classes))
    for key, said, there in pairs:
        if said != there:
            raise CheckpointError(
                f"{where} does not fit {source.path}: {key} is {said}, but the weights have {there}; give the "
                "configuration that the file was trained with"
            )


def _modules_text(modules: tuple[tuple[int, int, bool], ...]) -> list[list[object]]:
    return [[queries or -1, layers, norm] for queries, layers, norm in modules]


def _kind(config: LstrConfig) -> str:
    name = "TeSTra" if config.include_work or config.decay != 1.0 else "LSTR"
    memories = (
        f"{config.long_samples} samples of long memory (every {config.long_rate}. frame) and {config.work_samples} of "
        "work memory"
    )
    return f"{name}, {memories}" + (f", decay {config.decay:g}" if config.decay != 1.0 else "")
