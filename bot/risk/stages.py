"""The stages of the screen, put together: text, then reading, then meaning. Each later one may be missing.

Where words are plainly misspelled, the text stage looks again at the message with them mended, and the semantic stage at
that alone.

The text stage decides alone and first; the reading stage needs a parse, the semantic stage an encoder. A stage that
fails is logged by its kind and left out: what the earlier ones found stands.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bot.risk import state as risk_state
from bot.risk.clauses import ReadingStage
from bot.risk.screen import Screen
from bot.risk.semantic import SemanticStage
from bot.risk.spelling import Speller
from bot.risk.verdict import RiskLevel, RiskState, Verdict
from policies.attributes import Attribute
from privacy.reading import Parser, Reading, ReadingError

SHORT_ANSWER_WORDS = 8
LONGEST_MENDED = 20_000
"""Characters."""

log = logging.getLogger("raise.risk")


class Stages:
    """All stages. Holds nothing between calls; safe to share."""

    def __init__(
        self,
        text: Screen,
        *,
        reading: ReadingStage | None = None,
        semantic: SemanticStage | None = None,
        spelling: Speller | None = None,
    ) -> None:
        self._text, self._reading, self._semantic = text, reading, semantic
        self._spelling = spelling

    def heard(
        self,
        text: str,
        *,
        state: RiskState | None = None,
        answering: Attribute | None = None,
        profile_flags: Iterable[str] = (),
    ) -> Verdict:
        """The text stage alone: the raw text, first, at any length, with nothing but itself."""
        return self._text.screen(text, state=state, answering=answering, profile_flags=profile_flags)

    def deepened(
        self,
        text: str,
        verdict: Verdict,
        *,
        reading: Reading | None,
        state: RiskState | None = None,
        answering: Attribute | None = None,
        recent: Sequence[str] = (),
        always_together: bool = False,
    ) -> Verdict:
        """The verdict of the text stage, with what the parse and the meaning add.

        Args:
            text: the raw text.
            verdict: of the text stage.
            reading: of the text, where there is one.
            state: what stuck from earlier turns.
            answering: the attribute whose question is open, if one is.
            recent: the person's messages before this one; left out where one of them raised the level, which is
                kept in any case.
            always_together: look at them with this one all the same.
        """
        state = state or RiskState()
        mended = self.mended(text)
        if mended != text:
            again = self._text.screen(mended, state=state, answering=answering)
            if again.level.rank > verdict.level.rank:
                verdict = replace(again, flags=again.flags | verdict.flags)
        not_real = bool(verdict.flags & {"not_real", "bereaved", "made_safe"})
        if self._reading is not None and reading is not None:
            try:
                verdict = self._reading.deepen(reading, verdict, not_real="not_real" in verdict.flags)
            except Exception as failed:  # noqa: BLE001 (a second opinion: the text stage has decided)
                log.error("reading stage failed: %s", type(failed).__name__)
        if self._semantic is not None:
            short = (
                answering not in (None, Attribute.SELF_HARM_HISTORY)
                and len(text.split()) < SHORT_ANSWER_WORDS
            )
            try:
                verdict = self._semantic.deepen(
                    mended,
                    verdict,
                    not_real=not_real,
                    is_short_answer=short,
                    recent=recent if always_together or state.level is RiskLevel.NONE else (),
                )
            except Exception as failed:  # noqa: BLE001 (a second opinion)
                log.error("semantic stage failed: %s", type(failed).__name__)
        return verdict

    def mended(self, text: str) -> str:
        """The text with plain misspellings mended, where it is not in another language."""
        if self._spelling is None:
            return text
        try:
            if self._semantic is not None and self._semantic.language(text) not in ("", "en"):
                return text
            return self._spelling.mended(text[:LONGEST_MENDED]) + text[LONGEST_MENDED:]
        except Exception as failed:  # noqa: BLE001 (a second look)
            log.error("spelling failed: %s", type(failed).__name__)
            return text

    def judge(self, text: str, *, history: Sequence[str] = (), parser: Parser | None = None) -> Verdict:
        """The verdict on a message after earlier ones: for files of messages, outside a conversation.

        In a conversation the level that an earlier message raised is kept; here, where nothing is kept, the message is
        looked at together with those before it whatever they raised.
        """
        state = RiskState()
        for number, turn in enumerate(history):
            before = self._judged(turn, state, parser, history[:number])
            state = risk_state.after(state, before, says_safe=False)
        return self._judged(text, state, parser, history)

    def _judged(self, text: str, state: RiskState, parser: Parser | None, recent: Sequence[str]) -> Verdict:
        verdict = self.heard(text, state=state)
        reading = None
        if parser is not None:
            try:
                reading = parser.read(text)
            except ReadingError as failed:
                log.error("no reading: %s", failed)
        return self.deepened(text, verdict, reading=reading, state=state, recent=recent, always_together=True)
