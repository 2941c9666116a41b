"""Options that take one of a few words, wherever they occur."""

from __future__ import annotations

from enum import Enum


class Positional(str, Enum):
    none = "none"
    static = "static"
    recycling = "recycling"
    relative = "relative"
    rope = "rope"
    alibi = "alibi"


class Encoding(str, Enum):
    learned = "learned"
    cyclic = "cyclic"


class Stacking(str, Enum):
    exact = "exact"
    deep = "deep"


class Norm(str, Enum):
    pre = "pre"
    post = "post"


class Precision(str, Enum):
    float32 = "float32"
    float16 = "float16"
    int8 = "int8"


class Activation(str, Enum):
    relu = "relu"
    gelu = "gelu"


class Mode(str, Enum):
    stream = "stream"
    chunk = "chunk"
    window = "window"
    all = "all"


class PlotKind(str, Enum):
    auto = "auto"
    confusion = "confusion"
    macs = "macs"
    timeline = "timeline"
