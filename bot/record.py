"""What the dialogue was told in one turn, as JSON, so that its decisions can be derived again from what was stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bot import dialogue
from bot.abstention import Reason
from bot.moves import Composed, Event, Rules, Said, Silence, Step
from bot.risk.verdict import Category, RiskLevel, Subject, Verdict
from bot.session import Session
from bot.understanding import Assessment, Intent, Understood
from policies.attributes import Answer, Attribute

VERSION = 1


def _verdict(found: Verdict) -> dict[str, Any]:
    return {
        "level": found.level.value, "categories": [c.value for c in found.categories], "subject": found.subject.value,
        "rules": list(found.rules), "flags": sorted(found.flags), "why": found.why,
        "by_combination": found.by_combination, "language": found.language,
    }  # fmt: skip


def _verdict_from(raw: Mapping[str, Any]) -> Verdict:
    return Verdict(
        level=RiskLevel(raw["level"]), categories=tuple(Category(c) for c in raw["categories"]),
        subject=Subject(raw["subject"]), rules=tuple(raw["rules"]), flags=frozenset(raw["flags"]), why=raw["why"],
        by_combination=raw["by_combination"], language=raw["language"],
    )  # fmt: skip


def _understood(found: Understood) -> dict[str, Any]:
    return {
        "intent": found.intent.value, "facts": {a.value: v.to_json() for a, v in found.facts.items()},
        "assessment": found.assessment and found.assessment.to_json(),
        "revised": found.revised and found.revised.to_json(), "is_new_topic": found.is_new_topic,
        "has_nobody": found.has_nobody, "changes_subject": found.changes_subject, "is_minor": found.is_minor,
        "country": found.country,
    }  # fmt: skip


def _understood_from(raw: Mapping[str, Any]) -> Understood:
    return Understood(
        intent=Intent(raw["intent"]), facts={Attribute(a): Answer.from_json(v) for a, v in raw["facts"].items()},
        assessment=raw["assessment"] and Assessment.from_json(raw["assessment"]),
        revised=raw["revised"] and Assessment.from_json(raw["revised"]), is_new_topic=raw["is_new_topic"],
        has_nobody=raw["has_nobody"], changes_subject=raw["changes_subject"], is_minor=raw["is_minor"],
        country=raw["country"],
    )  # fmt: skip


def _event(event: Event) -> dict[str, Any]:
    if isinstance(event, Said):
        return {
            "event": "said", "at": event.at.isoformat(), "text": event.text, "verdict": _verdict(event.verdict),
            "understood": event.understood and _understood(event.understood),
        }  # fmt: skip
    if isinstance(event, Composed):
        return {
            "event": "composed", "at": event.at.isoformat(), "used": [a.value for a in event.used],
            "shown": list(event.shown), "failed": event.failed and event.failed.value,
        }  # fmt: skip
    return {"event": "silence", "at": event.at.isoformat()}


def _event_from(raw: Mapping[str, Any]) -> Event:
    at = datetime.fromisoformat(raw["at"])
    if raw["event"] == "said":
        return Said(
            at=at, text=raw["text"], verdict=_verdict_from(raw["verdict"]),
            understood=raw["understood"] and _understood_from(raw["understood"]),
        )  # fmt: skip
    if raw["event"] == "composed":
        return Composed(
            at=at, used=tuple(Attribute(a) for a in raw["used"]), shown=tuple(raw["shown"]),
            failed=Reason(raw["failed"]) if raw["failed"] else None,
        )  # fmt: skip
    return Silence(at=at)


def told(before: Session, events: Sequence[tuple[Session, Event]]) -> str:
    """One turn's input: the state it began with, and each event with the state it met."""
    return json.dumps(
        {
            "version": VERSION,
            "before": before.to_json(),
            "events": [
                {"met": met.to_json() if met is not before else None, **_event(e)} for met, e in events
            ],
        },
        ensure_ascii=False,
    )


def derived(raw: str, rules: Rules) -> tuple[Step, ...]:
    """The steps that follow from a turn's input, derived anew.

    Raises:
        ValueError: it was written by a version this one does not know.
    """
    turn = json.loads(raw)
    if turn.get("version") != VERSION:
        raise ValueError(f"a turn of version {turn.get('version')!r} cannot be derived by this release")
    before = Session.from_json(turn["before"])
    return tuple(
        dialogue.step(Session.from_json(e["met"]) if e["met"] else before, _event_from(e), rules)
        for e in turn["events"]
    )
