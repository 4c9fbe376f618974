"""Turning moves into words: resources for a country, the guarded answer, and every text a person reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.abstention import Reason
from bot.messages import crisis_texts, messages
from bot.moves import AFTER_OFFERS, AbstainMove, AnswerMove, Ask, Move, Say
from bot.risk.verdict import Category, RiskLevel
from bot.safety_plan import STEPS
from bot.session import Session
from policies.attributes import SPECS, Attribute, Standing
from policies.crisis import CrisisResource, Directory
from policies.crisis.cards import Card
from policies.domains import Stakes
from policies.guidance import Guidance
from policies.questions import Question, Questions

_HEARD = (
    "plan", "current_thoughts", "recent_self_harm", "past_attempt", "past_self_harm", "past_thoughts", "none",
)  # fmt: skip
_ALREADY_KIND = ("that's", "that is", "no problem", "of course", "fine", "all right")
EMERGENCY_ABROAD = "112 (EU) / 911 (North America) / 999 (UK)"
SMALLEST_STEP = 3
SHORT_FROM = 2
"""After so many next steps the list is not shown whole again."""
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
        offers: quick replies that go on from a message which is no question of ours.
        why: the reason for asking.
        resources: lines, directories and human help shown with it.
        parts: the text in the pieces it is streamed in.
        fields: the machine-readable rest: domain, stakes, sufficiency, reason, used, decision.
        is_partial: the beginning of an answer that is still being written: the text so far, and the piece that is new
            as its one part. The next words that are not partial complete it or take its place.
        is_own: it shows the person their own words, so that each placeholder in it is put back.
        id: of the message on the page: the same for all pieces of it, and whenever it is shown again.
    """

    move: str
    text: str = field(repr=False)
    attribute: Attribute | None = None
    choices: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    why: str = ""
    resources: tuple[dict[str, Any], ...] = ()
    parts: tuple[str, ...] = field(default=(), repr=False)
    fields: dict[str, Any] = field(default_factory=dict)
    is_partial: bool = False
    is_own: bool = False
    id: str = ""

    def to_json(self, turn: int) -> dict[str, Any]:
        """The line that `chat --json` writes; only what applies."""
        raw: dict[str, Any] = {"turn": turn, "move": self.move, "text": self.text}
        if self.attribute is not None:
            raw["attribute"] = self.attribute.value
        if self.choices:
            raw["choices"] = list(self.choices)
        if self.offers:
            raw["offers"] = list(self.offers)
        if self.why:
            raw["why"] = self.why
        raw.update(self.fields)
        if self.resources:
            raw["resources"] = list(self.resources)
        return raw


class Responder:
    """Words for moves. Holds policy texts only; safe to share."""

    def __init__(
        self,
        guidance: Guidance,
        questions: Questions,
        directory: Directory,
        *,
        cards: Mapping[str, Card] | None = None,
        on_call: str | None = None,
        alerts_key: str = "alerts_someone",
    ) -> None:
        """Hold the texts.

        Args:
            guidance: labels of human help.
            questions: their wording.
            directory: help lines.
            cards: crisis cards in other languages.
            on_call: how fast an on-call contact answers, "" where that is not promised; None where nobody is told.
            alerts_key: the message that says of what they are told.
        """
        self._cards = cards or {}
        self._guidance = guidance
        self._questions = questions
        self._directory = directory
        said = messages()
        self.alerts = said["alerts_nobody"]
        if on_call is not None:
            self.alerts = said[alerts_key].format(response=on_call or said["alerts_no_promise"])
        self._say = {key: text.replace("{alerts}", self.alerts) for key, text in said.items()}
        self._crisis = crisis_texts()

    # ------------------------------------------------------------------------------------------- moves

    def render(
        self,
        move: Move,
        session: Session,
        *,
        answer: Sequence[str] = (),
        in_words: bool = True,
        is_generated: bool = False,
        wording: str = "",
    ) -> Words:
        """The words of one move.

        Args:
            move: what the dialogue decided.
            session: the state after it.
            answer: the guarded sentences, for an answer.
            is_generated: a language model wrote the answer.
            wording: of a question, guarded; "" for the written one.
            in_words: echo what was understood in the person's words; off where those may not be shown.
        """
        if isinstance(move, Ask):
            return self._ask(move, session, wording)
        if isinstance(move, Say):
            return self._said(move, session, in_words=in_words)
        if isinstance(move, AnswerMove):
            return self._answer(move, session, answer, is_generated=is_generated)
        return self._abstain(move, session)

    def question(self, move: Ask, session: Session) -> Question:
        """The written question of one move."""
        return self._questions.worded(
            move.attribute, move.domain, _confidence(session), is_disclosed=session.has_disclosed
        )

    def _ask(self, move: Ask, session: Session, wording: str) -> Words:
        question = self.question(move, session)
        return Words(
            move="ask",
            text=wording or question.phrasing(move.variant),
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
        plan = self._plan(session, in_words=in_words) if move.key in ("plan_done", "plan_shown") else ""
        question = None
        if move.noted and session.topic:
            question = self._questions.worded(
                move.noted[0],
                session.topic.assessment.domain,
                _confidence(session),
                is_disclosed=session.has_disclosed,
            )
        key = "my_profile_empty" if move.key == "my_profile" and not move.noted else move.key
        resources: list[CrisisResource] = []
        if move.with_resources:
            resources = self.lines(session, youth=move.key == "minor")
        if key.startswith("elevated_") and session.language in self._cards:
            text = self._in_language(key, session, resources)
        elif key in self._crisis:
            text = self._fill(self._crisis[key], session, resources)
        else:
            text = self._say[key].format(
                noted=noted,
                why=question.why if question else "",
                declined=question.declined if question else "",
                plan=plan,
            )
            if key == "declined" and not text.lower().startswith(_ALREADY_KIND):
                text = self._say["declined_lead"] + " " + text
            if key in ("echo", "echo_first") and not noted:
                text = self._say["thank_you"]
            if resources and key == "minor":
                text += " " + self._say["minor_lines"]
            if resources:
                text += "\n\n" + self._emergency(session) + "\n" + self.listed(resources, session)
        extra: dict[str, Any] = {}
        if session.risk.level is not RiskLevel.NONE and move.with_resources:
            extra["reason"] = Reason.ELEVATED_RISK.value
        return Words(
            move="say",
            text=text,
            resources=self._as_json(resources, session) if resources else (),
            offers=self._offers(move.offers),
            fields=extra,
        )

    def _offers(self, keys: Sequence[str]) -> tuple[str, ...]:
        return tuple(self._say[f"offer_{key}"] for key in keys)

    def every_offer(self) -> frozenset[str]:
        """Every quick reply that goes on from a message of ours."""
        return frozenset(text for key, text in self._say.items() if key.startswith("offer_"))

    def _plan(self, session: Session, *, in_words: bool) -> str:
        """The safety plan as a list, in the person's words where those may be shown."""
        entries = session.plan.entries if session.plan else {}
        hidden = self._say["plan_words_not_shown"]
        return "\n".join(
            f"- **{self._say[f'plan_label_{step}']}**: {entries[step] if in_words else hidden}"
            for step in STEPS
            if step in entries
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

    def _answer(
        self, move: AnswerMove, session: Session, sentences: Sequence[str], *, is_generated: bool
    ) -> Words:
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
            parts.append(self._say["safety_tail"] + "\n" + self.listed(self._paired(lines[:2]), session))
            resources = self._as_json(lines, session)
        limits = "generated_limits" if is_generated else "guided_limits" if low else "not_reviewed"
        parts.append(self._say[limits])
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
            if move.key == "after_cannot_talk":
                lines = sorted(lines, key=lambda line: not line.sms)
            key = move.key
            if key == "after_cannot_talk" and session.country and not any(line.sms for line in lines):
                key = "after_cannot_talk_nor_text"
            if move.smaller >= SHORT_FROM and key.startswith("after_"):
                lines = lines[:1]
            text = self._fill(self._crisis[key], session, lines, smaller=move.smaller, kind=move.kind)
            if session.language in self._cards:
                text = self._in_language(move.key, session, lines)
            return Words(
                move="abstain",
                text=text,
                resources=self._as_json(lines, session),
                offers=self._offers(move.offers),
                fields=fields,
            )
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
            text += "\n\n" + self._say["safety_tail"] + "\n" + self.listed(self._paired(lines[:2]), session)
            resources = (*humans, *self._as_json(lines, session))
        return Words(move="abstain", text=text, resources=resources, fields=fields)

    def failure(self, session: Session | None, *, key: str = "failure") -> Words:
        """What is shown when our own machinery fails, in words and with human help."""
        session = session or Session()
        lines = self.lines(session)
        text = self._say[key] + "\n\n" + self._emergency(session) + "\n" + self.listed(lines, session)
        fields = {"reason": Reason.ELEVATED_RISK.value} if session.risk.level is not RiskLevel.NONE else {}
        offers = self._offers(AFTER_OFFERS) if session.risk.level is RiskLevel.IMMINENT else ()
        resources = self._as_json(lines, session)
        return Words(move="say", text=text, resources=resources, offers=offers, fields=fields)

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
        return self._paired(found[:MOST_LINES]) or list(self._directory.directories)

    def _paired(self, lines: Sequence[CrisisResource]) -> list[CrisisResource]:
        """Lines with the service that belongs to each beside it, such as one to text by one to call."""
        found: list[CrisisResource] = []
        for line in lines:
            partner = self._directory.partner(line)
            found.extend(x for x in (line, partner) if x is not None and x not in found)
        return found

    def listed(self, lines: Sequence[CrisisResource], session: Session) -> str:
        """Lines as a list a person can read and a phone can dial."""
        rows = self._rows(lines)
        return rows if session.country is not None else self._crisis["country_note"] + "\n" + rows

    @staticmethod
    def _rows(lines: Sequence[CrisisResource]) -> str:
        rows = []
        for line in lines:
            ways = []
            if line.phone:
                ways.append(
                    " or ".join(f"call {n}" if not i else n for i, n in enumerate((line.phone, *line.also)))
                )
            if line.sms:
                ways.append(f"text {line.sms}")
            if line.web and not ways:
                ways.append(line.web)
            hours = (
                f" ({line.hours}, hours not checked)"
                if line.phone and line.hours and line.hours[0].isdigit()
                else ""
            )
            rows.append(f"- **{line.name}**: {' or '.join(ways)}{hours}")
        return "\n".join(rows)

    def _emergency(self, session: Session) -> str:
        country = self._directory.countries.get(session.country or "")
        if country is None or not country.emergency:
            return self._crisis["emergency_unknown"].format(fallback=self._directory.fallback_emergency)
        text = self._crisis["emergency_known"].format(number=country.emergency, country=country.name)
        if country.emergency_medical and Category.MEDICAL_EMERGENCY in session.risk.categories:
            text += " " + self._crisis["emergency_medical"].format(number=country.emergency_medical)
        return text

    def _fill(
        self,
        text: str,
        session: Session,
        lines: Sequence[CrisisResource],
        *,
        smaller: int = 0,
        kind: str = "self",
    ) -> str:
        step = self._crisis[f"smaller_{kind}_{min(smaller, SMALLEST_STEP)}"]
        if text.rstrip().endswith("\n{smaller}"):
            step = step[0].upper() + step[1:]
        return text.format(
            emergency=self._emergency(session), lines=self.listed(lines, session), smaller=step
        )

    def _in_language(self, key: str, session: Session, lines: Sequence[CrisisResource]) -> str:
        """A few lines in the person's language, with what remains in English said below."""
        card = self._cards[session.language]
        country = self._directory.countries.get(session.country or "")
        number = country.emergency if country and country.emergency else EMERGENCY_ABROAD
        rows = self._rows(lines)
        if key.startswith("elevated_"):
            text = card.elevated.format(emergency=number, lines="\n" + rows + "\n")
        elif key.startswith("imminent_"):
            text = card.imminent.format(emergency=number, lines="\n" + rows + "\n")
        else:
            text = f"{card.safe_question}\n\n{number}\n{rows}"
        note = self._say["card_not_reviewed"].format(language=card.name)
        where = "" if country else "\n\n" + self._crisis["country_note"].split(" Until")[0]
        return f"{text}{where}\n\n_{note}_"

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
