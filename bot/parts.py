"""Everything a conversation is made of, built once and shared by all of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bot.escalation import Desk
from bot.keeping import Keeping
from bot.messages import messages
from bot.models import vocabulary
from bot.models.guided import FEELINGS, GuidedModel
from bot.models.protocol import LanguageModel
from bot.moves import Rules
from bot.responding import Responder
from bot.risk import spelling
from bot.risk.clauses import ReadingStage
from bot.risk.guard import Guard
from bot.risk.opinion import Opinion
from bot.risk.replies import ReplyJudge
from bot.risk.screen import Screen
from bot.risk.semantic import SemanticStage
from bot.risk.stages import Stages
from policies import classifiers, crisis, encoder, guidance, questions, thresholds
from policies.attributes import Attribute
from policies.crisis import Directory, cards
from policies.everyday import everyday, tell_of_nothing
from policies.planning import library as libraries
from policies.planning.library import Library
from privacy.gate import Redacts
from privacy.reading import ReadingError, TimedParser

if TYPE_CHECKING:
    from bot.models.openai_api import Endpoint

log = logging.getLogger("raise.parts")


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything a conversation is made of, built once and shared by all sessions.

    Attributes:
        stages: the risk screen; its text stage is never absent.
        parser: for the reading stage, or None.
        opinion: a model's opinion on risk, or None; it can only raise.
        model: understands and composes.
        responder: words.
        guard: checks every sentence out.
        rules: thresholds and the study's attributes.
        clock: aware UTC.
        desk: counts referrals and tells the on-call contact, or None.
        turn_seconds: what a turn's calls to an outside model may take together.
        session_tokens: what an outside model may take for one conversation; None for no cap.
        detector: finds personal data, and gives the reading with it; None only where nothing is kept or sent.
        keeping: consent, store, log and the way out; None where nothing is kept or sent.
        outside: where an outside model is, or None.
        directory: of countries and their lines.
        endpoint: of the outside model, for counts.
        asks_first: nobody is answered before they have agreed to chat (a study).
        is_open: whether people chat now; a study that is over answers with where help is.
        patience: how many times as long as usual every wait may be: more than 1 only where nobody is waiting, so that the
            same conversation comes out whatever else the machine does (a benchmark).
    """

    stages: Stages
    parser: TimedParser | None
    opinion: Opinion | None
    model: LanguageModel
    responder: Responder
    guard: Guard
    rules: Rules
    clock: Callable[[], datetime]
    desk: Desk | None = None
    turn_seconds: float = 20.0
    session_tokens: int | None = None
    detector: Redacts | None = None
    keeping: Keeping | None = None
    outside: Outside | None = None
    directory: Directory = field(default_factory=crisis.shipped, repr=False)
    endpoint: Endpoint | None = None
    asks_first: bool = False
    is_open: Callable[[], bool] = lambda: True
    patience: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """Where an outside model is.

    Attributes:
        host: of its endpoint.
        is_local: it runs on this machine.
    """

    host: str
    is_local: bool


def now() -> datetime:
    """The time, aware UTC."""
    return datetime.now(UTC)


def build_parts(
    *,
    clock: Callable[[], datetime] = now,
    minimum_age: int = 18,
    desk: Desk | None = None,
    on_call: str | None = None,
    alerts_key: str = "alerts_someone",
    endpoint: Endpoint | None = None,
    turn_seconds: float = 20.0,
    session_tokens: int = 0,
    data_dir: Path | None = None,
    detector: Redacts | None = None,
    keeping: Keeping | None = None,
    outside: Outside | None = None,
    library: Path | None = None,
    prices: Mapping[Attribute, float] | None = None,
) -> Parts:
    """Load everything that ships: policies, encoder, classifiers.

    Args:
        clock: aware UTC.
        minimum_age: below it the conversation changes.
        desk: counts referrals and tells the on-call contact.
        on_call: how fast that contact answers, as people read it; None where nobody is told.
        alerts_key: the message that says of what they are told.
        endpoint: of an outside model; the built-in one alone where None.
        turn_seconds: what a turn's calls to it may take together.
        session_tokens: what it may take for one conversation; 0 for no cap.
        data_dir: where an embedded library is looked for.
        detector: finds personal data; it gives the reading too, so that this process need not parse.
        keeping: consent, store, log and the way out.
        outside: where the endpoint is.
        library: planned paths in place of those that ship.
        prices: safety points that asking each attribute must be worth; free where None.

    Raises:
        PolicyError: a policy file, the library or the encoder cannot be used.
    """
    screen = Screen()
    directory = crisis.shipped()
    brain = encoder.built_in()
    brain.know(everyday())
    rules = Rules(thresholds=thresholds.shipped(), prices=prices or {})
    model, opinion = speaking(
        endpoint,
        minimum_age=minimum_age,
        data_dir=data_dir,
        rules=rules,
        planned=libraries.read(library) if library else None,
    )
    if endpoint is not None:
        vocabulary.is_ours("warm up")
    return Parts(
        stages=Stages(
            screen,
            reading=ReadingStage(),
            semantic=SemanticStage(
                brain, classifiers.shipped(), known=everyday(), tell_of_nothing=tell_of_nothing()
            ),
            spelling=spelling.shipped(),
        ),
        parser=_warm_parser() if detector is None else None,
        opinion=opinion,
        model=model,
        responder=Responder(
            guidance.shipped(),
            questions.shipped(),
            directory,
            cards=cards.shipped(),
            on_call=on_call,
            alerts_key=alerts_key,
        ),
        guard=Guard(
            screen,
            directory,
            judge=ReplyJudge(brain, classifiers.shipped()),
            vetted=shipped_lines(),
        ),
        rules=rules,
        clock=clock,
        desk=desk,
        turn_seconds=turn_seconds,
        session_tokens=session_tokens or None,
        detector=detector,
        keeping=keeping,
        outside=outside,
        endpoint=endpoint,
    )


def shipped_lines() -> frozenset[str]:
    """Every line that a reply of the built-in model can be made of, as we ship it."""
    found = guidance.shipped()
    lines = [block.text for block in found.all_blocks()]
    lines += [*FEELINGS.values(), *(text for text in messages().values() if "{" not in text)]
    for group in found.groups.values():
        lines += [*group.acknowledge, group.would_change]
    return frozenset(lines)


def speaking(
    endpoint: Endpoint | None,
    *,
    minimum_age: int,
    data_dir: Path | None,
    rules: Rules,
    planned: Library | None = None,
) -> tuple[LanguageModel, Opinion | None]:
    """Who speaks, and who gives a second opinion on danger.

    Args:
        endpoint: of an outside model; the built-in one alone where None.
        minimum_age: below it the conversation changes.
        data_dir: where an embedded library is looked for.
        rules: of the deployment or the arm.
        planned: paths; those that ship where None.
    """
    brain, planned = encoder.built_in(), planned or libraries.shipped()
    guided = GuidedModel(
        brain,
        minimum_age=minimum_age,
        library=planned,
        cache=data_dir / "embeddings" if data_dir else None,
    )
    if endpoint is None:
        return guided, None
    from bot.models import neighbours  # noqa: PLC0415 (these load the client, a second's wait)
    from bot.models.remote import ModelOpinion, RemoteModel  # noqa: PLC0415
    from bot.models.wording import Meaning  # noqa: PLC0415

    near = neighbours.load(data_dir, endpoint, planned) if data_dir else None
    meaning = Meaning(brain, questions.shipped())
    model = RemoteModel(endpoint, guided, meaning=meaning, neighbours=near, attributes=rules.attributes)
    return model, ModelOpinion(endpoint)


def _warm_parser() -> TimedParser | None:
    """The parser, loaded now so that the first message does not wait; None where it is not installed."""
    parser = TimedParser()
    try:
        parser.warm()
    except ReadingError as missing:
        log.error("no reading stage: %s", missing)
        return None
    return parser
