"""Shown commands that the tests do not run just as they stand, each with the reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Apart:
    """A command that cannot succeed on a machine without network, camera or hours.

    Without `exit_code` it is checked that the line parses; with it, that the command ends so and says `says`.
    """

    reason: str
    exit_code: int | None = None
    says: str = ""


APART: dict[str, Apart] = {
    "make demo": Apart("sets up an environment"),
    "python benchmarks/own_data_sets.py esc10 sets/esc10 --root ESC10/": Apart("a public set, as a folder of clips"),
    "python benchmarks/clip_streams.py sets/esc10 --fold 1 --fold 2 --fold 3 --fold 4 --out runs/esc10 --show": Apart(
        "minutes of training"
    ),
    "python benchmarks/clip_streams.py sets/words --fold george --fold lucas -- --group '([a-z]+)_'": Apart(
        "minutes of training"
    ),
    "python benchmarks/clip_streams.py sets/golf -- --group '(p[0-9]+)_' --validation 0.3 --split-seed 0": Apart(
        "minutes of training"
    ),
    "make test": Apart("sets up an environment and runs this very test"),
    "cotrans --install-completion": Apart("changes the user's shell; test_pages.py installs it into another home"),
    "cotrans extract videos/ --out features/ --features resnet50+resnet50-flow+vggish --output penultimate --fps 5": (
        Apart("weights that have to be downloaded", 6, "cotrans weights get")
    ),
    "cotrans extract videos/ --out features/ --features resnet50 --weights tsn-resnet50-activitynet": Apart(
        "weights that have to be downloaded", 6, "cotrans weights get tsn-resnet50-activitynet"
    ),
    "cotrans weights get mobilenet_v2-imagenet": Apart("a download"),
    "python weights/recipes/make_golf_swing.py classifier.safetensors weights/models/golf-swing.safetensors": Apart(
        "needs the result of hours of training"
    ),
    "python weights/recipes/train_motion.py GOLF/ weights/motion_golf.safetensors --fold none": Apart(
        "clips that are not for redistribution, and hours of training"
    ),
    "python weights/recipes/train_motion.py GOLF/ out/motion_golf.safetensors --fold 1 --seed 0": Apart(
        "clips that are not for redistribution, and hours of training"
    ),
    "python weights/recipes/fit_none_golf.py GOLF/ FOREIGN/ weights/motion_golf.safetensors --threshold -0.5 --store": (
        Apart("clips that are not for redistribution")
    ),
    "cotrans train --dataset folder --root clips/ --features efficientnet_lite0": Apart(
        "the stand-ins for clips are sounds", 3, "has no video track"
    ),
    "cotrans weights get yamnet": Apart("a download"),
    "cotrans extract dog.ogg --features yamnet --output classes --out sounds/": Apart(
        "a network that has to be downloaded", 6, "cotrans weights get yamnet"
    ),
    "cotrans info sounds/dog.npy": Apart("features of a network that has to be downloaded"),
    "cotrans train --dataset folder --root clips/ --features yamnet --window 20 --learning-rate 1e-3": (
        Apart("a network that has to be downloaded", 6, "cotrans weights get yamnet")
    ),
    "cotrans data get gtzan --root GTZAN/": Apart("a download; tests/datasets/test_homes.py does it from this machine"),
    "cotrans weights add vggish-audioset FILE": Apart("the real file, which has to be downloaded", 5, "vggish"),
    "cotrans train --dataset gtzan --root GTZAN/ --features vggish --finetune-extractor --validation 0.18": Apart(
        "weights that have to be downloaded", 6, "cotrans weights get vggish-audioset"
    ),
    "torchrun --nproc-per-node 4 -m cotrans_cli train --dataset thumos14 --root THUMOS14/ --model cooadtr-b2": Apart(
        "four processes at full size; tests/training runs two at a small one"
    ),
    "cotrans stream talk.mp4 --serve 8080": Apart("a port that may be in use; tests/serving takes free ones"),
    "cotrans stream talks/ --model sound-events,objects --serve 8080": Apart("a port that may be in use"),
    "cotrans stream camera:0 mic: --serve 0.0.0.0:8080 --token auto": Apart("a camera, and a port that may be in use"),
    (
        "cotrans evaluate --dataset gtzan --root GTZAN/ --split fault-filtered --engine ray --address 10.0.0.1:6379"
    ): Apart("a cluster; tests/evaluation/test_cluster_runs.py has one"),
    "cotrans extract talks/ --out features/ --features logmel --engine ray --address 10.0.0.1:6379": Apart(
        "a cluster; tests/features/test_extraction_ray.py has one"
    ),
    "torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint 10.0.0.1:29500 "
    "--rdzv-id $SLURM_JOB_ID --max-restarts 3 -m cotrans_cli "
    "train --dataset thumos14 --root THUMOS14/ --model cooadtr-b2 --out runs/big": Apart(
        "two machines; tests/training/test_elastic.py has two nodes on one"
    ),
    "python benchmarks/chunk_training.py --threads 1": Apart("measures for minutes"),
    "python benchmarks/end_to_end.py": Apart("measures for minutes"),
}

SMALL = "-s model.width=16 -s model.heads=2 -s model.feed_forward=16"
# What the test appends, so that a shown training run takes seconds: the model is smaller or the epochs are fewer.
SHORTENED: dict[str, str] = {
    "cotrans train clips/ --out runs/mine": "--epochs 1",
    "cotrans train recordings/ --features logmel --out runs/corrected": "--epochs 1",
    "cotrans train --dataset gtzan --root GTZAN/ --features musicnn --model cotrans-b1 --split fault-filtered": (
        "--epochs 1"
    ),
    "cotrans train --dataset gtzan --root GTZAN/ --features musicnn --model cotrans-b1 --encoding cyclic"
    " --positions 120": "--epochs 1",
    "cotrans train --dataset gtzan --root GTZAN/ --features musicnn --positional relative -s model.embedding=64": (
        "--epochs 1"
    ),
    "cotrans train --dataset gtzan --root GTZAN/ --features musicnn --model miniroad -s model.width=64": (
        "--epochs 1 -s model.embedding=32"
    ),
    "cotrans train --dataset thumos14 --root THUMOS14/ --model oadtr-b2 --class-token 2 --validate-on test": (
        f"--epochs 1 {SMALL}"
    ),
    "cotrans train --recipe weights/recipes/thumos14-i3d.toml --root THUMOS14/ --seeds 3": (
        f"--epochs 1 --seeds 1 {SMALL}"
    ),
    "cotrans train --dataset thumos14 --root THUMOS14/ --model cooadtr-b1 --recipe paper --validate-on test": (
        f"--epochs 1 {SMALL}"
    ),
    "cotrans train --recipe weights/recipes/digits-positions.toml --root DIGITS/ --model trans-b1 --seeds 5": (
        "--epochs 1 --seeds 1"
    ),
    "cotrans train --recipe weights/recipes/gtzan-table.toml --root GTZAN/ --model cotrans-b1 --seeds 5": (
        "--epochs 1 --seeds 1"
    ),
    "cotrans train --recipe weights/recipes/spoken-digits.toml --root DIGITS/ --fold george --seed 1": (
        "--epochs 1 --passes 1"
    ),
    "cotrans train --recipe weights/recipes/sound-events.toml --root ESC10/ --fold 4 --foreign FOREIGN/": "--epochs 1",
    "cotrans train --recipe weights/recipes/sound-events.toml --root ESC10/ --foreign FOREIGN/": "--epochs 1",
    "cotrans train --recipe weights/recipes/music-genre.toml --root GTZAN/ --fold 1 -s data.train_on=train"
    " --foreign FOREIGN/": "--epochs 1",
    "cotrans train --recipe words --root words/": "--epochs 1 --passes 1",
}

# Commands whose shown output must be the real one. (That of others depends on data or on the machine's speed.)
REAL_OUTPUT = (
    "cotrans stream weights/demo/demo.ogg --fast --smooth 1 --segments",
    "cotrans convert tests/golden/oadtr_b1.pth --no-class-token --out oadtr.safetensors",
    "cotrans convert miniroad.pth",
    "cotrans convert lstr.pth --config lstr.yaml",
    "cotrans convert testra_decay.pth --heads 8 --fps 4 --long-seconds 12 --long-rate 4 --work-seconds 2"
    " --no-long-positions --include-work --decay 0.97",
    "cotrans flops lstr.cotrans.safetensors",
    "cotrans convert oadtr_b2.pth --no-class-token --mode deep",
    "cotrans flops --model cooadtr-b1",
    "cotrans models",
)
# Digits of rounding errors, which differ from processor to processor.
ROUNDING = r"largest difference .*"
