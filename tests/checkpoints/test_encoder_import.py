"""Encoders of torch and of the authors' continual library, alone and inside larger models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipelines.checkpoints.foreign_files.imported import Hints, Imported
from pipelines.checkpoints.opening import open_checkpoint, open_source
from pipelines.checkpoints.projects.own_import import filled_model
from pipelines.checkpoints.proof import prove, random_stream
from pipelines.errors import CheckpointError, ConfigurationError, UsageError
from pipelines.model.transformer.config import Activation

WIDTH, HEADS, WINDOW = 16, 4, 6
KNOWN = Hints(heads=HEADS, window=WINDOW)


def encoder(layers: int, norm: bool = False, seed: int = 0, **options: object) -> nn.TransformerEncoder:
    """An encoder in which every weight matters: norms and biases start as 1 and 0."""
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True, **options)  # type: ignore[arg-type]
    made = nn.TransformerEncoder(layer, layers, nn.LayerNorm(WIDTH) if norm else None, enable_nested_tensor=False)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return made.eval()


class Tagger(nn.Module):
    """What people write around an encoder."""

    def __init__(self, inputs: int = 10, classes: int = 5) -> None:
        super().__init__()
        self.embed = nn.Linear(inputs, WIDTH)
        self.encoder = encoder(2)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.norm(self.encoder(self.embed(tokens))[:, -1]))


def proves(imported: Imported, limit: float = 5e-6) -> None:
    model = filled_model(imported.config, imported.weights)
    assert prove(model, imported.reference, random_stream(imported.config, torch.float32)).relative < limit


def equals(path: Path, hints: Hints, regular: nn.Module, inputs: int = WIDTH) -> None:
    """The converted model steps to what the module itself gives for each window."""
    checkpoint = open_checkpoint(path, hints)
    stream = torch.randn(1, 4 * WINDOW, inputs)
    with torch.inference_mode():
        steps, _ = checkpoint.model.steps(stream, checkpoint.model.initial_state(1))
        for end in range(1, stream.shape[1] + 1):
            expected = regular(stream[:, max(end - WINDOW, 0) : end])
            expected = expected[:, -1] if expected.dim() == 3 else expected
            assert torch.allclose(steps[:, end - 1], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 3, 4])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_torch_encoder(tmp_path: Path, layers: int, norm_first: bool, activation: Activation) -> None:
    """Must show 4: a state dict saved by torch alone."""
    made = encoder(layers, norm=norm_first, norm_first=norm_first, activation=activation)
    torch.save(made.state_dict(), tmp_path / "e.pth")
    hints = Hints(heads=HEADS, window=WINDOW, norm="pre" if norm_first else None, activation=activation)
    imported = open_source(tmp_path / "e.pth", hints).imported
    assert imported.config.blocks == layers and imported.config.final_norm == norm_first
    proves(imported)
    equals(tmp_path / "e.pth", hints, made)


def test_torch_layer_alone(tmp_path: Path) -> None:
    made = encoder(1)
    torch.save(made.layers[0].state_dict(), tmp_path / "e.pth")
    assert open_source(tmp_path / "e.pth", KNOWN).imported.kind.startswith("torch.nn.TransformerEncoderLayer, 1")
    equals(tmp_path / "e.pth", KNOWN, made)


def test_without_biases(tmp_path: Path) -> None:
    made = encoder(2, bias=False)
    torch.save(made.state_dict(), tmp_path / "e.pth")
    config = open_source(tmp_path / "e.pth", KNOWN).imported.config
    assert not config.in_projection_bias and not config.out_projection_bias
    equals(tmp_path / "e.pth", KNOWN, made)


def test_inside_a_larger_model(tmp_path: Path) -> None:
    """Input projection, norm and head are told by shape and place; their names are the user's own."""
    made = Tagger().eval()
    torch.save({"state_dict": made.state_dict(), "epoch": 3}, tmp_path / "t.pth")
    imported = open_source(tmp_path / "t.pth", KNOWN).imported
    assert imported.mapped["embed.weight"] == "input_projection.weight"
    assert imported.mapped["norm.bias"] == "final_norm.bias"
    assert imported.mapped["head.weight"] == "classifier.weight"
    equals(tmp_path / "t.pth", KNOWN, made, inputs=10)


def test_parts_saved_side_by_side(tmp_path: Path) -> None:
    made = Tagger().eval()
    parts = {name: part.state_dict() for name, part in made.named_children()}
    torch.save({**parts, "epoch": 3}, tmp_path / "t.pth")
    equals(tmp_path / "t.pth", KNOWN, made, inputs=10)


def test_square_layers_are_told_by_place(tmp_path: Path) -> None:
    made = Tagger(WIDTH, WIDTH).eval()
    torch.save(made.state_dict(), tmp_path / "t.pth")
    equals(tmp_path / "t.pth", KNOWN, made)
    # Safetensors files are sorted by name, so that place tells nothing.
    save_file(made.state_dict(), tmp_path / "t.safetensors")
    with pytest.raises(CheckpointError, match="keys that nothing explains: embed"):
        open_source(tmp_path / "t.safetensors", KNOWN)


def test_prefix_takes_the_encoder_alone(tmp_path: Path) -> None:
    made = Tagger().eval()
    torch.save(made.state_dict(), tmp_path / "t.pth")
    for prefix in ("encoder.", "encoder"):
        hints = Hints(heads=HEADS, window=WINDOW, prefix=prefix)
        imported = open_source(tmp_path / "t.pth", hints).imported
        assert imported.dropped["head.weight"] == "outside --prefix"
        assert any("no classifier" in note for note in imported.notes)
        equals(tmp_path / "t.pth", hints, made.encoder)
    named = Hints(heads=HEADS, window=WINDOW, prefix="encoder.", input_layer="embed", classifier="head")
    without_norm = nn.Sequential(made.embed, made.encoder, made.head)
    equals(tmp_path / "t.pth", named, without_norm, inputs=10)


def test_two_encoders(tmp_path: Path) -> None:
    both = nn.ModuleDict({"audio": encoder(1), "video": encoder(2, seed=1)})
    torch.save(both.state_dict(), tmp_path / "b.pth")
    with pytest.raises(UsageError, match=r"several encoders: choose one with --prefix \(audio\., video\.\)"):
        open_source(tmp_path / "b.pth", KNOWN)
    equals(tmp_path / "b.pth", Hints(heads=HEADS, window=WINDOW, prefix="video."), both["video"])
    with pytest.raises(UsageError, match="no encoder has keys that begin so"):
        open_source(tmp_path / "b.pth", Hints(heads=HEADS, window=WINDOW, prefix="text."))


def test_two_heads(tmp_path: Path) -> None:
    made = Tagger().eval()
    made.verb = nn.Linear(WIDTH, 7)
    torch.save(made.state_dict(), tmp_path / "t.pth")
    with pytest.raises(UsageError, match=r"choose one with --classifier \(head, verb\)"):
        open_source(tmp_path / "t.pth", KNOWN)


def test_double_precision_stays(tmp_path: Path) -> None:
    torch.save(encoder(2).double().state_dict(), tmp_path / "e.pth")
    imported = open_source(tmp_path / "e.pth", KNOWN).imported
    model = filled_model(imported.config, imported.weights)
    assert model.classifier.weight.dtype == torch.float64
    assert prove(model, imported.reference, random_stream(imported.config, torch.float64)).relative < 1e-12


@pytest.mark.parametrize(
    ("name", "hints"),
    [
        ("continual_b1", Hints(heads=4, window=8)),
        ("continual_b2", Hints(heads=4, window=8)),
        ("continual_vision", Hints(heads=4, window=8, activation="gelu")),
        ("cooadtr_b1", Hints()),
        ("cooadtr_b2", Hints()),
    ],
)
@torch.inference_mode()
def test_continual_library(golden_dir: Path, name: str, hints: Hints) -> None:
    """Must show 5: checkpoints of continual-inference 1.2.4 agree with that library's own forward."""
    expected = load_file(golden_dir / f"{name}.expected.safetensors")
    path = golden_dir / f"{name}.pth"
    model = open_checkpoint(path, hints).model
    steps, _ = model.steps(expected["stream"].unsqueeze(0), model.initial_state(1))
    difference = (steps[0, model.config.window - 1 :] - expected["scores"]).abs().max()
    assert difference / expected["scores"].abs().max() < 2e-6
    proves(open_source(path, hints).imported)


def test_fixed_positions_of_the_library_are_cyclic(golden_dir: Path) -> None:
    config = open_source(
        golden_dir / "continual_vision.pth", Hints(heads=4, window=8, activation="gelu")
    ).imported.config
    assert (config.positional, config.encoding, config.position_count) == ("recycling", "cyclic", 8)


def test_cooadtr_does_not_save_its_fixed_positions(golden_dir: Path, tmp_path: Path) -> None:
    weights = torch.load(golden_dir / "cooadtr_b1.pth", weights_only=False)["model"]
    del weights["1.pe.weight"]
    torch.save(weights, tmp_path / "c.pth")
    known = {"heads": 4, "window": 8}
    with pytest.raises(UsageError, match="add --encoding cyclic"):
        open_source(tmp_path / "c.pth", Hints(**known))
    for entries, count in (("n", 8), ("2n-1", 15), (None, 15)):
        imported = open_source(tmp_path / "c.pth", Hints(**known, encoding="cyclic", positions=entries)).imported
        assert imported.config.position_count == count
        proves(imported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers.1.linear1.bias": None}, "layers.1.linear1.bias is missing"),
        ({"layers.0.self_attn.in_proj_bias": None}, "layers.0.self_attn.in_proj_bias is missing"),
        ({"layers.0.linear1.weight": None}, "lacks layers.0.linear1.weight"),
        ({"layers.1.gate": torch.zeros(2)}, "nothing explains: layers.1.gate"),
        ({"layers.1.norm1.weight": torch.zeros(15)}, "layers.1.norm1.weight is 15 instead of 16"),
        ({"layers.1.norm1.weight": torch.full((16,), torch.nan)}, "NaN or infinity"),
    ],
)
def test_damaged_weights(tmp_path: Path, change: dict[str, Tensor | None], message: str) -> None:
    weights = {**encoder(2).state_dict(), **change}
    torch.save({key: value for key, value in weights.items() if value is not None}, tmp_path / "e.pth")
    with pytest.raises(CheckpointError) as error:
        open_source(tmp_path / "e.pth", KNOWN)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_what_is_not_said_and_what_does_not_fit(tmp_path: Path) -> None:
    torch.save(encoder(1).state_dict(), tmp_path / "e.pth")
    with pytest.raises(UsageError, match=r"add --window \(.*\) and --heads \(it divides 16\)"):
        open_source(tmp_path / "e.pth")
    with pytest.raises(UsageError, match="does not say its window: add --window"):
        open_source(tmp_path / "e.pth", Hints(heads=4))
    with pytest.raises(UsageError, match="does not say its number of heads: add --heads"):
        open_source(tmp_path / "e.pth", Hints(window=6))
    with pytest.raises(ConfigurationError, match="width 16 is not divisible by heads 3"):
        open_source(tmp_path / "e.pth", Hints(window=6, heads=3))
    with pytest.raises(UsageError, match="--window must be at least 1"):
        open_source(tmp_path / "e.pth", Hints(window=0, heads=4))
    with pytest.raises(UsageError, match=r"--class-token, --positions: a torch\.nn\.TransformerEncoder has no use"):
        open_source(tmp_path / "e.pth", Hints(window=6, heads=4, class_token=True, positions="n"))


def test_unknown_model(tmp_path: Path) -> None:
    torch.save(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2)).state_dict(), tmp_path / "m.pth")
    with pytest.raises(CheckpointError, match=r"no model that we know .* its keys: 0\.weight, 0\.bias"):
        open_source(tmp_path / "m.pth")


class Placed(nn.Module):
    """A model with static positions, as people write them."""

    def __init__(self, kind: str, entries: int = WINDOW) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Linear(10, WIDTH)
        table = torch.randn(entries, WIDTH)
        if kind == "pos":
            self.pos = nn.Parameter(table)
        elif kind == "pos_embed":
            self.pos_embed = nn.Parameter(table.unsqueeze(0))
        elif kind == "position_embeddings":
            self.position_embeddings = nn.Embedding(entries, WIDTH)
        elif kind == "place":
            self.place = nn.Parameter(table)
        else:
            self.pos_encoder = nn.Module()
            angle = torch.arange(50.0).unsqueeze(1) / 10 ** (torch.arange(0, WIDTH, 2) / WIDTH)
            waves = torch.stack((angle.sin(), angle.cos()), -1).flatten(1)
            shaped = waves.unsqueeze(1) if kind == "sequence first" else waves.unsqueeze(0)
            self.pos_encoder.register_buffer("pe", shaped)
        self.kind = kind
        self.encoder = encoder(2)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        if self.kind in ("pos", "place"):
            places = self.pos if self.kind == "pos" else self.place
        elif self.kind == "pos_embed":
            places = self.pos_embed[0]
        elif self.kind == "position_embeddings":
            places = self.position_embeddings.weight
        else:
            places = self.pos_encoder.pe.flatten(0, 1)
        return self.head(self.encoder(self.embed(tokens) + places[:length])[:, -1])


@pytest.mark.parametrize("kind", ["pos", "pos_embed", "position_embeddings", "batch first", "sequence first"])
def test_static_positions_are_found_and_exact(tmp_path: Path, kind: str) -> None:
    """Must show: outputs equal the user's own module on its own windows."""
    made = Placed(kind).eval()
    torch.save(made.state_dict(), tmp_path / "p.pth")
    imported = open_source(tmp_path / "p.pth", KNOWN).imported
    assert imported.config.positional == "static" and not imported.left_out
    proves(imported)
    equals(tmp_path / "p.pth", KNOWN, made, inputs=10)
    places = 50 if kind.endswith("first") else WINDOW
    with pytest.raises(UsageError, match=f"trained on: {places} at most, its positions"):
        open_source(tmp_path / "p.pth", Hints(heads=HEADS))


def test_positions_with_a_name_of_their_own_are_named(tmp_path: Path) -> None:
    made = Placed("place", entries=WINDOW + 3).eval()
    torch.save(made.state_dict(), tmp_path / "p.pth")
    named = Hints(heads=HEADS, window=WINDOW, positions_key="place")
    equals(tmp_path / "p.pth", named, made, inputs=10)
    with pytest.raises(CheckpointError, match=r"nothing explains: place .--positions-key place if these are positions"):
        open_source(tmp_path / "p.pth", KNOWN)
    with pytest.raises(UsageError, match="--positions-key nowhere: the file has no such key"):
        open_source(tmp_path / "p.pth", Hints(heads=HEADS, window=WINDOW, positions_key="nowhere"))
    with pytest.raises(UsageError, match="has 9 positions only"):
        open_source(tmp_path / "p.pth", Hints(heads=HEADS, window=30, positions_key="place"))


def test_what_a_file_cannot_say_is_noted(tmp_path: Path) -> None:
    """PyTorch's tutorial multiplies tokens by √d; what the note advises gives its numbers."""
    made = Placed("sequence first").eval()
    torch.save(made.state_dict(), tmp_path / "p.pth")
    notes = open_source(tmp_path / "p.pth", KNOWN).imported.notes
    assert any("multiply embed.weight and embed.bias by it" in note for note in notes)
    assert any("reads the newest row" in note for note in notes)
    scaled = {
        key: WIDTH**0.5 * value if key.startswith("embed.") else value for key, value in made.state_dict().items()
    }
    torch.save(scaled, tmp_path / "s.pth")
    made.embed.register_forward_hook(lambda module, inputs, output: output * WIDTH**0.5)
    equals(tmp_path / "s.pth", KNOWN, made, inputs=10)


def test_a_class_token_is_not_guessed(tmp_path: Path) -> None:
    made = Placed("pos_embed", entries=WINDOW + 1).eval()
    torch.save({"cls_token": torch.zeros(1, 1, WIDTH), **made.state_dict()}, tmp_path / "p.pth")
    with pytest.raises(CheckpointError, match=r"cls_token .a class token is read in OadTR's files only"):
        open_source(tmp_path / "p.pth", KNOWN)


def test_positions_outside_the_prefix_are_left_out_and_said(tmp_path: Path) -> None:
    made = Placed("pos_embed").eval()
    torch.save(made.state_dict(), tmp_path / "p.pth")
    imported = open_source(tmp_path / "p.pth", Hints(heads=HEADS, window=WINDOW, prefix="encoder.")).imported
    assert imported.left_out == ("pos_embed",)


def test_positions_outside_the_prefix_are_taken_where_they_are_named(tmp_path: Path) -> None:
    made = Placed("place").eval()
    torch.save({"aux.weight": torch.zeros(3, WIDTH), **made.state_dict()}, tmp_path / "p.pth")
    hints = Hints(
        heads=HEADS, window=WINDOW, prefix="encoder.", input_layer="embed", classifier="head", positions_key="place"
    )
    imported = open_source(tmp_path / "p.pth", hints).imported
    assert imported.config.positional == "static" and not imported.left_out
    assert list(imported.dropped) == ["aux.weight"]
    equals(tmp_path / "p.pth", hints, made, inputs=10)
    without = replace(hints, positions_key=None)  # by a name that says nothing, a table of that shape counts too
    assert open_source(tmp_path / "p.pth", without).imported.left_out == ("place",)


@pytest.mark.parametrize("part", ["head", "embed"])
def test_other_layers_of_a_head_are_left_out_and_said(part: str, tmp_path: Path) -> None:
    weights = dict(Placed("none").state_dict())
    weights = {key: value for key, value in weights.items() if "pos" not in key and "place" not in key}
    for kind in ("weight", "bias"):
        weights[f"{part}.2.{kind}"] = weights.pop(f"{part}.{kind}")
    weights |= {f"{part}.0.weight": torch.randn(WIDTH, WIDTH), f"{part}.0.bias": torch.randn(WIDTH)}
    torch.save({"aux.0.weight": torch.zeros(3, WIDTH), **weights}, tmp_path / "p.pth")
    taken = {"head": "head", "embed": "embed", part: f"{part}.2"}
    hints = Hints(heads=HEADS, window=WINDOW, prefix="encoder.", input_layer=taken["embed"], classifier=taken["head"])
    imported = open_source(tmp_path / "p.pth", hints).imported
    assert set(imported.left_out) == {f"{part}.0.weight", f"{part}.0.bias"}
    assert "aux.0.weight" in imported.dropped


class SeparateAttention(nn.Module):
    """One layer of BERT (post-norm) or ViT (pre-norm) under Hugging Face's names."""

    def __init__(self, vit: bool, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        inner = nn.ModuleDict({name: nn.Linear(WIDTH, WIDTH) for name in ("query", "key", "value")})
        output = nn.ModuleDict({"dense": nn.Linear(WIDTH, WIDTH)})
        if not vit:
            output["LayerNorm"] = nn.LayerNorm(WIDTH)
        self.attention = nn.ModuleDict({"attention" if vit else "self": inner, "output": output})
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(WIDTH, 24)})
        self.output = nn.ModuleDict({"dense": nn.Linear(24, WIDTH)})
        if vit:
            self.layernorm_before, self.layernorm_after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        else:
            self.output["LayerNorm"] = nn.LayerNorm(WIDTH)
        self.vit = vit

    def attend(self, tokens: Tensor) -> Tensor:
        inner = self.attention["attention" if self.vit else "self"]
        split = (inner[name](tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2) for name in ("query", "key", "value"))
        mixed = nn.functional.scaled_dot_product_attention(*split)
        return self.attention["output"]["dense"](mixed.transpose(1, 2).flatten(2))

    def forward(self, tokens: Tensor) -> Tensor:
        gelu = nn.functional.gelu
        if self.vit:
            tokens = tokens + self.attend(self.layernorm_before(tokens))
            inner = self.intermediate["dense"](self.layernorm_after(tokens))
            return tokens + self.output["dense"](gelu(inner))
        tokens = self.attention["output"]["LayerNorm"](tokens + self.attend(tokens))
        return self.output["LayerNorm"](tokens + self.output["dense"](gelu(self.intermediate["dense"](tokens))))


@pytest.mark.parametrize("vit", [False, True])
def test_hugging_face_layers(tmp_path: Path, vit: bool) -> None:
    layers = nn.Sequential(*(SeparateAttention(vit, seed) for seed in range(2))).eval()
    torch.save({f"encoder.layer.{key}": value for key, value in layers.state_dict().items()}, tmp_path / "h.pth")
    imported = open_source(tmp_path / "h.pth", KNOWN).imported
    assert imported.config.norm == ("pre" if vit else "post") and imported.config.activation == "gelu"
    assert any("Hugging Face's own models have 1e-12" in note for note in imported.notes)
    proves(imported)
    equals(tmp_path / "h.pth", KNOWN, layers)


def test_whole_models_are_refused_with_the_lines_that_help(tmp_path: Path) -> None:
    torch.save(encoder(1), tmp_path / "whole.pth")
    with pytest.raises(CheckpointError, match=r"save the weights alone: model = torch\.load\(FILE"):
        open_source(tmp_path / "whole.pth")
    torch.jit.save(torch.jit.trace(nn.Linear(3, 4), torch.zeros(1, 3)), tmp_path / "script.pt")
    with pytest.raises(CheckpointError, match=r"TorchScript code.*torch\.jit\.load"):
        open_source(tmp_path / "script.pt")
    exported = torch.export.export(nn.Linear(3, 4), (torch.zeros(1, 3),))
    torch.export.save(exported, tmp_path / "program.pt2")
    with pytest.raises(CheckpointError, match=r"a program of torch.export.*torch\.export\.load"):
        open_source(tmp_path / "program.pt2")
