"""Five folds of the fault-filtered training and validation clips, to choose settings with the test clips untouched.

The two lists share no artist, and within a genre clips of one artist mostly have neighbouring numbers. So a fold is a
run of neighbours from each genre of one list: three of the training list, two of the validation list. Where two runs
meet, an artist may be on both sides. In blues, where a few artists have all clips, runs end where artists do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FOLDS = {"train": ("1", "2", "3"), "validation": ("4", "5")}  # of the list
# First and last clip of an artist of blues, and the fold of each.
BLUES = ((29, 39, "1"), (40, 49, "2"), (73, 84, "3"), (85, 97, "1"), (0, 11, "4"), (50, 60, "5"))


def fold_of_clips(lists: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The fold of each clip on the two lists."""
    folds: dict[str, str] = {}
    for name, members in FOLDS.items():
        for genre in sorted({clip.partition(".")[0] for clip in lists[name]}):
            clips = sorted(clip for clip in lists[name] if clip.startswith(f"{genre}."))
            # The first runs are the longer ones, by one clip.
            size, longer = divmod(len(clips), len(members))
            begin = 0
            for number, fold in enumerate(members):
                end = begin + size + (number < longer)
                folds.update(dict.fromkeys(clips[begin:end], fold))
                begin = end
    for first, last, fold in BLUES:
        folds.update({clip: fold for clip in folds if clip in {f"blues.{n:05d}" for n in range(first, last + 1)}})
    return folds
