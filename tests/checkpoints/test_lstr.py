"""LSTR and TeSTra: the official numbers, their configurations, and what is refused in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from pipelines.checkpoints import load_checkpoint
from pipelines.checkpoints.conversion import Conversion, ConversionOptions, convert
from pipelines.checkpoints.foreign_files.imported import Hints
from pipelines.checkpoints.opening import open_source
from pipelines.errors import CheckpointError, ConfigurationError, CotransError, InputError, UsageError
from pipelines.model.lstr.config import LstrConfig
from tests.checkpoints.made_lstr import lstr_weights
from tests.model.test_lstr import SMALL

NAMES = ("lstr", "testra_box", "testra_decay")
FLAGS: dict[str, Any] = {
    "heads": 8,
    "fps": 4.0,
    "long_seconds": 12.0,
    "long_rate": 4,
    "work_seconds": 2.0,
    "long_positions": False,
    "include_work": True,
    "decay": 0.97,
}


def run(path: Path, out: Path, **hints: Any) -> Conversion:
    return convert(path, ConversionOptions(hints=Hints(**hints), output=out, force=True))


def written(folder: Path, text: str) -> Path:
    path = folder / "changed.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_official_numbers_at_every_frame(golden_dir: Path, tmp_path: Path, name: str) -> None:
    report = run(golden_dir / f"{name}.pth", tmp_path / "m.safetensors", config=golden_dir / f"{name}.yaml")
    assert report.proof.relative < 2e-5
    assert report.macs_after < 0.6 * report.macs_before
    expected = load_file(golden_dir / f"{name}.expected.safetensors")
    stream = torch.cat([expected["rgb"], expected["flow"]], dim=1)
    model = load_checkpoint(report.output).model
    with torch.inference_mode():
        scores, _ = model.steps(stream.unsqueeze(0), model.initial_state(1))
        state, stepped = model.initial_state(1), []
        for frame in stream:
            logits, state = model.step_(frame.unsqueeze(0), state)
            stepped.append(logits)
    for found in (scores[0], torch.cat(stepped)):
        difference = (found - expected["scores"]).abs().amax(1) / expected["scores"].abs().amax(1)
        assert difference.max() < 2e-5
        assert (found.softmax(-1) - expected["probabilities"]).abs().max() < 2e-5


def test_flags_instead_of_a_configuration(golden_dir: Path) -> None:
    path = golden_dir / "testra_decay.pth"
    by_file = open_source(path, Hints(config=golden_dir / "testra_decay.yaml")).imported
    assert open_source(path, Hints(**FLAGS)).imported.config == by_file.config


@pytest.mark.parametrize("missing", FLAGS)
def test_a_missing_flag_is_asked_for_by_name(golden_dir: Path, missing: str) -> None:
    given = {name: value for name, value in FLAGS.items() if name != missing}
    with pytest.raises(UsageError, match=f"add --config with its YAML file, or --{missing.replace('_', '-')} \\("):
        open_source(golden_dir / "testra_decay.pth", Hints(**given))


def test_flags_beside_a_configuration_are_refused(golden_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"--heads, --decay: .* says it already: leave them out"):
        open_source(golden_dir / "lstr.pth", Hints(config=golden_dir / "lstr.yaml", heads=8, decay=1.0))
    with pytest.raises(UsageError, match="--window: an LSTR or TeSTra has no use for this"):
        open_source(golden_dir / "lstr.pth", Hints(config=golden_dir / "lstr.yaml", window=8))


CHANGED = (
    ("DIM_FEEDFORWARD: 48", "DIM_FEEDFORWARD: 64", "DIM_FEEDFORWARD is 64, but the weights have 48"),
    ("[4, 1, True], [6, 2, True]", "[4, 1, True]", r"ENC_MODULE is \[\[4, 1, True\]\], but the weights have"),
    ("[6, 2, True]", "[6, 2, False]", "ENC_MODULE is"),
    ("DEC_MODULE: [-1, 2, True]", "DEC_MODULE: [-1, 1, True]", r"DEC_MODULE is \[1, True\], but the weights have"),
    ("LINEAR_OUT_FEATURES: 32", "LINEAR_OUT_FEATURES: 1024", "LINEAR_OUT_FEATURES is 1024, but the weights have 32"),
    ("NUM_HEADS: 8", "NUM_HEADS: 5", "width 32 is not divisible by heads 5"),
    ("NUM_HEADS: 8", "NUM_HEADS: eight", "NUM_HEADS must be a whole number, not 'eight'"),
    ("LONG_MEMORY_SECONDS: 12", "LONG_MEMORY_SECONDS: 13", "cannot be sampled|no model"),
    ("LONG_MEMORY_SECONDS: 12", "LONG_MEMORY_SECONDS: 0", "a long memory of 0 frames"),
    ("LONG_MEMORY_SECONDS: 12", "LONG_MEMORY_SECONDS: 40000", "positions, but the memories of .* need more"),
    ("DROPOUT: 0.2", "DROPOUT: 0.2\n    ANTICIPATION_SECONDS: 2", "an anticipation model.*not supported yet"),
    ("DROPOUT: 0.2", "DROPOUT: 0.2\n    V_N_CLASSIFIER: True", "verb and noun heads.*not supported yet"),
    ("DROPOUT: 0.2", "DROPOUT: 0.2\n    LONG_MEMORY_INCLUDE_WORK2: True", "includes the work memory.*not supported"),
    ("DROPOUT: 0.2", "DROPOUT: 0.2\n    ENC_ATTENTION_DECAY: 1.5", "decay must be above 0 and at most 1, not 1.5"),
    (
        "DROPOUT: 0.2",
        "DROPOUT: 0.2\n    ENC_ATTENTION_DECAY: .nan",
        "changed.yaml does not fit .*decay must be above 0",
    ),
    ("LINEAR_ENABLED: True", "LINEAR_ENABLED: False", "LINEAR_ENABLED is False, but the weights have True"),
    ("LINEAR_OUT_FEATURES: 32", "LINEAR_OUT_FEATURES: wide", "LINEAR_OUT_FEATURES must be a whole number, not 'wide'"),
    ("DATA_NAME: 'THUMOS'", "FPS: 0", "FPS must be above 0, not 0"),
    ("DATA_NAME: 'THUMOS'", "FPS: four", "FPS must be a number, not 'four'"),
    ("DATA_NAME: 'THUMOS'", "FPS: 3.125", "at 3.125 frames per second is no whole number of frames"),
    ("DATA_NAME: 'THUMOS'", "FPS: 4\n  NUM_CLASSES: 22", "NUM_CLASSES is 22, but the weights have 7"),
    ("DATA_NAME: 'THUMOS'", "FPS: 4\n  NUM_CLASSES: 7\n  CLASS_NAMES: [a]", "has 1 CLASS_NAMES, but NUM_CLASSES is 7"),
    ("ACTIVATION: 'relu'", "ACTIVATION: 'silu'", "only relu and gelu are supported"),
    ("MODEL_NAME: 'LSTR'", "MODEL_NAME: 'TRN'", "is of a TRN, not of an LSTR or TeSTra"),
    ("DATA_NAME: 'THUMOS'", "DATA_NAME: 'EK100'", "does not say its frames per second .* add --fps"),
    ("  LSTR:", "  OTHER:", "has no MODEL: LSTR"),
    ("MODEL:", "MODEL: [", "is not valid YAML"),
)


@pytest.mark.parametrize(("old", "new", "message"), CHANGED)
def test_a_configuration_that_does_not_fit_is_one_line(
    golden_dir: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    text = (golden_dir / "lstr.yaml").read_text()
    assert old in text
    if old == "LONG_MEMORY_SECONDS: 12" and new.endswith("13"):
        text = text.replace("LONG_MEMORY_SAMPLE_RATE: 4", "LONG_MEMORY_SAMPLE_RATE: 5")
    config = written(tmp_path, text.replace(old, new))
    with pytest.raises(CotransError, match=message) as refused:
        open_source(golden_dir / "lstr.pth", Hints(config=config))
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, (CheckpointError, ConfigurationError, InputError, UsageError))


def save(path: Path, config: LstrConfig, **changes: torch.Tensor | None) -> Path:
    weights = lstr_weights(config)
    for key, value in changes.items():
        weights.pop(key.replace("__", "."), None)
        if value is not None:
            weights[key.replace("__", ".")] = value
    torch.save({"epoch": 1, "model_state_dict": weights, "optimizer_state_dict": {}}, path)
    return path


def configuration(folder: Path, config: LstrConfig) -> Path:
    """The YAML of a small model, for one frame a second."""
    modules = zip(config.encoder_queries, config.encoder_layers, config.encoder_norms, strict=True)
    lstr = {
        "NUM_HEADS": config.heads,
        "DIM_FEEDFORWARD": config.feed_forward,
        "ACTIVATION": config.activation,
        "LONG_MEMORY_SECONDS": config.long_samples * config.long_rate,
        "LONG_MEMORY_SAMPLE_RATE": config.long_rate,
        "LONG_MEMORY_USE_PE": config.long_positions,
        "LONG_MEMORY_INCLUDE_WORK": config.include_work,
        "WORK_MEMORY_SECONDS": config.work_samples * config.work_rate,
        "WORK_MEMORY_SAMPLE_RATE": config.work_rate,
        "WORK_MEMORY_USE_PE": config.work_positions,
        "ENC_ATTENTION_DECAY": config.decay,
        "ENC_MODULE": [[queries or -1, layers, norm] for queries, layers, norm in modules],
        "DEC_MODULE": [-1, config.decoder_layers, config.decoder_norm],
    }
    head = {"LINEAR_ENABLED": config.feature_head, "LINEAR_OUT_FEATURES": config.width}
    path = folder / "made.yaml"
    path.write_text(
        yaml.safe_dump({"DATA": {"FPS": 1}, "MODEL": {"MODEL_NAME": "LSTR", "FEATURE_HEAD": head, "LSTR": lstr}})
    )
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"long_positions": True, "work_positions": False},
        {"include_work": True, "decay": 0.6, "encoder_layers": (2, 1)},
        {"encoder_queries": (3, 0), "encoder_norms": (False, True), "decoder_norm": False, "decoder_layers": 1},
        {"work_rate": 2, "activation": "gelu"},
        {"feature_head": False, "input_width": 8},
    ],
    ids=str,
)
def test_other_models_convert(tmp_path: Path, changes: dict[str, Any]) -> None:
    config = replace(SMALL, **changes)
    made = save(tmp_path / "m.pth", config)
    report = run(made, tmp_path / "m.safetensors", config=configuration(tmp_path, config))
    assert report.config == replace(config, dropout=0.2)
    assert report.proof.holds and set(report.mapped) | set(report.dropped) == set(lstr_weights(config))


def test_a_wide_model_is_proven_in_float64(golden_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its steps run in float32, where scores of hundreds cost digits: no reason to refuse it."""
    monkeypatch.setattr("pipelines.model.lstr.config.FLOAT64_WIDTH", 0)
    report = run(golden_dir / "lstr.pth", tmp_path / "m.safetensors", config=golden_dir / "lstr.yaml")
    assert report.proof.relative < 1e-9
    assert any("the proof is in float64; steps run in float32" in note for note in report.notes)
    assert load_checkpoint(report.output).model.classifier.weight.dtype == torch.float32
    copied = run(report.output, tmp_path / "copy.safetensors")
    assert copied.already_continual and copied.proof.relative < 1e-9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dec_query__weight": torch.zeros(2, 8)}, "an anticipation model, .* not supported yet"),
        ({"classifier_verb__weight": torch.zeros(2, 8)}, "verb and noun heads .EPIC-KITCHENS.* not supported yet"),
        ({"classifier__bias": None}, "lacks classifier.bias"),
        ({"classifier__weight": None}, "looks like an LSTR or TeSTra, but lacks classifier.weight"),
        ({"pos_encoding__pe": None}, "pos_encoding.pe is missing"),
        ({"enc_queries__0__weight": None}, "begins with an encoder module without queries"),
        ({"dec_modules__layers__1__norm3__bias": None}, "dec_modules.layers.1.norm3.bias is missing"),
        ({"something__else": torch.zeros(2)}, "something.else is not known"),
        ({"enc_queries__1__weight": torch.zeros(4, 9)}, "enc_queries.1.weight is 4×9 instead of 4×8"),
    ],
)
def test_weights_that_do_not_fit_are_one_line(
    tmp_path: Path, changes: dict[str, torch.Tensor | None], message: str
) -> None:
    made = save(tmp_path / "m.pth", SMALL, **changes)
    with pytest.raises(CheckpointError, match=message) as refused:
        open_source(made, Hints(config=configuration(tmp_path, SMALL)))
    assert "\n" not in str(refused.value)


def test_whose_program_decides_where_positions_are_not_said(golden_dir: Path, tmp_path: Path) -> None:
    text = (golden_dir / "lstr.yaml").read_text().replace("    LONG_MEMORY_USE_PE: True\n", "")
    testra = open_source(golden_dir / "lstr.pth", Hints(config=written(tmp_path, text))).imported
    assert not testra.config.long_positions and "TeSTra's default" in testra.notes[0]  # type: ignore[attr-defined]
    text = text.replace("  OBJECT_FEATURE: 'flow_kinetics_bninception'\n", "")
    lstr = open_source(golden_dir / "lstr.pth", Hints(config=written(tmp_path, text))).imported
    assert lstr.config.long_positions and "LSTR's own program" in lstr.notes[0]  # type: ignore[attr-defined]


def test_memories_beyond_every_machine_are_one_line(golden_dir: Path, tmp_path: Path) -> None:
    """Without positions on the long memory, no table of the file bounds it."""
    text = (golden_dir / "testra_box.yaml").read_text()
    config = written(tmp_path, text.replace("LONG_MEMORY_SECONDS: 12", "LONG_MEMORY_SECONDS: 100000000"))
    with pytest.raises(ConfigurationError, match=r"memories of 400,000,008 frames .* more than can be held"):
        open_source(golden_dir / "testra_box.pth", Hints(config=config))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DATA_NAME: 'THUMOS'", "FPS: 4.0"),
        ("DATA_NAME: 'THUMOS'", "DATA_NAME: 'TVSeries'\n  FPS: null"),
        ("DROPOUT: 0.2", "DROPOUT: 2e-1"),  # words to YAML, which the official programs evaluate
        ("DEC_MODULE: [-1, 2, True]", "DEC_MODULE: '(-1, 2, True)'"),
        ("MODEL_NAME: 'LSTR'", "MODEL_NAME: ''"),
        ("MODEL:", "GPU: '0,1'\nMODEL:"),
        ("LINEAR_OUT_FEATURES: 32", "LINEAR_OUT_FEATURES: -1"),  # the input is as wide
        ("DROPOUT: 0.2", "DROPOUT: 0.2\n    LONG_MEMORY_LENGTH: 48\n    LONG_MEMORY_NUM_SAMPLES: 12"),
    ],
)
def test_other_ways_to_say_the_same(golden_dir: Path, tmp_path: Path, old: str, new: str) -> None:
    path, text = golden_dir / "lstr.pth", (golden_dir / "lstr.yaml").read_text()
    assert old in text
    said = open_source(path, Hints(config=written(tmp_path, text.replace(old, new)))).imported
    assert said.config == open_source(path, Hints(config=golden_dir / "lstr.yaml")).imported.config
    assert said.notes == ()


def test_keys_that_no_program_has_are_noted(golden_dir: Path, tmp_path: Path) -> None:
    text = (golden_dir / "lstr.yaml").read_text().replace("DROPOUT: 0.2", "DROPOUT: 0.2\n    GROUPS: 8\n    SKIP: True")
    noted = open_source(golden_dir / "lstr.pth", Hints(config=written(tmp_path, text))).imported
    assert len(noted.notes) == 1 and "do not know, not looked at: GROUPS, SKIP" in noted.notes[0]


def test_class_names_of_a_configuration(golden_dir: Path, tmp_path: Path) -> None:
    text = (golden_dir / "lstr.yaml").read_text().replace("'THUMOS'", "'THUMOS'\n  CLASS_NAMES: [a, b, c, d, e, f, g]")
    imported = open_source(golden_dir / "lstr.pth", Hints(config=written(tmp_path, text))).imported
    assert imported.class_names == tuple("abcdefg")


@pytest.mark.parametrize("container", ["model_state_dict", "model_state", "ema", "network", None])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.module.", "model.", "net.module."])
def test_wherever_a_script_keeps_the_weights(
    golden_dir: Path, tmp_path: Path, container: str | None, prefix: str
) -> None:
    weights = torch.load(golden_dir / "lstr.pth", weights_only=True)["model_state_dict"]
    weights = {prefix + key: value for key, value in weights.items()}
    torch.save(weights if container is None else {container: weights, "epoch": 3}, tmp_path / "m.pth")
    hints = Hints(config=golden_dir / "lstr.yaml")
    assert (
        open_source(tmp_path / "m.pth", hints).imported.mapped
        == open_source(golden_dir / "lstr.pth", hints).imported.mapped
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x\n", "has aliases"),
        ("!!python/object/apply:os.system ['true']\n", "is not valid YAML"),
        ("[" * 5_000, "nested too deep"),
        ("- 1\n", "not a mapping"),
        ("x: " + "y" * (1 << 21), "larger than 1 MiB"),
    ],
)
def test_hostile_yaml_is_one_line(golden_dir: Path, tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        open_source(golden_dir / "lstr.pth", Hints(config=written(tmp_path, text)))
    assert "\n" not in str(refused.value)
