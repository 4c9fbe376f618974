"""The semantic stage: a second opinion by meaning, beside the rules. It can raise the level and never lower it.

A classifier on the sentence encoder, trained on cases that we wrote. Without an encoder it is absent, and the rules
decide alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from bot.risk.verdict import Category, RiskLevel, Verdict, highest
from policies.classifiers import Trained
from policies.encoder import Encoder

MOST_SENTENCES = 48
SURE_OF_A_PIECE, SURE_OF_DANGER_IN_A_PIECE = 0.9, 0.985
"""One sentence of many must be surer than a whole message: each is another chance of a false alarm."""
SURE_OF_KIND, SURE_ENOUGH_IN_DANGER = 0.65, 0.45
"""Below it the kind of danger is left open, and the words shown name none."""
_LONG = 45
_SENTENCE = re.compile(r"(?<=[.!?\n])\s+")


class SemanticStage:
    """Raises a verdict by meaning. Safe to share."""

    def __init__(self, encoder: Encoder, trained: Trained) -> None:
        self._encoder = encoder
        self._any = trained.kernel("risk.any")
        self._imminent = trained.kernel("risk.imminent")
        self._category = trained.linear("risk_category")
        at: dict[str, float] = trained.meta["risk_thresholds"]
        self._elevated_at, self._imminent_at = at["elevated"], at["imminent"]

    def deepen(
        self, text: str, verdict: Verdict, *, not_real: bool, is_short_answer: bool = False
    ) -> Verdict:
        """The verdict, raised where the meaning of the message says so.

        Args:
            text: the raw text.
            verdict: of the text stage.
            not_real: fiction, research or a quotation, which the rules have judged.
            is_short_answer: a few words in answer to a question not about self-harm; too little to call imminent.
        """
        if verdict.level is RiskLevel.IMMINENT or not_real:
            return verdict
        raised, category = RiskLevel.NONE, ""
        confidence = 0.0
        pieces = self._pieces(text)
        for number, vector in enumerate(self._encoder.encode(pieces)):
            level = RiskLevel.NONE
            needed = self._elevated_at if number == 0 else max(self._elevated_at, SURE_OF_A_PIECE)
            if self._any.probability(vector) >= needed:
                least = (
                    self._imminent_at if number == 0 else max(self._imminent_at, SURE_OF_DANGER_IN_A_PIECE)
                )
                sure = self._imminent.probability(vector) >= least
                level = RiskLevel.IMMINENT if sure and not is_short_answer else RiskLevel.ELEVATED
            if level.rank > raised.rank:
                raised = level
                category, confidence = self._category.best(vector)
        if raised.rank <= verdict.level.rank:
            return verdict
        needed = SURE_OF_KIND if raised is RiskLevel.ELEVATED else SURE_ENOUGH_IN_DANGER
        kind = (Category(category),) if confidence >= needed else ()
        categories = (*kind, *(c for c in verdict.categories if c not in kind))
        return replace(
            verdict,
            level=highest(raised, verdict.level),
            flags=verdict.flags | ({"ideation"} if kind == (Category.SUICIDE,) else frozenset()),
            categories=categories,
            rules=(*verdict.rules, f"meaning-{raised.value}"),
            why="close in meaning to messages of people in danger",
        )

    @staticmethod
    def _pieces(text: str) -> Sequence[str]:
        words = text.split()
        if len(words) <= _LONG:
            return [text]
        sentences = [s for s in _SENTENCE.split(text[:20_000]) if len(s.split()) >= 4]
        if len(sentences) > MOST_SENTENCES:
            step = len(sentences) / MOST_SENTENCES
            sentences = [
                " ".join(sentences[int(i * step) : int((i + 1) * step)]) for i in range(MOST_SENTENCES)
            ]
        return [" ".join(words[:200]), *sentences]
