"""The risk screen's text stage: raw text in, verdict out, with nothing but itself.

No parser, model or store is needed and none can keep it from running. It reads a message sentence by sentence,
undoes hidden spelling, looks for ideas, leaves out what is quoted, fictional, academic, denied or long past, and
combines the ideas of the message with those of the conversation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bot.risk import patterns
from bot.risk.normalise import LONGEST_SCREENED, normalise
from bot.risk.patterns import Patterns, Rule
from bot.risk.verdict import Category, RiskLevel, RiskState, Subject, Verdict, highest
from policies.attributes import Attribute

_SENTENCE = re.compile(r"[.!?;\n]+|(?:\bbut\b)|(?:\bhowever\b)|(?:\balthough\b)")
_DISTANCED_SELF = re.compile(r"\b(?:i|im|ive|me|my|myself)\b")
_STRONG_SELF = re.compile(
    r"\b(?:i am|im|i will|ill|ive|i have|i want to|i think of|i feel)\b(?: \w+){0,5} (?:kill(?:ing)? myself|suicidal|end my life|die|hang myself|shoot myself|overdose|dead|hurt myself|using it)"
    r"|\b(?:because of|my|having) (?:own |constant |the )?suicidal\b|\b(?:suicide|overdose) methods?\b|\b(?:ways|methods?) (?:to die|of suicide)\b"
)
_QUOTED = re.compile(r"[\"“«][^\"”»\n]{0,400}[\"”»]")
_NEGATED = re.compile(
    r"\b(?:no|not|never|without|isnt|arent|wasnt|dont|do not|doesnt|didnt|did not|havent|hasnt|have not|wouldnt|wont|will not|neither|nor|deny|denies|denied|nothing like|far from|zero|none of|no (?:real |any )?(?:wish|desire|intentions?|interest|urge)|any (?:wish|desire|intention|urge))(?: (?:any|been|having|had|have|a|really|ever|actually|planning|about|talk of|history of|thoughts? of|thinking of|thinking about|going|to|feeling|wanting|want|of|trying|gonna|the))*$"
)
_FALSE_NEGATION = re.compile(
    r"\b(?:not (?:only|just|sure|that i|gonna lie)|no (?:one|lie|joke|doubt|matter)|cant not|no reason|no the|reasons? not|why not)\b"
)
_NO_AFTER = re.compile(
    r"^ (?:(?:history|thoughts|ever) )?(?:no|none|never|nope|nah|nil)(?: (?:no|never|ever|nothing|thanks|thankfully|thank god|not at all))*(?:$| (?:i|im|and|mood|mental|health|age|emotion)\b)"
)
"""A form filled in: "self-harm: no, never"."""
_BACK_AGAIN = re.compile(
    r"\b(?:again|creeping|urges?|relaps\w+|same feelings?|lately|these days|tonight|(?<!never )(?:come|came|coming) back|(?:is|are) back|returning|worse|still|but now|and now|right now)\b"
)
_OTHER_PERSON = re.compile(
    r"\b(?:my (?:\w+ ){0,2}(?:friend|mate|bestie|brother|sister|mum|mom|mother|dad|father|son|daughter|kid|child|teen|teenager|niece|nephew|cousin|uncle|aunt|gran|grandma|grandad|grandfather|grandmother|husband|wife|partner|boyfriend|girlfriend|bf|gf|fiancee?|ex|roommate|housemate|flatmate|neighbou?r|colleague|coworker|student|pupil|patient|client|teacher|classmate)s?|a (?:friend|guy|girl|boy|student|colleague|classmate|patient))\b"
)
_CHILD = re.compile(
    r"\b(?:my (?:\w+ ){0,2}(?:son|daughter|kid|child|teen|teenager|stepson|stepdaughter|baby|toddler|boy|girl|pupil)s?|(?:\d|1[0-7]) ?(?:yo|year old)|my 1[0-7]|child|toddler|baby|pupil|student in my class)\b"
)
_OBSERVES = re.compile(
    r"\b(?:i|we|ive|weve) (?:just |have |also )?(?:found|saw|seen|heard|noticed|read|got|received|teach|care for|live with|came home to|walked in)\b"
    r"|\b(?:im|i am|we are|were|i was|i feel|so) (?:\w+ )?(?:worried|scared|afraid|frightened|concerned) (?:about|for|that)\b"
    r"|\b(?:told|texted|messaged|rang|called|wrote to|said to|asked) (?:me|us|his|her|a|my)\b"
)
_OWN_DANGER = re.compile(
    r"\b(?:myself|my life|my own life|without me|i want to|i cant|i wish|im going to|i will|ill)\b"
)
"""Who writes of what they saw in somebody else, and not of themself."""
_LITERAL_ANSWER = re.compile(
    r"^\s*(?:(?:my )?(?:self ?harm(?: history)?|mental (?:state|health)|emotion(?:al state)?|mood))\s*(?:[?:=]|\bis\b)"
)
_NAMED = re.compile(
    r"^(?:my )?(?:self ?harm(?: history)?|mental (?:state|health)|emotion(?:al state)?|mood) ?[?:=]? *"
)
_ANSWER_NONE = re.compile(
    r"^(?:\w+ ){0,3}(?:none|no|never|nope|nah|nothing|not at all|n a|none known|no history|not ever|none ever|no never|none before(?: now)?|fine)\b(?: (?:known|ever|before|at all|really|thanks|nothing like that|never have|of that|that i know of))*[ .]*$"
)


_TAKES_IT_BACK = re.compile(
    r"\b(?:lied|lie|lying|wasnt true|not true|isnt true|wanted to say yes|(?:said|told (?:him|her|them)) yes|yes|laughed it off|i have had|i look at|every (?:morning|night|day)|most (?:mornings|nights|days)|pretend\w*|dont tell|nearly told|truth is|if i told|couldnt (?:say|tell)|except|tonight|plan(?:ned|ning)?|decided|anymore|but (?:i|today|now|lately|some))\b"
)
"""After it a denial is not taken at its word."""

_STILL = re.compile(
    r"\b(?:tonight|today|again|yesterday|this (?:morning|evening|afternoon|week)|last night|(?:just|right) now|(?:hours?|minutes|mins|days?) ago|still|(?<!\d )now|im going|these days|lately)\b"
)
"""What is told in one breath with it is not past."""
_ECHOED = re.compile(
    r"(?:^|(?<=[.!?\n])) *(?:(?:do|did|have|had|am|i|you|ever|been|any|thoughts?|of|to|want|wanted) )*(?:hurt|harm|cut|kill|hear)\w* (?:myself|my self|self|voices)\? *(?:no|nope|nah|never|god no|heavens no|not at all|not ever)(?= *(?:$|[.!?\n]|(?:no|never|not ever|i never|i dont|i havent|i only)\b))"
)
"""Our question, said again and answered with no."""

OVERLAP = 500
_ONLY_UNTIL = re.compile(
    r"(?: \w+){0,4} (?:until|till|unless|before|here|in front of|like this|that way|alone)\b"
)
"""A denial with a term to it, or of the way alone, is none."""
LONGEST_SUBJECT = 5_000
_SELF_LED = re.compile(
    r"^(?:(?:and|but|so|now|because|cause|actually|honestly|well|then|also|today|tonight|right now|yesterday|ok|okay|please|sorry|just|still|anyway|truth is|fyi|update)[ .]*)*(?:i|im|ive|ill|id|my|me|we|were)\b"
)


@dataclass(frozen=True, slots=True)
class _Hit:
    rule: Rule
    level: RiskLevel
    note: str


@dataclass(slots=True)
class _Found:
    """What the windows of one message gave.

    Attributes:
        hits: rules that fired.
        held: rules that were held back, each with what held it.
        plain: the normalised window that told most, for the subject.
        speaks_of_self: some sentence is about the writer and no story.
        is_unreal: fiction, study or work is spoken of.
        is_bereaved: somebody died by suicide.
        is_made_safe: means were handed over or locked away.
    """

    hits: list[_Hit] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    plain: str = ""
    speaks_of_self: bool = False
    is_unreal: bool = False
    is_bereaved: bool = False
    is_made_safe: bool = False


class Screen:
    """The text stage. Holds nothing between calls; safe to share."""

    def __init__(self, known: Patterns | None = None) -> None:
        self._patterns = known or patterns.shipped()
        by_effect = {suppressor.effect: suppressor for suppressor in self._patterns.suppressors}
        self._fiction, self._study = by_effect["fiction"], by_effect["study"]
        self._idiom, self._topic, self._made_safe = (by_effect[e] for e in ("idiom", "topic", "made_safe"))
        self._asked, self._says_no = by_effect["asked"], by_effect["denied"]
        self._long_past = by_effect["long_past"]
        self._recovered, self._bereaved = by_effect["recovered"], by_effect["bereaved"]

    def screen(
        self,
        text: str,
        *,
        state: RiskState | None = None,
        answering: Attribute | None = None,
        profile_flags: Iterable[str] = (),
    ) -> Verdict:
        """The verdict on one message in its conversation.

        Args:
            text: the raw text, of any length and language; all of it is read, in windows.
            state: what stuck from earlier turns.
            answering: the attribute whose question is open, if one is.
            profile_flags: ideas known from the profile, such as "postpartum".
        """
        state = state or RiskState()
        about = answering or _named_attribute(text[:400].lower())
        found = _Found()
        for window in _windows(text):
            self._in_window(window, found, about=about, carried="not_real" in state.flags)
        flags = {hit.rule.idea for hit in found.hits}
        if found.is_unreal and not found.hits and not found.speaks_of_self:
            flags.add("not_real")
        if found.is_bereaved:
            flags.add("bereaved")
        if found.is_made_safe:
            flags.add("made_safe")
        return self._combine(found, frozenset(flags), state, frozenset(profile_flags))

    def history(self, turns: Sequence[str]) -> RiskState:
        """The state that earlier messages of a conversation left."""
        from bot.risk import state as sticky  # noqa: PLC0415 (it needs this module's verdicts only)

        state = RiskState()
        for turn in turns:
            state = sticky.after(state, self.screen(turn, state=state), says_safe=False)
        return state

    def _in_window(self, text: str, found: _Found, *, about: Attribute | None, carried: bool) -> None:
        plain = _ECHOED.sub(" ", normalise(text))
        fiction = bool(self._fiction.pattern.search(plain))
        study = bool(self._study.pattern.search(plain))
        found.is_unreal |= fiction or study or carried
        found.is_made_safe |= bool(self._made_safe.pattern.search(plain))
        found.is_bereaved |= bool(self._bereaved.pattern.search(plain))
        if (fiction or study) and _QUOTED.search(text):
            plain = normalise(_QUOTED.sub(" ", text))
        before = len(found.hits)
        for sentence in _sentences(plain):
            unreal = self._unreal(sentence, fiction=fiction, study=study, carried=carried)
            found.speaks_of_self |= not unreal and bool(_DISTANCED_SELF.search(sentence))
            self._in_sentence(sentence, plain, found, about=about, unreal=unreal)
        if not text.isascii():
            raw = unicodedata.normalize("NFKC", text).lower()
            anywhere = (r for r in self._patterns.rules if r.anywhere and r.patterns.search(raw))
            found.hits.extend(_Hit(rule, rule.level, rule.reason) for rule in anywhere)
        if about is not None:
            for part in re.split(r",|\band\b", text[:LONGEST_SCREENED].lower()):
                clause = " ".join(normalise(part).split())
                self._in_sentence(clause, plain, found, about=about, unreal="", answers_only=True)
        if len(found.hits) > before or not found.plain:
            found.plain = plain[:LONGEST_SUBJECT]

    def _unreal(self, sentence: str, *, fiction: bool, study: bool, carried: bool) -> str:
        """Which suppressor holds for a sentence, "" for none: it must speak of somebody else, or tell a story."""
        if self._fiction.pattern.search(sentence):
            return self._fiction.name
        if self._study.pattern.search(sentence) and not _STRONG_SELF.search(sentence):
            return self._study.name
        if fiction and not _SELF_LED.search(sentence):
            return self._fiction.name
        if (study or carried) and not _DISTANCED_SELF.search(sentence):
            return self._study.name if study else self._fiction.name
        return ""

    def _in_sentence(
        self,
        sentence: str,
        whole: str,
        found: _Found,
        *,
        about: Attribute | None,
        unreal: str,
        answers_only: bool = False,
    ) -> None:
        if about is not None and _ANSWER_NONE.match(_NAMED.sub("", sentence)):
            return
        cleaned = self._without_what_means_nothing(sentence, whole)
        long_past = bool(self._long_past.pattern.search(cleaned)) and not _STILL.search(cleaned)
        for rule in self._patterns.rules:
            if rule.anywhere or (answers_only and not rule.attributes):
                continue
            if rule.attributes and about not in rule.attributes:
                continue
            match = rule.patterns.search(cleaned)
            if not match:
                continue
            if rule.unless and rule.unless.search(cleaned):
                continue
            if rule.requires and not rule.requires.search(cleaned):
                continue
            denied = _is_denied(cleaned[: match.start()]) and not _ONLY_UNTIL.match(cleaned[match.end() :])
            is_topic = rule.idea in _PAST_IDEAS and "myself" not in match[0]
            denied |= is_topic and bool(_NO_AFTER.match(cleaned[match.end() :]))
            if denied and rule.idea not in _NEGATIVE_IDEAS:
                found.held.append(f"{rule.name} (denied)")
                continue
            level, note = rule.level, rule.reason
            if unreal:
                if not _STRONG_SELF.search(cleaned):
                    found.held.append(f"{rule.name} ({unreal})")
                    continue
                level = min(level, RiskLevel.ELEVATED, key=lambda known: known.rank)
            if long_past and rule.idea in _NOW_UNLESS_DATED and _PAST_TENSE.search(match[0]):
                level = min(level, RiskLevel.ELEVATED, key=lambda known: known.rank)
            told_of_then = long_past and rule.idea in _PAST_WHERE_DATED and _PAST_TENSE.search(match[0])
            past = (rule.idea in _PAST_IDEAS or told_of_then) and self._recovered.pattern.search(whole)
            if past and not _BACK_AGAIN.search(whole):
                found.held.append(f"{rule.name} ({self._recovered.name})")
                continue
            found.hits.append(_Hit(rule, level, note))

    def _without_what_means_nothing(self, sentence: str, whole: str) -> str:
        """A sentence less its figures of speech, names of topics, means made safe, and a question that was denied."""
        for suppressor in (self._idiom, self._topic, self._made_safe):
            sentence = suppressor.pattern.sub(" ~ ", sentence)
        if self._says_no.pattern.search(whole) and not _TAKES_IT_BACK.search(whole):
            sentence = self._asked.pattern.sub(" ~ ", sentence)
        return sentence

    def _combine(
        self, found: _Found, flags: frozenset[str], state: RiskState, profile_flags: frozenset[str]
    ) -> Verdict:
        hits = found.hits
        level = highest(*(hit.level for hit in hits))
        why = next(
            (hit.note for hit in hits if hit.level is level and level is not RiskLevel.NONE), "nothing found"
        )
        rules = [hit.rule.name for hit in hits if hit.level is not RiskLevel.NONE]
        kinds = {hit.rule.category: hit.level for hit in sorted(hits, key=lambda h: h.level.rank)}
        seen = flags | profile_flags | state.flags
        alone = level
        for combination in self._patterns.combinations:
            if combination.level.rank <= level.rank:
                continue
            news = any(part & flags for part in combination.parts)
            if news and all(part & seen for part in combination.parts):
                level, why = combination.level, combination.reason
                rules.append(combination.name)
                kinds[combination.category] = combination.level
        held = tuple(dict.fromkeys(found.held))
        if level is RiskLevel.NONE:
            unreal = "not_real" in flags
            why = "ideas alone" if flags - {"not_real"} else "nothing found"
            return Verdict(
                flags=flags,
                why=f"held back: {held[0]}" if held else why,
                subject=Subject.NOT_REAL if unreal else _subject(found.plain, hits),
                held=held,
            )
        order = sorted(
            (c for c, known in kinds.items() if known is not RiskLevel.NONE),
            key=lambda c: (-kinds[c].rank, _ORDER[c]),
        )
        return Verdict(
            level=level,
            categories=tuple(order),
            subject=_subject(found.plain, hits),
            rules=tuple(dict.fromkeys(rules)),
            flags=flags,
            why=why,
            by_combination=level is not alone,
            held=held,
        )


def _windows(text: str) -> Iterable[str]:
    """All of a text, in pieces that one look can take; they overlap, so that nothing is cut in two."""
    if len(text) <= LONGEST_SCREENED:
        yield text
        return
    for start in range(0, len(text), LONGEST_SCREENED - OVERLAP):
        yield text[start : start + LONGEST_SCREENED]


_ORDER = {category: i for i, category in enumerate((
    Category.MEDICAL_EMERGENCY, Category.SUICIDE, Category.PSYCHOSIS, Category.CHILD_ABUSE, Category.DOMESTIC_VIOLENCE,
    Category.SEXUAL_EXPLOITATION, Category.HARM_TO_OTHERS, Category.SELF_INJURY, Category.EATING_DISORDER,
    Category.SUBSTANCE,
))}  # fmt: skip
_NEGATIVE_IDEAS = frozenset(
    {
        "death_wish",
        "hopeless",
        "goodbye",
        "no_future",
        "medical",
        "not_eating",
        "dv",
        "dv_now",
        "eating",
        "other_now",
    }
)
"""Ideas that are themselves worded as a denial ("don't want to live")."""
_PAST_IDEAS = frozenset({"attempt_past", "self_injury", "ideation", "eating", "substance"})
_NOW_UNLESS_DATED = frozenset({"attempt_now", "medical"})
_PAST_WHERE_DATED = _NOW_UNLESS_DATED | {"death_wish", "dv", "psychosis"}
"""What a sentence that dates itself long ago ("in 1962") and speaks in the past tense tells of then, and not of now."""
_PAST_TENSE = re.compile(
    r"\b(?:wanted|wished|took|taken|swallowed|tried|attempted|overdosed|heard|hit|beat|slapped|punched|kicked|locked|controlled|collapsed|drank|ate|had|was|were)\b"
)


def _sentences(plain: str) -> Iterable[str]:
    for part in _SENTENCE.split(plain):
        part = " ".join(part.split())  # noqa: PLW2901 (the same sentence, tidied)
        if part:
            yield from (part[i : i + 600] for i in range(0, len(part), 500))


def _is_denied(before: str) -> bool:
    return bool(_NEGATED.search(before.rstrip())) and not _FALSE_NEGATION.search(before[-40:])


def _named_attribute(plain: str) -> Attribute | None:
    """'self-harm history: …' answers a question even where none is open."""
    found = _LITERAL_ANSWER.search(plain) or re.search(
        r"\b(?:self ?harm(?: history)?|mental (?:state|health)|emotion)\s*[?:=]",
        plain.replace(" yes", ": yes"),
    )
    return Attribute.SELF_HARM_HISTORY if found else None


_OWN_KINDS = frozenset({Category.SUICIDE, Category.SELF_INJURY})


def _subject(plain: str, hits: Sequence[_Hit]) -> Subject:
    own = any(
        h.rule.category in _OWN_KINDS and not h.rule.about_other
        for h in hits
        if h.level is not RiskLevel.NONE
    )
    if any(hit.rule.about_other for hit in hits) and not (own and _OWN_DANGER.search(plain)):
        return Subject.CHILD if _CHILD.search(plain) else Subject.OTHER_ADULT
    if any(hit.rule.category is Category.CHILD_ABUSE for hit in hits):
        return Subject.CHILD
    other = _OTHER_PERSON.search(plain)
    if other and _OBSERVES.search(plain) and not _OWN_DANGER.search(plain):
        return Subject.CHILD if _CHILD.search(plain) else Subject.OTHER_ADULT
    if other and not _DISTANCED_SELF.search(_OTHER_PERSON.sub(" ", plain)):
        return Subject.CHILD if _CHILD.search(plain) else Subject.OTHER_ADULT
    return Subject.SELF
