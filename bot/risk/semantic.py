"""The semantic stage: a second opinion by meaning, beside the rules. It can raise the level and never lower it.

Classifiers on the sentence encoder and on the letters of the text (which know other languages and spellings that the
encoder does not), trained on cases that we wrote. Without an encoder it is absent, and the rules decide alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from bot.risk.normalise import normalise
from bot.risk.verdict import Category, RiskLevel, Verdict, highest
from policies.classifiers import Trained, ngrams
from policies.encoder import Encoder

MOST_SENTENCES = 48
SURE_OF_A_PIECE, SURE_OF_DANGER_IN_A_PIECE = 0.9, 0.985
"""One sentence of many must be surer than a whole message: each is another chance of a false alarm."""
SURE_OF_THE_UNREAL = 0.9
SURE_OF_KIND, SURE_ENOUGH_IN_DANGER = 0.65, 0.6
"""Below it the kind of danger is left open, and the words shown name none."""
SURE_OF_LANGUAGE, FEWEST_GRAMS, LONGEST_NAMED = 0.5, 20, 600
_LONG = 45
_SENTENCE = re.compile(r"(?<=[.!?\n])\s+")


RECENT, RECENT_CHARACTERS = 2, 300


def together(recent: Sequence[str], text: str) -> str:
    """A message after the ones before it, as one text: some danger is in neither alone."""
    return "\n".join([*(turn[:RECENT_CHARACTERS] for turn in recent[-RECENT:]), text])


def pieces(text: str) -> Sequence[str]:
    """What of a message is looked at by itself: the message, and each sentence of a long one."""
    words = text.split()
    if len(words) <= _LONG:
        return [text]
    sentences = [s for s in _SENTENCE.split(text[:20_000]) if len(s.split()) >= 4]
    if len(sentences) > MOST_SENTENCES:
        step = len(sentences) / MOST_SENTENCES
        sentences = [" ".join(sentences[int(i * step) : int((i + 1) * step)]) for i in range(MOST_SENTENCES)]
    return [" ".join(words[:200]), *sentences]


class SemanticStage:
    """Raises a verdict by meaning. Safe to share."""

    def __init__(
        self,
        encoder: Encoder,
        trained: Trained,
        *,
        known: frozenset[str] = frozenset(),
        tell_of_nothing: frozenset[str] = frozenset(),
    ) -> None:
        """Hold the classifiers.

        Args:
            encoder: of sentences.
            trained: classifiers.
            known: texts that are nobody's: one of them that raised nothing by itself is not looked at again.
            tell_of_nothing: texts that add nothing to the messages before them, which were looked at together already.
        """
        self._known, self._tell_of_nothing = known, tell_of_nothing
        self._harmless: set[str] = set()
        self._encoder = encoder
        self._any = trained.fused("risk.any")
        self._imminent = trained.fused("risk.imminent")
        self._language = trained.linear("language")
        self._category = trained.linear("risk_category")
        at: dict[str, float] = trained.meta["risk_thresholds"]
        self._elevated_at, self._imminent_at = at["elevated"], at["imminent"]

    def deepen(
        self,
        text: str,
        verdict: Verdict,
        *,
        not_real: bool,
        is_short_answer: bool = False,
        recent: Sequence[str] = (),
    ) -> Verdict:
        """The verdict, raised where the meaning of the message says so.

        Args:
            text: the raw text.
            verdict: of the text stage.
            not_real: fiction, study or a bereavement is spoken of: the meaning must be surer.
            recent: the messages before it, where none of them raised the level by itself.
            is_short_answer: a few words in answer to a question not about self-harm; too little to call imminent.
        """
        verdict = replace(verdict, language=self.language(text))
        if verdict.level is RiskLevel.IMMINENT:
            return verdict
        surer = SURE_OF_THE_UNREAL if not_real else 0.0
        raised, category = RiskLevel.NONE, ""
        confidence = 0.0
        alone = [] if text in self._harmless else pieces(text)
        looked_at = [(piece, number == 0) for number, piece in enumerate(alone)]
        if recent and text not in self._tell_of_nothing:
            looked_at.append((together(recent, text), True))
        vectors = self._encoder.encode([piece for piece, _ in looked_at])
        for number, ((piece, is_whole), vector) in enumerate(zip(looked_at, vectors, strict=True)):
            level = RiskLevel.NONE
            columns, values = ngrams(normalise(piece))
            needed = self._elevated_at if is_whole else max(self._elevated_at, SURE_OF_A_PIECE)
            needed = max(needed, surer)
            if self._any.probability(vector, columns, values) >= needed:
                least = self._imminent_at if is_whole else max(self._imminent_at, SURE_OF_DANGER_IN_A_PIECE)
                sure = self._imminent.probability(vector, columns, values) >= max(least, surer)
                level = RiskLevel.IMMINENT if sure and not is_short_answer else RiskLevel.ELEVATED
            if level.rank > raised.rank:
                raised = level
                category, confidence = self._category.best(vector)
            if number < len(alone) == 1 and level is RiskLevel.NONE and not surer and text in self._known:
                self._harmless.add(text)
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

    def language(self, text: str) -> str:
        """ISO 639-1 code of a message by its letters, "" where it is not clear."""
        columns, values = ngrams(normalise(text[:LONGEST_NAMED]))
        if len(values) < FEWEST_GRAMS:
            return ""
        probabilities = self._language.sparse_probabilities(columns, values)
        best = int(probabilities.argmax())
        return self._language.labels[best] if probabilities[best] >= SURE_OF_LANGUAGE else ""
