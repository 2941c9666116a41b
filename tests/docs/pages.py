"""What README.md, docs/*.md and the model cards show: commands, Python, options and links."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CARDS = sorted((ROOT / "weights/models").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *CARDS]
PROGRAMS = ("cotrans ", "make ", "python ", "pip ", "torchrun ", "ffmpeg ")
SHELL = re.compile(r"[|<>&;*$]|^[A-Z_]+=")


@dataclass(frozen=True)
class Shown:
    """One piece of a page: a command line, or a block of Python."""

    page: str
    line: int  # from 1
    text: str
    language: str = "shell"
    output: tuple[str, ...] = ()  # the lines below a command, up to the next one

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def needs_shell(self) -> bool:
        return SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", self.text)) is not None

    @property
    def words(self) -> list[str]:
        return shlex.split(self.text)


@dataclass(frozen=True)
class Block:
    """Lines of a page that are not prose: fenced, or indented by four."""

    page: str
    line: int
    language: str
    lines: tuple[str, ...]


def page_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> Iterator[Block]:
    """Fenced blocks (by their language) and indented ones (language "")."""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        begin = number
        if fence := re.match(r"\s*```(\w*)", lines[number]):
            number += 1
            while not lines[number].lstrip().startswith("```"):
                number += 1
            yield Block(page_name(path), begin + 2, fence[1], tuple(lines[begin + 1 : number]))
        elif lines[number].startswith("    ") and (begin == 0 or not lines[begin - 1].strip()):
            while number < len(lines) and (lines[number].startswith("    ") or not lines[number].strip()):
                number += 1
            yield Block(page_name(path), begin + 1, "", tuple(line[4:] for line in lines[begin:number]))
            continue
        number += 1


def commands(path: Path) -> list[Shown]:
    """Every command line that the page shows, in order, without remarks; continued lines are one."""
    found = []
    for block in blocks(path):
        if block.language not in ("", "console", "text", "sh", "bash", "shell"):
            continue
        prompt = block.language in ("console", "text")
        number = 0
        while number < len(block.lines):
            begin, text = number, block.lines[number].strip()
            while text.endswith("\\"):
                number += 1
                text = f"{text[:-1].rstrip()} {block.lines[number].strip()}"
            number += 1
            if prompt:
                if not text.startswith("$ "):
                    continue
                text = text[2:]
            elif not text.startswith(PROGRAMS):
                continue
            below = itertools.takewhile(lambda line: not line.startswith("$ "), block.lines[number:] if prompt else ())
            text = re.sub(r"\s+#\s.*$", "", text).strip()
            found.append(Shown(block.page, block.line + begin, text, output=tuple(below)))
    return found


def everything(path: Path) -> list[Shown]:
    """The page's commands and blocks of Python, in order. Model cards have their commands in a table."""
    programs = [
        Shown(block.page, block.line, "\n".join(block.lines), "python")
        for block in blocks(path)
        if block.language == "python"
    ]
    tabled = [shown for shown in inline_code(path) if shown.text.startswith(PROGRAMS)] if path in CARDS else []
    return sorted([*commands(path), *programs, *tabled], key=lambda shown: shown.line)


def inline_code(path: Path) -> Iterator[Shown]:
    """Every `…` in prose and tables."""
    inside = False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif not inside and not line.startswith("    "):
            for match in re.finditer(r"`([^`]+)`", line):
                yield Shown(page_name(path), number, match[1])


def links(path: Path) -> Iterator[Shown]:
    """Targets of links and pictures that are not on the internet, without their anchors."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for match in re.finditer(r"\]\(([^)\s]+)\)", line):
            if not re.match(r"[a-z]+:", match[1]):
                yield Shown(page_name(path), number, match[1])
