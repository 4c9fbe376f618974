"""What comes into a turn and what goes out of it: events, moves, effects, and the step that holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bot.abstention import Decision, Reason
from bot.risk.verdict import Verdict
from bot.session import Session, Topic
from bot.understanding import Understood
from policies.attributes import Attribute
from policies.domains import Domain, Stakes
from policies.thresholds import Thresholds

AFTER_OFFERS = ("im_safe", "no_pickup", "cannot_talk", "wont_call")
"""Quick replies under a card of danger: one tap needs less than words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The person said or chose something.

    Attributes:
        at: when, aware UTC.
        text: what they said; kept only as the query of a topic.
        verdict: what the risk screen found.
        understood: what was read from it; None when it was not read, as under imminent risk.
    """

    at: datetime
    text: str = field(repr=False)
    verdict: Verdict
    understood: Understood | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Composed:
    """An answer was composed and passed the guard, or failed it.

    Attributes:
        at: when, aware UTC.
        used: the attributes that shaped it.
        shown: ids of the guidance it was composed from.
        failed: why there is no answer, or None.
    """

    at: datetime
    used: tuple[Attribute, ...] = ()
    shown: tuple[str, ...] = ()
    failed: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Nothing came for a while after a crisis card.

    Attributes:
        at: when, aware UTC.
    """

    at: datetime


Event = Said | Composed | Silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """Words that are neither question, answer nor abstention.

    Attributes:
        key: which message.
        noted: attributes whose answers it echoes.
        with_resources: show crisis resources beside it.
        offers: keys of quick replies that go on from here.
    """

    key: str
    noted: tuple[Attribute, ...] = ()
    with_resources: bool = False
    offers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One of the ten attributes is asked for.

    Attributes:
        attribute: which.
        variant: which of its phrasings, counted without end and taken modulo.
        domain: whose wording.
        sufficiency: 0 to 5, before the answer.
        reason: always insufficient_context.
    """

    attribute: Attribute
    variant: int
    domain: Domain
    sufficiency: float
    reason: Reason = Reason.INSUFFICIENT_CONTEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMove:
    """The composed answer is shown."""

    domain: Domain
    stakes: Stakes
    sufficiency: float
    decision: Decision
    used: tuple[Attribute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstainMove:
    """No answer: the reason is said kindly, and people to turn to are shown.

    Attributes:
        reason: machine-readable.
        key: which message.
        domain: of the question, life where none was put.
        group: scenario group of the question, for the right kind of human help; "" where none was put.
        is_crisis: crisis resources rather than human help for the topic.
        lines_shown: an earlier move of this turn lists them already.
        offers: keys of quick replies that go on from here.
        smaller: which of the ever smaller next steps it ends with.
        kind: whose danger the next steps are for; see `STEPS_FOR`.
    """

    reason: Reason
    key: str
    domain: Domain
    group: str
    sufficiency: float
    stakes: Stakes
    is_crisis: bool
    lines_shown: bool = False
    offers: tuple[str, ...] = ()
    smaller: int = 0
    kind: str = "self"


Move = Say | Ask | AnswerMove | AbstainMove


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """Effect: compose and guard an answer, then come back with `Composed`."""

    topic: Topic
    decision: Decision
    follow_up: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event led to."""

    session: Session
    moves: tuple[Move, ...]
    effects: tuple[Compose, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a deployment or study fixes."""

    thresholds: Thresholds
    attributes: frozenset[Attribute] = frozenset(Attribute)
    prices: Mapping[Attribute, float] = field(default_factory=dict)
