"""Turning moves into words: resources for a country, the guarded answer, and every text a person reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.abstention import Reason
from bot.dialogue import AbstainMove, AnswerMove, Ask, Move, Say, Session
from bot.messages import crisis_texts, messages
from bot.risk.verdict import Category, RiskLevel
from policies.attributes import SPECS, Attribute, Standing
from policies.crisis import CrisisResource, Directory
from policies.domains import Stakes
from policies.guidance import Guidance
from policies.questions import Questions

_HEARD = (
    "plan", "current_thoughts", "recent_self_harm", "past_attempt", "past_self_harm", "past_thoughts", "none",
)  # fmt: skip
_ALREADY_KIND = ("that's", "that is", "no problem", "of course", "fine", "all right")
MOST_LINES = 3
"""Lines shown at once: enough to choose from, few enough to read in distress."""

_AUDIENCES: dict[Category, tuple[str, ...]] = {
    Category.SUICIDE: ("general",),
    Category.SELF_INJURY: ("general",),
    Category.HARM_TO_OTHERS: ("general",),
    Category.DOMESTIC_VIOLENCE: ("domestic-violence", "general"),
    Category.CHILD_ABUSE: ("youth", "general"),
    Category.SEXUAL_EXPLOITATION: ("sexual-violence", "general"),
    Category.MEDICAL_EMERGENCY: (),
    Category.EATING_DISORDER: ("eating-disorder", "general"),
    Category.PSYCHOSIS: ("general",),
    Category.SUBSTANCE: ("substance", "general"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A move as a person sees it.

    Attributes:
        move: "say", "ask", "answer" or "abstain".
        text: markdown without links of its own.
        attribute: asked, for an ask.
        choices: quick replies, the two that every question has included.
        why: the reason for asking.
        resources: lines, directories and human help shown with it.
        parts: the text in the pieces it is streamed in.
        fields: the machine-readable rest: domain, stakes, sufficiency, reason, used, decision.
    """

    move: str
    text: str = field(repr=False)
    attribute: Attribute | None = None
    choices: tuple[str, ...] = ()
    why: str = ""
    resources: tuple[dict[str, Any], ...] = ()
    parts: tuple[str, ...] = field(default=(), repr=False)
    fields: dict[str, Any] = field(default_factory=dict)

    def to_json(self, turn: int) -> dict[str, Any]:
        """The line that `chat --json` writes; only what applies."""
        raw: dict[str, Any] = {"turn": turn, "move": self.move, "text": self.text}
        if self.attribute is not None:
            raw["attribute"] = self.attribute.value
        if self.choices:
            raw["choices"] = list(self.choices)
        if self.why:
            raw["why"] = self.why
        raw.update(self.fields)
        if self.resources:
            raw["resources"] = list(self.resources)
        return raw


class Responder:
    """Words for moves. Holds policy texts only; safe to share."""

    def __init__(self, guidance: Guidance, questions: Questions, directory: Directory) -> None:
        self._guidance = guidance
        self._questions = questions
        self._directory = directory
        self._say = messages()
        self._crisis = crisis_texts()

    # ------------------------------------------------------------------------------------------- moves

    def render(
        self, move: Move, session: Session, *, answer: Sequence[str] = (), in_words: bool = True
    ) -> Words:
        """The words of one move.

        Args:
            move: what the dialogue decided.
            session: the state after it.
            answer: the guarded sentences, for an answer.
            in_words: echo what was understood in the person's words; off where those may not be shown.
        """
        if isinstance(move, Ask):
            return self._ask(move, session)
        if isinstance(move, Say):
            return self._said(move, session, in_words=in_words)
        if isinstance(move, AnswerMove):
            return self._answer(move, session, answer)
        return self._abstain(move, session)

    def _ask(self, move: Ask, session: Session) -> Words:
        question = self._questions.worded(move.attribute, move.domain, _confidence(session))
        return Words(
            move="ask",
            text=question.phrasing(move.variant),
            attribute=move.attribute,
            choices=(*(c.label for c in question.choices), self._say["prefer_not"], self._say["dont_know"]),
            why=question.why,
            fields={
                "domain": move.domain.value,
                "stakes": session.topic.assessment.stakes.value if session.topic else Stakes.HIGH.value,
                "sufficiency": move.sufficiency,
                "reason": move.reason.value,
            },
        )

    def _said(self, move: Say, session: Session, *, in_words: bool) -> Words:
        noted = "; ".join(self._noted(a, session, in_words=in_words) for a in move.noted)
        question = None
        if move.noted and session.topic:
            question = self._questions.worded(
                move.noted[0], session.topic.assessment.domain, _confidence(session)
            )
        key = "my_profile_empty" if move.key == "my_profile" and not move.noted else move.key
        resources: list[CrisisResource] = []
        if move.with_resources:
            resources = self.lines(session, youth=move.key == "minor")
        if key in self._crisis:
            text = self._fill(self._crisis[key], session, resources)
        else:
            text = self._say[key].format(
                noted=noted,
                why=question.why if question else "",
                declined=question.declined if question else "",
            )
            if key == "declined" and not text.lower().startswith(_ALREADY_KIND):
                text = self._say["declined_lead"] + " " + text
            if key in ("echo", "echo_first") and not noted:
                text = self._say["thank_you"]
            if resources and key == "minor":
                text += " " + self._say["minor_lines"]
            if resources:
                text += "\n\n" + self.listed(resources, session)
        extra: dict[str, Any] = {}
        if session.risk.level is not RiskLevel.NONE and move.with_resources:
            extra["reason"] = Reason.ELEVATED_RISK.value
        return Words(
            move="say",
            text=text,
            resources=self._as_json(resources, session) if resources else (),
            fields=extra,
        )

    def _noted(self, attribute: Attribute, session: Session, *, in_words: bool = True) -> str:
        answer = session.profile.get(attribute)
        label = SPECS[attribute].label
        if answer is None:
            return label
        if answer.standing is Standing.DECLINED:
            return f"{label}: you'd rather not say"
        if answer.standing is Standing.UNKNOWN:
            return f"{label}: not sure"
        said = re.sub(r"\s+", " ", answer.text).strip(" .")
        if attribute is Attribute.SELF_HARM_HISTORY:
            heard = [t for t in _HEARD if t in answer.tags]
            return self._say[f"heard_{heard[0]}" if heard else "heard_in_words"]
        return f"{label}: “{said}”" if said and in_words else label

    def _answer(self, move: AnswerMove, session: Session, sentences: Sequence[str]) -> Words:
        parts = list(sentences)
        resources: tuple[dict[str, Any], ...] = ()
        history = session.profile.tags(Attribute.SELF_HARM_HISTORY) - {"none"}
        low = move.stakes is Stakes.LOW
        suicidal = {Category.SUICIDE, Category.SELF_INJURY} & set(session.risk.categories)
        unclear = session.risk.level is RiskLevel.ELEVATED and not session.risk.categories
        if session.risk.level is RiskLevel.ELEVATED and not (history or suicidal or unclear):
            resources = self._as_json(self.lines(session), session)
        elif history or suicidal or unclear:
            lines = self.lines(session)
            parts.append(self._say["safety_tail"] + "\n" + self.listed(lines[:2], session))
            resources = self._as_json(lines, session)
        parts.append(self._say["guided_limits"] if low else self._say["not_reviewed"])
        return Words(
            move="answer",
            text=_paragraphs(parts),
            parts=tuple(parts),
            resources=resources,
            fields={
                "domain": move.domain.value,
                "stakes": move.stakes.value,
                "sufficiency": move.sufficiency,
                "used": [a.value for a in move.used],
            },
        )

    def _abstain(self, move: AbstainMove, session: Session) -> Words:
        fields = {
            "domain": move.domain.value,
            "stakes": move.stakes.value,
            "sufficiency": move.sufficiency,
            "reason": move.reason.value,
        }
        if move.reason is Reason.IMMINENT_RISK:
            lines = self.lines(session)
            text = self._fill(self._crisis[move.key], session, lines)
            return Words(move="abstain", text=text, resources=self._as_json(lines, session), fields=fields)
        if move.is_crisis:
            lines = self.lines(session)
            text = self._say[move.key]
            if not move.lines_shown:
                text += "\n\n" + self._emergency(session) + "\n" + self.listed(lines, session)
            humans = self._humans(move, session)
            if humans:
                text += "\n\n" + "\n".join(f"- **{h['name']}**: {h['how']}" for h in humans[:1])
            return Words(
                move="abstain", text=text, resources=(*self._as_json(lines, session), *humans), fields=fields
            )
        humans = self._humans(move, session)
        text = self._say[move.key] + "\n\n" + "\n".join(f"- **{h['name']}**: {h['how']}" for h in humans)
        resources: tuple[dict[str, Any], ...] = humans
        if move.stakes is Stakes.HIGH:
            lines = self.lines(session)
            text += "\n\n" + self._say["safety_tail"] + "\n" + self.listed(lines[:2], session)
            resources = (*humans, *self._as_json(lines, session))
        return Words(move="abstain", text=text, resources=resources, fields=fields)

    def failure(self, session: Session | None, *, key: str = "failure") -> Words:
        """What is shown when our own machinery fails, in words and with human help."""
        session = session or Session()
        lines = self.lines(session)
        text = self._say[key] + "\n\n" + self._emergency(session) + "\n" + self.listed(lines, session)
        return Words(move="say", text=text, resources=self._as_json(lines, session))

    def message(self, key: str) -> str:
        """A plain message by key."""
        return self._say[key]

    # ------------------------------------------------------------------------------------------- resources

    def lines(self, session: Session, *, youth: bool = False) -> list[CrisisResource]:
        """The lines that fit the country and the kind of danger; directories where the country is unknown."""
        country = self._directory.countries.get(session.country or "")
        if country is None:
            return list(self._directory.directories)
        wanted = [audience for category in session.risk.categories for audience in _AUDIENCES[category]]
        if youth or session.is_minor:
            wanted = [*wanted[:1], "youth", *wanted[1:]]
        wanted = wanted or ["general"]
        if session.profile.tags(Attribute.PROFESSION) & {"uniformed"}:
            wanted = ["veterans", *wanted]
        found: list[CrisisResource] = []
        for audience in dict.fromkeys(wanted):
            for line in country.lines:
                if audience in line.audience and all(line.name != other.name for other in found):
                    found.append(line)
                    if len([x for x in found if audience in x.audience]) >= 2:
                        break
        general = [line for line in country.lines if "general" in line.audience and line not in found]
        found.extend(general[: max(0, MOST_LINES - len(found))])
        return found[:MOST_LINES] or list(self._directory.directories)

    def listed(self, lines: Sequence[CrisisResource], session: Session) -> str:
        """Lines as a list a person can read and a phone can dial."""
        rows = []
        for line in lines[:MOST_LINES]:
            ways = []
            if line.phone:
                ways.append(f"call {line.phone}")
            if line.sms:
                ways.append(f"text {line.sms}")
            if line.web and not ways:
                ways.append(line.web)
            hours = f" ({line.hours})" if line.phone and line.hours and line.hours[0].isdigit() else ""
            rows.append(f"- **{line.name}**: {' or '.join(ways)}{hours}")
        if session.country is None:
            return self._crisis["country_note"] + "\n" + "\n".join(rows)
        return "\n".join(rows)

    def _emergency(self, session: Session) -> str:
        country = self._directory.countries.get(session.country or "")
        if country is None or not country.emergency:
            return self._crisis["emergency_unknown"].format(fallback=self._directory.fallback_emergency)
        text = self._crisis["emergency_known"].format(number=country.emergency, country=country.name)
        if country.emergency_medical and Category.MEDICAL_EMERGENCY in session.risk.categories:
            text += " " + self._crisis["emergency_medical"].format(number=country.emergency_medical)
        return text

    def _fill(self, text: str, session: Session, lines: Sequence[CrisisResource]) -> str:
        return text.format(emergency=self._emergency(session), lines=self.listed(lines, session))

    def _as_json(self, lines: Sequence[CrisisResource], session: Session) -> tuple[dict[str, Any], ...]:
        country = self._directory.countries.get(session.country or "")
        first: list[dict[str, Any]] = []
        if country and country.emergency:
            first.append(
                {
                    "kind": "emergency",
                    "name": f"Emergency ({country.name})",
                    "phone": country.emergency,
                    "country": country.iso,
                }
            )
        return (*first, *({"kind": "crisis_line", **line.to_json()} for line in lines))

    def _humans(self, move: AbstainMove, session: Session) -> tuple[dict[str, Any], ...]:
        group = self._guidance.groups.get((move.domain, move.group))
        keys = group.human if group else ("trusted_person", "gp")
        seen = set(session.risk.categories) if move.is_crisis else set()
        if Category.CHILD_ABUSE in seen or (seen and session.is_minor):
            keys = ("trusted_adult", "safeguarding_lead")
        elif Category.DOMESTIC_VIOLENCE in seen:
            keys = ("domestic_abuse_service",)
        elif Category.PSYCHOSIS in seen:
            keys = ("mental_health_team", "gp")
        return tuple(
            {
                "kind": "human_help",
                "name": self._guidance.humans[k].label,
                "how": self._guidance.humans[k].how,
            }
            for k in dict.fromkeys((*keys, "trusted_person"))
        )[:3]


def _confidence(session: Session) -> float:
    return session.topic.assessment.confidence if session.topic else 0.0


def _paragraphs(parts: Sequence[str]) -> str:
    """Paragraphs apart, list items together."""
    text = ""
    for part in parts:
        if text:
            text += "\n" if part.startswith("- ") and text.rsplit("\n", 1)[-1].startswith("- ") else "\n\n"
        text += part
    return text
