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
SURE_OF_A_PIECE, SURE_OF_THE_WHOLE, SOME_PIECE = 0.9, 0.95, 0.6
SURE_OF_DANGER_IN_A_PIECE, SURE_OF_DANGER_IN_THE_WHOLE, SOME_DANGER_IN_A_PIECE = 0.95, 0.9, 0.5
"""A long message is raised by one sentence that is surer than a whole message must be (each is another chance of a false
alarm), or by the whole where some sentence bears it out: length and sorrow alone look like danger to the encoder."""
SURE_OF_THE_UNREAL = 0.9
SURE_OF_KIND, SURE_ENOUGH_IN_DANGER = 0.65, 0.6
"""Below it the kind of danger is left open, and the words shown name none."""
SURE_OF_LANGUAGE, FEWEST_GRAMS, LONGEST_NAMED = 0.5, 20, 600
FEWEST_WORDS = 4
_LONG, _VERY_LONG, _STRETCH, _STEP = 45, 80, 30, 20
"""Words: of a message that is looked at in pieces too; of one whose whole needs a piece to bear it out; of the stretches
that a sentence without an end is cut into; from one to the next."""
_SENTENCE = re.compile(r"(?<=[.!?\n])\s+")


RECENT, RECENT_CHARACTERS = 2, 300


def together(recent: Sequence[str], text: str) -> str:
    """A message after the ones before it, as one text: some danger is in neither alone."""
    return "\n".join([*(turn[:RECENT_CHARACTERS] for turn in recent[-RECENT:]), text])


def _stretches(words: Sequence[str]) -> Sequence[str]:
    """A sentence, in overlapping stretches where nobody ended it."""
    if len(words) <= _LONG:
        return [" ".join(words)]
    return [" ".join(words[at : at + _STRETCH]) for at in range(0, len(words) - _STRETCH + _STEP, _STEP)]


def pieces(text: str) -> Sequence[str]:
    """What of a message is looked at by itself: the message, and each sentence of a long one."""
    words = text.split()
    if len(words) <= _LONG:
        return [text]
    sentences = [
        part
        for sentence in _SENTENCE.split(text[:20_000])
        for part in _stretches(sentence.split())
        if len(part.split()) >= FEWEST_WORDS
    ]
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
        self._elsewhere_at = at["elsewhere"]

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
        if verdict.language not in ("", "en"):
            surer = max(surer, self._elsewhere_at)
        alone = [] if text in self._harmless else pieces(text)
        looked_at = [*alone]
        if recent and text not in self._tell_of_nothing:
            looked_at.append(together(recent, text))
        vectors = self._encoder.encode(looked_at)
        grams = [ngrams(normalise(piece)) for piece in looked_at]
        any_danger = [self._any.probability(v, *g) for v, g in zip(vectors, grams, strict=True)]
        now = [
            self._imminent.probability(v, *g) if danger >= min(SOME_PIECE, self._elevated_at) else 0.0
            for v, g, danger in zip(vectors, grams, any_danger, strict=True)
        ]
        parts = range(1, len(alone))
        is_very_long = len(text.split()) > _VERY_LONG
        wholes = [number for number in range(len(looked_at)) if number not in parts]
        raised, told_by = RiskLevel.NONE, 0
        if not is_very_long:
            raised, told_by = self._by_the_whole(any_danger, now, wholes, surer)
        if parts:
            more, part = self._by_a_piece(any_danger, now, wholes, parts, surer)
            raised, told_by = (more, part) if more.rank > raised.rank else (raised, told_by)
        if raised is RiskLevel.IMMINENT and is_short_answer:
            raised = RiskLevel.ELEVATED
        if len(alone) == 1 and any_danger[0] < self._elevated_at and not not_real and text in self._known:
            self._harmless.add(text)
        if raised.rank <= verdict.level.rank:
            return verdict
        category, confidence = self._category.best(vectors[told_by])
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

    def _by_the_whole(
        self, any_danger: Sequence[float], now: Sequence[float], wholes: Sequence[int], surer: float
    ) -> tuple[RiskLevel, int]:
        """The level of a message as a whole, alone and after those before it, and which of the two told it."""
        found, told_by = RiskLevel.NONE, 0
        for number in wholes:
            if any_danger[number] < max(self._elevated_at, surer):
                continue
            is_now = now[number] >= max(self._imminent_at, surer)
            level = RiskLevel.IMMINENT if is_now else RiskLevel.ELEVATED
            if level.rank > found.rank:
                found, told_by = level, number
        return found, told_by

    def _by_a_piece(
        self,
        any_danger: Sequence[float],
        now: Sequence[float],
        wholes: Sequence[int],
        parts: Sequence[int],
        surer: float,
    ) -> tuple[RiskLevel, int]:
        """The level of a long message by its sentences, or by the whole borne out by one, and which sentence told it."""
        told_by = max(parts, key=lambda number: any_danger[number])
        whole = max(any_danger[number] for number in wholes)
        by_a_piece = any_danger[told_by] >= max(SURE_OF_A_PIECE, surer)
        by_the_whole = whole >= max(SURE_OF_THE_WHOLE, surer) and any_danger[told_by] >= SOME_PIECE
        if not (by_a_piece or by_the_whole):
            return RiskLevel.NONE, told_by
        of_a_piece, of_the_whole = max(now[number] for number in parts), max(now[n] for n in wholes)
        is_now = of_a_piece >= max(SURE_OF_DANGER_IN_A_PIECE, surer) or (
            of_the_whole >= max(SURE_OF_DANGER_IN_THE_WHOLE, surer) and of_a_piece >= SOME_DANGER_IN_A_PIECE
        )
        return RiskLevel.IMMINENT if is_now else RiskLevel.ELEVATED, told_by

    def language(self, text: str) -> str:
        """ISO 639-1 code of a message by its letters, "" where it is not clear."""
        columns, values = ngrams(normalise(text[:LONGEST_NAMED]))
        if len(values) < FEWEST_GRAMS:
            return ""
        probabilities = self._language.sparse_probabilities(columns, values)
        best = int(probabilities.argmax())
        return self._language.labels[best] if probabilities[best] >= SURE_OF_LANGUAGE else ""
