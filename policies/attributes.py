"""The ten facts about a person that decide whether an answer is safe for them.

Names follow Wu et al., "Personalized Safety in LLMs" (NeurIPS 2025), section 3; the tags are ours: the
coarse bands that guidance and the risk screen reason about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class Attribute(StrEnum):
    """One of the paper's ten attributes."""

    AGE = "age"
    GENDER = "gender"
    MARITAL_STATUS = "marital_status"
    PROFESSION = "profession"
    ECONOMIC_STATUS = "economic_status"
    EDUCATION = "education"
    HEALTH = "health"
    MENTAL_STATE = "mental_state"
    SELF_HARM_HISTORY = "self_harm_history"
    EMOTION = "emotion"


class Sensitivity(StrEnum):
    """How much it costs a person to say it, and how much harm its leaking could do."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What asking for an attribute costs the person asked, each part from 0 (nothing) to 1 (as much as a question can).

    The parts are our judgement, reviewed by no ethics board; a study sets its own (`RAISE_PRICES`).

    Attributes:
        sensitivity: what a leak of the answer could do (law calls health data special: GDPR, article 9).
        effort: of answering: to remember, to find words.
        harm: of being asked: shame, alarm, being taken for somebody one is not.
        reason: why these.
    """

    sensitivity: float
    effort: float
    harm: float
    reason: str

    @property
    def total(self) -> float:
        """The mean of the parts, 0 to 1."""
        return (self.sensitivity + self.effort + self.harm) / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeSpec:
    """What is fixed about an attribute.

    Attributes:
        label: how a person would call it.
        tags: the value scale, coarse bands; an answer may carry several.
        bands: the scale in three coarse bands, least to most worrying; every tag is in one. The planner's next question
            may hang on the band of an answer.
        sensitivity: the cost of asking and of a leak.
        price: the same, counted, for the planner.
        stays_true: how long a value stays true; None for as long as the conversation.
        paper_name: the name in the paper's Table 1.
        official_name: the name in the official code's attribute list.
    """

    label: str
    tags: frozenset[str]
    bands: Mapping[str, frozenset[str]]
    sensitivity: Sensitivity
    price: Price
    stays_true: timedelta | None
    paper_name: str
    official_name: str


def _tags(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _bands(**bands: str) -> Mapping[str, frozenset[str]]:
    return {band: _tags(tags) for band, tags in bands.items()}


SPECS: Mapping[Attribute, AttributeSpec] = {
    Attribute.AGE: AttributeSpec(
        label="your age",
        tags=_tags("child teen young_adult adult older"),
        bands=_bands(minor="child teen", adult="young_adult adult", older="older"),
        sensitivity=Sensitivity.LOW,
        price=Price(sensitivity=0.2, effort=0.1, harm=0.1, reason="a number; most people give it freely"),
        stays_true=None,
        paper_name="Age",
        official_name="Age",
    ),
    Attribute.GENDER: AttributeSpec(
        label="your gender",
        tags=_tags("woman man non_binary trans"),
        bands=_bands(woman="woman", man="man", other_gender="non_binary trans"),
        sensitivity=Sensitivity.MEDIUM,
        price=Price(sensitivity=0.4, effort=0.1, harm=0.3, reason="quickly said, but outing for some"),
        stays_true=None,
        paper_name="Gender",
        official_name="Gender",
    ),
    Attribute.MARITAL_STATUS: AttributeSpec(
        label="your family situation",
        tags=_tags(
            "single dating cohabiting married separated divorced widowed children partner_control "
            "partner_depends depends_on_partner lives_alone long_distance"
        ),
        bands=_bands(
            partnered="dating cohabiting married long_distance partner_depends children",
            alone="single separated divorced widowed lives_alone",
            unsafe="partner_control depends_on_partner",
        ),
        sensitivity=Sensitivity.MEDIUM,
        price=Price(
            sensitivity=0.4, effort=0.2, harm=0.3, reason="may touch a loss, or a partner who reads along"
        ),
        stays_true=timedelta(days=30),
        paper_name="Marital Status",
        official_name="Marital Status",
    ),
    Attribute.PROFESSION: AttributeSpec(
        label="your work or studies",
        tags=_tags(
            "pupil student unemployed employed healthcare safety_critical uniformed licensed teacher visa_tied "
            "self_employed manager gig retired carer shift_work farmer parental_leave domestic_worker driver "
            "public_role"
        ),
        bands=_bands(
            settled="pupil student employed manager retired parental_leave self_employed farmer",
            insecure="unemployed visa_tied gig carer domestic_worker shift_work",
            bound_by_duty="healthcare safety_critical uniformed licensed teacher driver public_role",
        ),
        sensitivity=Sensitivity.MEDIUM,
        price=Price(
            sensitivity=0.3, effort=0.2, harm=0.1, reason="can point to a person where the job is rare"
        ),
        stays_true=timedelta(days=30),
        paper_name="Profession",
        official_name="Profession",
    ),
    Attribute.ECONOMIC_STATUS: AttributeSpec(
        label="how money is",
        tags=_tags("no_savings debt low_income hidden_debt benefits dependent stable comfortable windfall"),
        bands=_bands(
            comfortable="stable comfortable windfall",
            tight="low_income benefits dependent no_savings",
            in_debt="debt hidden_debt",
        ),
        sensitivity=Sensitivity.MEDIUM,
        price=Price(sensitivity=0.5, effort=0.3, harm=0.4, reason="money is private, and lack of it shames"),
        stays_true=timedelta(days=30),
        paper_name="Economic Status",
        official_name="Economic Status",
    ),
    Attribute.EDUCATION: AttributeSpec(
        label="your schooling",
        tags=_tags("no_formal school college university postgraduate low_literacy foreign_qualified"),
        bands=_bands(
            higher="college university postgraduate",
            schooled="school foreign_qualified",
            little="no_formal low_literacy",
        ),
        sensitivity=Sensitivity.LOW,
        price=Price(
            sensitivity=0.1, effort=0.1, harm=0.3, reason="harmless to tell, unless one had little of it"
        ),
        stays_true=None,
        paper_name="Education Level",
        official_name="Education Level",
    ),
    Attribute.HEALTH: AttributeSpec(
        label="your physical health",
        tags=_tags(
            "good pregnant postpartum heart blood_pressure diabetes kidney liver lung epilepsy ulcer cancer "
            "disability injury chronic pain weight_loss sleep_loss medication stopped_medication head_injury "
            "allergy infection substance_use"
        ),
        bands=_bands(
            good="good",
            condition="chronic pain allergy injury disability blood_pressure diabetes ulcer infection medication sleep_loss weight_loss lung",
            fragile="pregnant postpartum heart kidney liver epilepsy cancer stopped_medication head_injury substance_use",
        ),
        sensitivity=Sensitivity.HIGH,
        price=Price(
            sensitivity=0.8,
            effort=0.4,
            harm=0.2,
            reason="special under GDPR article 9; takes words, seldom hurts to be asked",
        ),
        stays_true=timedelta(days=14),
        paper_name="Health Status",
        official_name="Health Status",
    ),
    Attribute.MENTAL_STATE: AttributeSpec(
        label="how you have been in yourself",
        tags=_tags(
            "well stressed anxious low depressed panic ptsd bipolar manic psychosis eating_disorder ocd adhd "
            "autism grief burnout addiction in_recovery gambling dissociation frightening_urges untreated "
            "in_treatment postnatal dementia"
        ),
        bands=_bands(
            steady="well stressed in_treatment in_recovery adhd autism",
            strained="anxious low depressed grief burnout ocd untreated gambling postnatal dementia panic eating_disorder addiction bipolar ptsd",
            in_crisis="manic psychosis dissociation frightening_urges",
        ),
        sensitivity=Sensitivity.HIGH,
        price=Price(
            sensitivity=0.9,
            effort=0.5,
            harm=0.5,
            reason="special under GDPR article 9; hard to say of oneself",
        ),
        stays_true=timedelta(days=7),
        paper_name="Mental Health Status",
        official_name="Mental Health Status",
    ),
    Attribute.SELF_HARM_HISTORY: AttributeSpec(
        label="whether you have hurt yourself or thought of ending your life",
        tags=_tags("none past_thoughts past_self_harm past_attempt recent_self_harm current_thoughts plan"),
        bands=_bands(
            none="none",
            past="past_thoughts past_self_harm past_attempt",
            recent="recent_self_harm current_thoughts plan",
        ),
        sensitivity=Sensitivity.HIGH,
        price=Price(
            sensitivity=1.0,
            effort=0.4,
            harm=0.9,
            reason="the heaviest question here; asking does not plant the thought, but being taken for somebody at risk can hurt",
        ),
        stays_true=timedelta(days=7),
        paper_name="Past Self-Harm History",
        official_name="Self-Harm History",
    ),
    Attribute.EMOTION: AttributeSpec(
        label="what you are feeling",
        tags=_tags(
            "calm happy hopeful anxious scared sad lonely angry ashamed guilty numb hopeless overwhelmed "
            "confused trapped burden humiliated excited desperate"
        ),
        bands=_bands(
            settled="calm happy hopeful excited",
            troubled="anxious sad lonely angry ashamed guilty overwhelmed confused humiliated scared",
            despairing="numb hopeless trapped burden desperate",
        ),
        sensitivity=Sensitivity.MEDIUM,
        price=Price(sensitivity=0.4, effort=0.3, harm=0.1, reason="most people are glad to be asked"),
        stays_true=timedelta(hours=12),
        paper_name="Emotional State",
        official_name="Emotional State",
    ),
}


def band_of(attribute: Attribute, tags: frozenset[str]) -> str | None:
    """The most worrying band that any of the tags is in; None where there is none."""
    found = [band for band, inside in SPECS[attribute].bands.items() if tags & inside]
    return found[-1] if found else None


PSYCHOLOGICAL = (Attribute.SELF_HARM_HISTORY, Attribute.MENTAL_STATE, Attribute.EMOTION)
"""The three that move the safety score most on their own (paper, Figure 4)."""


class Standing(StrEnum):
    """What became of asking. Declined and unknown differ: one is a wish, the other a fact."""

    KNOWN = "known"
    DECLINED = "declined"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is known of one attribute.

    Attributes:
        standing: known, declined ("prefer not to say") or unknown ("I don't know").
        text: the person's own words, short; empty unless known.
        tags: the bands read from them; a subset of the attribute's scale.
        at: when it was said, aware UTC.
        volunteered: said without being asked.
    """

    standing: Standing
    at: datetime
    text: str = field(default="", repr=False)
    tags: frozenset[str] = field(default=frozenset(), repr=False)
    volunteered: bool = False

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {
            "standing": self.standing.value,
            "at": self.at.isoformat(),
            "text": self.text,
            "tags": sorted(self.tags),
            "volunteered": self.volunteered,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Answer:
        """Read what `to_json` wrote."""
        return cls(
            standing=Standing(raw["standing"]),
            at=datetime.fromisoformat(raw["at"]),
            text=raw["text"],
            tags=frozenset(raw["tags"]),
            volunteered=raw["volunteered"],
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """What is known of a person now; immutable, `with_answer` returns a new one."""

    answers: Mapping[Attribute, Answer] = field(default_factory=dict, repr=False)

    def with_answer(self, attribute: Attribute, answer: Answer) -> Profile:
        """The profile with one answer put in or replaced."""
        return Profile({**self.answers, attribute: answer})

    def without(self, attribute: Attribute) -> Profile:
        """The profile with one attribute not asked again yet."""
        return Profile({a: v for a, v in self.answers.items() if a is not attribute})

    def get(self, attribute: Attribute) -> Answer | None:
        """The answer, or None where it was never asked."""
        return self.answers.get(attribute)

    def is_known(self, attribute: Attribute, *, at: datetime) -> bool:
        """Known and still true at this time."""
        answer = self.answers.get(attribute)
        return (
            answer is not None and answer.standing is Standing.KNOWN and not self.is_stale(attribute, at=at)
        )

    def is_stale(self, attribute: Attribute, *, at: datetime) -> bool:
        """Known once, for longer than it stays true."""
        answer, lasts = self.answers.get(attribute), SPECS[attribute].stays_true
        if answer is None or lasts is None or answer.standing is Standing.DECLINED:
            return False
        return at - answer.at > lasts

    def is_closed(self, attribute: Attribute, *, at: datetime) -> bool:
        """Not to be asked: known and fresh, declined, or the person does not know."""
        return self.get(attribute) is not None and not self.is_stale(attribute, at=at)

    def with_standing(self, standing: Standing) -> tuple[Attribute, ...]:
        """Attributes of one standing, in the paper's order."""
        return tuple(a for a in Attribute if (v := self.answers.get(a)) and v.standing is standing)

    def tags(self, attribute: Attribute) -> frozenset[str]:
        """The tags known for an attribute; empty where it is not known."""
        answer = self.answers.get(attribute)
        return answer.tags if answer and answer.standing is Standing.KNOWN else frozenset()

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.answers)

    def __len__(self) -> int:
        return len(self.answers)

    def to_json(self) -> dict[str, Any]:
        """A JSON object that `from_json` reads back equal."""
        return {a.value: v.to_json() for a, v in self.answers.items()}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Profile:
        """Read what `to_json` wrote."""
        return cls({Attribute(a): Answer.from_json(v) for a, v in raw.items()})
