"""What a person lets themselves be asked: "ask me at most one thing", "never about my health".

Read from their words by rule, whatever model speaks, so that no model can overlook it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from policies.attributes import Attribute

_NUMBERS = {
    "no": 0,
    "any": 0,
    "zero": 0,
    "one": 1,
    "a": 1,
    "two": 2,
    "a couple": 2,
    "a couple of": 2,
    "three": 3,
    "four": 4,
}
_NUMBER = r"(?P<n>no|any|zero|one|two|three|four|a couple(?: of)?|a|\d)"
_THING = r"(?:single )?(?:more )?(?:questions?|things?)"
_MOST_OF = r"(?:at most|only|just|no more than|up to|not more than|max(?:imum)?(?: of)?)"
_STARTS = r"(?:^|[.,;:!?] |\b(?:and|but|so|please|also|ok|okay) |\b(?:please|ok|okay),? )(?:please |just |but |and |so )*"
"""Where a wish may begin: what is told of others ("they never ask about my work") has its subject before it."""
_YOU = (
    r"(?:you (?:can|may|could|should|must) (?:only |just )?|id (?:like|want|prefer) you to |i want you to )?"
)
_MOST = [
    re.compile(p)
    for p in (
        rf"{_STARTS}{_YOU}ask(?: me)?(?: about)? {_MOST_OF} {_NUMBER}(?: {_THING})?\b",
        rf"{_STARTS}{_MOST_OF.replace('|just', '').replace('|only', '')} {_NUMBER} (?:more )?questions?\b",
        rf"{_STARTS}{_YOU}ask(?: me)? {_NUMBER} {_THING} (?:at (?:the )?most|max(?:imum)?|only|and no more)\b",
        rf"{_STARTS}(?:dont|do not|never|stop) ask(?:ing)?(?: me)? (?:(?P<n>any)(?:thing)?|(?P<no>questions))(?: (?:else|more|questions?|at all|about me|personal))*\s*(?:$|[.!,;])",
        rf"{_STARTS}(?P<n>no) (?:more )?(?:personal )?questions(?: please)?\s*(?:$|[.!,;])",
    )
]
_LIFTS = re.compile(
    rf"{_STARTS}(?:you (?:can|may) )?ask(?: me)? (?:anything|whatever|as (?:much|many)|more(?: questions)?|again|what you (?:need|like|want))(?: .{{0,40}})?$"
)
_ABOUT: dict[Attribute, str] = {
    Attribute.AGE: r"age|how old i am|birthday|year of birth",
    Attribute.GENDER: r"gender|sex|sexuality",
    Attribute.MARITAL_STATUS: r"marriage|relationship|relationships|partner|husband|wife|family|kids|children|private life|love life|family situation",
    Attribute.PROFESSION: r"job|work|profession|employer|boss|studies|career",
    Attribute.ECONOMIC_STATUS: r"money|finances|financial situation|income|salary|debts?|savings|bank account",
    Attribute.EDUCATION: r"education|school|schooling|degree|grades",
    Attribute.HEALTH: r"health|physical health|body|medical (?:history|stuff|things|conditions?)|illness(?:es)?|medication|medicines?",
    Attribute.MENTAL_STATE: r"mental health|mental state|state of mind|mind|mood|psych(?:ology|e)|depression|diagnos(?:is|es)",
    Attribute.SELF_HARM_HISTORY: r"self[- ]?harm|hurting myself|suicid(?:e|al)(?: thoughts| history)?|my past attempts?|attempts?|scars",
    Attribute.EMOTION: r"feelings?|emotions?|how i feel|how im feeling",
}
_SUBJECT = "|".join(f"(?P<{a.value}>{words})" for a, words in _ABOUT.items())
_ANYTHING = r"(?:(?:any(?:thing)?|questions?|stuff|things|more) )*"
_REFUSES = re.compile(
    r"(?:"
    rf"{_STARTS}(?:you (?:must|should|may|can) )?(?:dont|do not|never|stop|not|cannot|cant)(?: ever)? ask(?:ing)?(?: me)? {_ANYTHING}(?:about|on|into)"
    rf"|{_STARTS}(?:dont|do not|never|stop)(?: ever)? (?:bring(?:ing)? up|mention(?:ing)?|go(?:ing)? into|talk(?:ing)? about)"
    rf"|{_STARTS}(?:no |never |nothing |not ){_ANYTHING}(?:about|on)"
    rf"|{_STARTS}(?:leave|keep)"
    r"|\b(?:id|i would) rather (?:you (?:didnt|did not|dont|do not) (?:ask|talk)(?: me)?(?: anything)? about|not (?:talk about|discuss|be asked about|answer (?:questions )?about))"
    r"|\bi (?:wont|will not|dont want to|do not want to|refuse to) (?:be asked about|answer (?:questions )?about|(?:talk about|discuss)(?= [a-z ]+ (?:here|with you|now)\b| [a-z ]+$))"
    r") (?P<what>[a-z ,'-]{2,80})"
)
_OFF_LIMITS = re.compile(
    r"(?P<what>[a-z ,'-]{2,60}) (?:is|are) (?:off[- ]limits|none of your business|not up for discussion|private)\b"
)
_LEFT_OUT = re.compile(r"^(?:my |the )?[a-z' -]+?(?: out| private| to myself)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A person's own limits.

    Attributes:
        most: questions that may still be asked; None where nothing was said of it.
        never: what is not to be asked about.
        is_lifted: the number said before holds no more; what was never to be asked about still is not.
        is_all: the message says nothing else, so that no answer is to be read from it.
    """

    most: int | None = None
    never: frozenset[Attribute] = frozenset()
    is_lifted: bool = False
    is_all: bool = field(default=False, compare=False)


def heard(text: str) -> Limits | None:
    """The limits that a message sets or lifts, or None."""
    plain = re.sub(r"\s+", " ", text.lower().replace("’", "'").replace("'", "")).strip()
    rest, most = plain, None
    for pattern in _MOST:
        found = pattern.search(plain)
        if found:
            number = found.groupdict().get("n") or "no"
            most = int(number) if number.isdigit() else _NUMBERS[number]
            rest = rest.replace(found[0], " ")
            break
    never: set[Attribute] = set()
    told = " ".join(s for s in re.split(r"(?<=[.!?])\s+", plain) if not s.endswith("?"))
    for found in (*_REFUSES.finditer(told), *_OFF_LIMITS.finditer(told)):
        lead, what = found[0][: found.start("what") - found.start()], found["what"]
        if lead.split()[-1:] in (["leave"], ["keep"]) and not _LEFT_OUT.search(what):
            continue
        named = _named(what, whole=found.re is _OFF_LIMITS)
        if named:
            rest = rest.replace(found[0], " ")
        never |= named
    if Attribute.HEALTH in never and re.search(r"(?<!physical )(?<!mental )\bhealth\b", told):
        never |= {Attribute.MENTAL_STATE, Attribute.SELF_HARM_HISTORY}  # health, unqualified, is all of it
    lifts = None if most is not None or never else _LIFTS.search(plain)
    if most is None and not never and lifts is None:
        return None
    if lifts is not None:
        rest = rest.replace(lifts[0], " ")
    is_all = len(re.findall(r"\w+", rest)) <= 1
    return Limits(most=most, never=frozenset(never), is_lifted=lifts is not None, is_all=is_all)


def _named(what: str, *, whole: bool) -> set[Attribute]:
    """The attributes named at the start of a phrase, joined by "or", "and" and commas; at its end where `whole`."""
    parts = re.split(r",| or | and | nor ", what)
    found: set[Attribute] = set()
    for part in parts:
        said = part.strip()
        if not said:
            continue
        if whole:
            match = re.search(rf"(?:my |the )?(?:{_SUBJECT})$", said)
        else:
            match = re.match(
                rf"(?:my |the |any of my |personal )?(?:{_SUBJECT})(?: (?:out|private|to myself|at all|please|again|either|stuff|things|history).*)?$",
                said,
            )
        if match is None:
            if not found:
                continue
            break
        found |= {Attribute(name) for name, value in match.groupdict().items() if value}
    return found
