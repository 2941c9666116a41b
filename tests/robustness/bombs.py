"""Files of less than a megabyte that ask for much more, by the kind of reader (see `costs`)."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np

from tests.robustness.hostile_pickles import as_archive, as_legacy, as_pickle
from tests.untrusted.test_pickle_bounds import ATTACKS

MEGABYTE = 1_000_000


def programs() -> dict[str, bytes]:
    """Pickles that would take all memory or time."""
    long_text = b"X" + struct.pack("<I", 200_000) + b"a" * 200_000
    encode = b"c_codecs\nencode\nq\x00" + long_text + b"X\x06\x00\x00\x00latin1\x86q\x01"
    fields = b"}(" + b"".join(b"X\x05\x00\x00\x00" + b"%05d" % number + b"N" for number in range(20_000)) + b"uq\x01"
    raw = pickle.dumps(np.zeros(50_000, np.uint8), 2)[:-1]
    return {
        **{name: attack() for name, attack in ATTACKS.items()},
        "repeated text": b"\x80\x02" + encode + b"h\x00h\x01R" * 150_000 + b".",
        "repeated state": b"\x80\x02" + fields + b"cargparse\nNamespace\n)\x81" + b"h\x01b" * 200_000 + b".",
        "repeated arrays": b"\x80\x02" + raw[2:] + b"q\xff" * 12 + b"h\x03b" * 100 + b".",
        "many lists": b"\x80\x02(" + b"]" * 900_000 + b"t.",
        "many sets": b"\x80\x04(" + b"\x8f" * 900_000 + b"l.",
        "many numbers": b"\x80\x02](" + b"K\x01" * 450_000 + b"e.",
        "many dictionaries": b"\x80\x02(" + b"}" * 900_000 + b"l.",
    }


def _zipped(name: str, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


def _npy(count: int, told: int | None = None) -> bytes:
    """Zeros; told: how many the header says there are."""
    header = str({"descr": "<f4", "fortran_order": False, "shape": (told or count,)}).encode()
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(4 * count)


def write_bombs(folder: Path) -> dict[str, list[Path]]:
    """Files by the kind of reader that is to refuse them, or to read them cheaply."""
    bombs: dict[str, list[Path]] = {"pth": [], "pickle": [], "zipped pickle": []}
    for number, program in enumerate(programs().values()):
        bombs["pickle"].append(as_pickle(program, folder / f"{number}.pickle"))
        bombs["pth"] += [as_archive(program, folder / f"{number}.pth"), as_legacy(program, folder / f"{number}l.pth")]

    def write(kind: str, name: str, data: bytes) -> None:
        (folder / name).write_bytes(data)
        bombs.setdefault(kind, []).append(folder / name)

    zeros = pickle.dumps({"v": {"anno": np.zeros(200 << 20, np.uint8)}}, 4)
    write("zipped pickle", "big.zip", _zipped("a.pickle", zeros))
    write("npz predictions", "big.npz", _zipped("scores.npy", _npy(50_000_000)))
    write("npz predictions", "told.npz", _zipped("scores.npy", _npy(10, 1 << 40)))
    write("weights", "big.npz", _zipped("a.npy", _npy(50_000_000)))
    write("npy", "told.npy", _npy(10, 1 << 40))
    write("npy", "nested.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 9000) + b"(" * 8999 + b"\n")
    write("manifest", "deep.json", b"[" * 900_000)
    write("manifest", "digits.json", b'{"format": "cotrans-features", "version": ' + b"9" * 900_000 + b"}")
    write("labels", "labels.json", b"[" + b'"a",' * 200_000 + b'"b"]')
    write("toml", "deep.toml", b"a = " + b"[" * 900_000)
    write("toml", "digits.toml", b"a = " + b"9" * 900_000)
    write("toml", "tables.toml", b"".join(b"[a%d]\n" % number for number in range(80_000)))
    write("yaml", "deep.yaml", b"a: " + b"[" * 900_000)
    write("yaml", "alias.yaml", b"a: &a [x,x]\n" + b"".join(b"b%d: *a\n" % number for number in range(50_000)))
    write("checkpoint", "header.safetensors", struct.pack("<Q", 1 << 62) + b"{")
    return bombs
