"""A second look at what leaves, by meaning and by letters, beside the guard's patterns. It can only refuse."""

from __future__ import annotations

from bot.risk.normalise import normalise
from policies.classifiers import Trained, ngrams
from policies.encoder import Encoder

WORDS_OF_A_LANGUAGE, SURE_OF_A_LANGUAGE = 5, 0.8
LAST_LATIN = 0x24F
FEWEST_WORDS = 3
"""Shorter pieces are headings and greetings; the patterns see them."""


class ReplyJudge:
    """Trained on harmful and harmless replies that we wrote, and on every text we ship. Safe to share."""

    def __init__(self, encoder: Encoder, trained: Trained) -> None:
        self._encoder = encoder
        self._harm = trained.fused("reply.harm")
        self._language = trained.linear("language")
        self._at: float = trained.meta["reply_threshold"]

    def is_harmful(self, sentence: str) -> bool:
        """Whether it is close to replies that could hurt."""
        return self.probability(sentence) >= self._at

    def is_other_language(self, sentence: str) -> bool:
        """Whether it is plainly in a language that the guard cannot check."""
        letters = [c for c in sentence if c.isalpha()]
        if sum(ord(c) > LAST_LATIN for c in letters) > len(letters) / 5:
            return True
        columns, values = ngrams(normalise(sentence))
        if len(sentence.split()) < WORDS_OF_A_LANGUAGE or not len(values):
            return False
        found = self._language.sparse_probabilities(columns, values)
        best = int(found.argmax())
        return self._language.labels[best] != "en" and float(found[best]) >= SURE_OF_A_LANGUAGE

    def probability(self, sentence: str) -> float:
        """0 to 1."""
        if len(sentence.split()) < FEWEST_WORDS:
            return 0.0
        columns, values = ngrams(normalise(sentence))
        if not len(values):
            return 0.0
        return self._harm.probability(self._encoder.encode([sentence])[0], columns, values)
