"""Whether a question that a model has worded still asks what the written one asks, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from policies.attributes import Attribute
from policies.encoder import Encoder
from policies.questions import Question, Questions

LONGEST_LEAD, LONGEST_QUESTION = 22, 34
"""Words; the prompt asks for 20 and 30."""
SAME_MEANING = 0.55
"""Cosine to the nearest phrasing of the same attribute, which must also be the nearest of all. Questions that ask for
something else stay under .5 (a test holds some); of those that fit, some fall under it too and are asked as written."""
AS_WRITTEN = frozenset({Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE})
"""Asked only in the words that were written for it, as trained listeners ask."""

_LEADING = re.compile(
    r"\b(?:surely|obviously|of course|clearly|i assume|i guess|i suppose|you must|you should|isn't it|aren't you|"
    r"don't you|didn't you|haven't you|won't you)\b|\bright\s*\?|\bor not\b",
    re.IGNORECASE,
)
_PROMISE = re.compile(
    r"\b(?:promise|guarantee|secret|confidential|anonymous|private|between us|no ?one (?:will|else)|nobody (?:will|else)|"
    r"i(?:'m| am) here for you|i understand (?:how|exactly)|i (?:feel|know how)|as your|trust me|have to (?:tell|answer))\b",
    re.IGNORECASE,
)


class Meaning:
    """Compares a worded question with the written ones by meaning. Safe to share."""

    def __init__(self, encoder: Encoder, questions: Questions) -> None:
        self._encoder = encoder
        phrasings: list[str] = []
        owners: list[Attribute] = []
        for attribute in Attribute:
            own = dict.fromkeys(p for q in questions.every(attribute) for p in q.phrasings)
            phrasings += own
            owners += [attribute] * len(own)
        self._vectors, self._owners = encoder.encode(phrasings), owners

    def fits(self, lead: str, question: str, written: Question) -> bool:
        """Whether lead and question may stand in place of the written one."""
        if written.attribute in AS_WRITTEN and question not in written.phrasings:
            return False
        if len(lead.split()) > LONGEST_LEAD or len(question.split()) > LONGEST_QUESTION:
            return False
        if "?" in lead or question.count("?") != 1 or not question.rstrip().endswith("?"):
            return False
        if any(mark in lead + question for mark in "<>{}[]|`#*\n"):
            return False
        if _PROMISE.search(lead) or _PROMISE.search(question) or _LEADING.search(question):
            return False
        return self._asks_for(question) == written.attribute

    def _asks_for(self, question: str) -> Attribute | None:
        near: Sequence[float] = (self._vectors @ self._encoder.encode([question])[0]).tolist()
        best = int(np.argmax(near))
        return self._owners[best] if near[best] >= SAME_MEANING else None
