"""The VGGish network under the parameter names of torchvggish, and its PCA post-processing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from pipelines.errors import CheckpointError
from pipelines.features.audio.torchvggish_parts import parameters, post_processor

FRAMES = 96  # frames in one example, 10 ms apart
BANDS = 64
PENULTIMATE = 4096
EMBEDDING = 128
BLOCKS = ((64,), (128,), (256, 256), (512, 512))  # widths of the convolutions before each 2 × 2 pooling


class Vggish(nn.Module):
    """Six 3 × 3 convolutions with four poolings, then three dense layers."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 1
        for widths in BLOCKS:
            for width in widths:
                layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
                inputs = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        flat = inputs * (FRAMES // 2 ** len(BLOCKS)) * (BANDS // 2 ** len(BLOCKS))
        self.embeddings = nn.Sequential(
            nn.Linear(flat, PENULTIMATE),
            nn.ReLU(),
            nn.Linear(PENULTIMATE, PENULTIMATE),
            nn.ReLU(),
            nn.Linear(PENULTIMATE, EMBEDDING),
            nn.ReLU(),
        )

    def flat(self, examples: Tensor) -> Tensor:
        """(rows, 96, 64) log-mel examples to (rows, 12288), ordered time, band, channel as in TensorFlow."""
        maps: Tensor = self.features(examples[:, None])
        return maps.permute(0, 2, 3, 1).flatten(1)

    def penultimate(self, flat: Tensor) -> Tensor:
        """(rows, 12288) to (rows, 4096): the second dense layer after its ReLU."""
        rows: Tensor = self.embeddings[:4](flat)
        return rows

    def embedding(self, penultimate: Tensor) -> Tensor:
        """(rows, 4096) to (rows, 128); torchvggish has a ReLU here, too."""
        rows: Tensor = self.embeddings[4:](penultimate)
        return rows

    def forward(self, examples: Tensor) -> Tensor:
        """(rows, 96, 64) to (rows, 128)."""
        return self.embedding(self.penultimate(self.flat(examples)))


@dataclass(frozen=True, eq=False)
class PcaParameters:
    """Whitening and 8-bit quantisation, as in the released AudioSet embeddings."""

    eigen_vectors: Tensor  # (128, 128), one per row
    means: Tensor  # (128,)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], where: str) -> PcaParameters:
        """Names and shapes as in torchvggish's and in Google's files."""
        theirs = parameters()
        try:
            vectors = state[theirs.PCA_EIGEN_VECTORS_NAME].float()
            means = state[theirs.PCA_MEANS_NAME].float().flatten()
        except KeyError as error:
            raise CheckpointError(f"{where} has no {error}: it is not a file of VGGish PCA parameters") from error
        if vectors.shape != (EMBEDDING, EMBEDDING) or means.shape != (EMBEDDING,):
            raise CheckpointError(f"the PCA parameters in {where} are not for {EMBEDDING} numbers per row")
        return cls(vectors, means)

    def __call__(self, embedding: Tensor) -> Tensor:
        """(rows, 128) to (rows, 128) whole numbers from 0 to 255, by torchvggish."""
        numbers: Tensor = post_processor(self.eigen_vectors, self.means).postprocess(embedding)
        return numbers.reshape(len(embedding), EMBEDDING)  # torchvggish squeezes a single row
