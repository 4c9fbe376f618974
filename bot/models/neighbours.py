"""Planned paths found by an endpoint's embeddings: the role *embed*.

The library's queries are embedded once (`raise-chat models embed`), in batches, so that a run that was cut goes on where
it was. A question is then embedded as it is asked; where that fails, the built-in encoder's neighbours stand.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from bot.models.openai_api import Endpoint, ModelFailure
from bot.models.usage import Budget, Role
from bot.understanding import Assessment
from policies.domains import Stakes
from policies.encoder import Vectors
from policies.planning.library import Entry, Library
from policies.planning.retrieval import Retrieval

BATCH = 128
EMBED_SECONDS, BATCH_SECONDS = 2.0, 60.0

log = logging.getLogger("raise.model")


def vectors_file(folder: Path, model: str, entries: Sequence[Entry]) -> Path:
    """Where the vectors of these queries by this model are kept; another model or library has another file."""
    made = hashlib.sha256(model.encode())
    for entry in entries:
        made.update(b"\0" + entry.query.encode())
    return folder / "embeddings" / f"{made.hexdigest()[:20]}.npy"


async def embed_library(
    endpoint: Endpoint,
    folder: Path,
    entries: Sequence[Entry],
    *,
    progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> Path:
    """Embed every planned query; goes on where an earlier run was cut.

    Raises:
        ModelFailure: a batch failed; what was done before is kept.
    """
    path = vectors_file(folder, endpoint.model(Role.EMBED), entries)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part.npy")
    done = np.load(part, allow_pickle=False) if part.exists() else np.zeros((0, 0), dtype=np.float32)
    while len(done) < len(entries):
        batch = [entry.query for entry in entries[len(done) : len(done) + BATCH]]
        new = _unit(
            np.array(
                await endpoint.embedded(batch, Budget(seconds=BATCH_SECONDS, is_ours=True)), dtype=np.float32
            )
        )
        done = np.concatenate([done, new]) if len(done) else new
        np.save(part, done)
        progress(len(done), len(entries))
    part.replace(path)
    return path


def load(folder: Path, endpoint: Endpoint, library: Library) -> Neighbours | None:
    """What was embedded for this model and library, or None where nothing was."""
    path = vectors_file(folder, endpoint.model(Role.EMBED), library.entries)
    if not endpoint.plays(Role.EMBED):
        return None
    if not path.exists():
        log.warning("the library is not embedded for this model; 'raise-chat models embed' does it")
        return None
    vectors = np.load(path, allow_pickle=False)
    return Neighbours(endpoint, Retrieval(library, vectors, by=endpoint.model(Role.EMBED)), vectors.shape[1])


class Neighbours:
    """Weighs attributes by the planned queries nearest to a question, as the endpoint's embeddings see it."""

    def __init__(self, endpoint: Endpoint, retrieval: Retrieval, width: int) -> None:
        """Hold the planned queries as the endpoint embeds them, in vectors of this width."""
        self._endpoint, self._retrieval, self._width = endpoint, retrieval, width

    async def weighed(self, query: str, local: Assessment, budget: Budget) -> Assessment:
        """The assessment with half of its weights from these neighbours; unchanged where the endpoint fails."""
        if local.stakes is Stakes.LOW:
            return local
        try:
            found = await self._endpoint.embedded([query], budget.share(EMBED_SECONDS))
        except ModelFailure:
            return local
        vector = _unit(np.array(found, dtype=np.float32))[0]
        if vector.shape[0] != self._width:
            log.error("embeddings have changed their width; embed the library again")
            return local
        nearby = self._retrieval.policy_for(vector, domain=local.domain, sure=local.confidence)
        planned = nearby.shares
        both = {
            a: 0.5 * local.weights.get(a, 0.0) + 0.5 * planned.get(a, 0.0)
            for a in {**local.weights, **planned}
        }
        ranked = sorted(both.items(), key=lambda item: (-item[1], item[0]))[: max(1, len(local.weights))]
        total = sum(w for _, w in ranked) or 1.0
        weights = {a: w / total for a, w in ranked}
        return replace(
            local, weights=weights, policy=nearby.policy.shared_out(weights), planned_by=nearby.source.value
        )


def _unit(rows: Vectors) -> Vectors:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), dtype=np.float32)
