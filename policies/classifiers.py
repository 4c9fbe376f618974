"""The small classifiers that `scripts/train.py` trains from our own lines, and their arithmetic.

Weights live in `policies/trained/guided.npz`, arrays only, no code. Inference needs numpy alone.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from policies.encoder import Vectors
from policies.errors import PolicyFileError

BUCKETS = 1 << 15
"""Hash buckets of the character and word n-grams."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A linear classifier on unit vectors: softmax over exclusive labels, or one sigmoid a label.

    Attributes:
        labels: one a row.
        weights: shape (labels, width).
        bias: shape (labels,).
        exclusive: softmax when True.
    """

    labels: tuple[str, ...]
    weights: Floats = field(repr=False)
    bias: Floats = field(repr=False)
    exclusive: bool

    def probabilities(self, vector: Vectors) -> Floats:
        """Probabilities, shape (labels,), for one vector of shape (width,)."""
        return self._squash(self.weights @ vector + self.bias)

    def sparse_probabilities(self, columns: NDArray[np.int64], values: Floats) -> Floats:
        """The same for a sparse vector given by its columns and values."""
        return self._squash(self.weights[:, columns] @ values + self.bias)

    def sparse_score(self, columns: NDArray[np.int64], values: Floats) -> float:
        """The signed distance of the first row, for a sparse vector."""
        return float(self.weights[0, columns] @ values + self.bias[0])

    def _squash(self, scores: Floats) -> Floats:
        if self.exclusive:
            raised = np.exp(scores - scores.max())
            return np.asarray(raised / raised.sum(), dtype=np.float32)
        return np.asarray(1.0 / (1.0 + np.exp(-scores)), dtype=np.float32)

    def best(self, vector: Vectors) -> tuple[str, float]:
        """The most likely label and its probability."""
        found = self.probabilities(vector)
        i = int(found.argmax())
        return self.labels[i], float(found[i])


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A support vector machine with a radial kernel and a sigmoid, for one label against the rest.

    Attributes:
        vectors: support vectors, shape (n, width), unit length.
        weights: dual coefficients, shape (n,).
        bias: of the decision function.
        gamma: of the kernel exp(-gamma |x - y|^2).
    """

    vectors: Vectors = field(repr=False)
    weights: Floats = field(repr=False)
    bias: float
    gamma: float

    def score(self, vector: Vectors) -> float:
        """The signed distance of one unit vector."""
        near = np.exp(self.gamma * (2.0 * (self.vectors @ vector) - 2.0))
        return float(self.weights @ near) + self.bias


@dataclass(frozen=True, slots=True, kw_only=True)
class Fused:
    """Two views of a text, its meaning and its letters, fused into one probability.

    Attributes:
        meaning: on the encoder's vector.
        letters: on hashed n-grams; one row.
        slopes: of the sigmoid, one a view (fitted on cross-validated scores).
        offset: of the sigmoid.
    """

    meaning: Kernel
    letters: Linear
    slopes: tuple[float, float]
    offset: float

    def probability(self, vector: Vectors, columns: NDArray[np.int64], values: Floats) -> float:
        """Of the label, for one text given by its unit vector and its n-grams."""
        seen = self.slopes[0] * self.meaning.score(vector)
        seen += self.slopes[1] * self.letters.sparse_score(columns, values)
        return float(1.0 / (1.0 + np.exp(-(seen + self.offset))))


def ngrams(text: str) -> tuple[NDArray[np.int64], Floats]:
    """Hashed word 1-2-grams and within-word character 3-5-grams, sublinear and normalised: (columns, values)."""
    words = re.findall(r"[a-z0-9']+", text.lower()[:4000])
    counts: dict[int, float] = {}

    def add(key: str) -> None:
        column = zlib.crc32(key.encode()) % BUCKETS
        counts[column] = counts.get(column, 0.0) + 1.0

    for i, word in enumerate(words):
        add("w " + word)
        if i:
            add("w " + words[i - 1] + " " + word)
        padded = f" {word} "
        for size in (3, 4, 5):
            for start in range(len(padded) - size + 1):
                add(padded[start : start + size])
    if not counts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    columns = np.fromiter(counts, dtype=np.int64)
    values = 1.0 + np.log(np.fromiter(counts.values(), dtype=np.float32))
    return columns, np.asarray(values / np.linalg.norm(values), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Trained:
    """Every trained array, by name, and what they were trained on."""

    arrays: dict[str, Any] = field(repr=False)
    meta: dict[str, Any]

    def linear(self, name: str) -> Linear:
        """A classifier by name.

        Raises:
            PolicyFileError: the file holds none of that name.
        """
        try:
            about = self.meta["linear"][name]
            weights = self.arrays[name + ".weights"].astype(np.float32)
            bias = self.arrays[name + ".bias"].astype(np.float32)
        except KeyError as missing:
            raise PolicyFileError(
                f"guided.npz holds no classifier {name!r}; rebuild it with 'make train'"
            ) from missing
        return Linear(labels=tuple(about["labels"]), weights=weights, bias=bias, exclusive=about["exclusive"])

    def kernel(self, name: str) -> Kernel:
        """A kernel classifier by name.

        Raises:
            PolicyFileError: the file holds none of that name.
        """
        try:
            about = self.meta["kernel"][name]
            return Kernel(
                vectors=self.vectors(about["vectors"])[self.arrays[name + ".rows"]],
                weights=self.arrays[name + ".weights"].astype(np.float32),
                bias=about["bias"],
                gamma=about["gamma"],
            )
        except KeyError as missing:
            raise PolicyFileError(
                f"guided.npz holds no classifier {name!r}; rebuild it with 'make train'"
            ) from missing

    def fused(self, name: str) -> Fused:
        """A fused classifier by name.

        Raises:
            PolicyFileError: the file holds none of that name.
        """
        meaning, letters = self.kernel(name), self.linear(f"{name}.letters")
        about = self.meta["kernel"][name]
        first, second = about["slopes"]
        return Fused(meaning=meaning, letters=letters, slopes=(first, second), offset=about["offset"])

    def vectors(self, name: str) -> Vectors:
        """A stored matrix of unit vectors by name."""
        found = np.asarray(self.arrays[name], dtype=np.float32)
        return found * self.arrays[name + ".scale"] if name + ".scale" in self.arrays else found


def load(path: Path) -> Trained:
    """Read a trained file.

    Raises:
        PolicyFileError: it is missing or damaged.
    """
    try:
        with np.load(path, allow_pickle=False) as raw:
            arrays = {name: raw[name] for name in raw.files}
        meta = json.loads(bytes(arrays.pop("meta")).decode())
    except (OSError, ValueError, KeyError) as bad:
        raise PolicyFileError(f"{path}: cannot be read; rebuild it with 'make train'") from bad
    return Trained(arrays, meta)


@lru_cache(maxsize=1)
def shipped() -> Trained:
    """The trained file that ships."""
    return load(Path(str(resources.files("policies") / "trained" / "guided.npz")))
