"""The guard: every sentence out, from any model, in any framing.

No method, dose, lethality, place or concealment; no urging to harm; no phone number, address or link that is not in
our resources.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from bot.risk.normalise import normalise
from bot.risk.replies import ReplyJudge
from bot.risk.screen import Screen
from bot.risk.verdict import Category, RiskLevel
from policies.crisis import Directory

_LINK = re.compile(
    r"(?:https?://|www\.)[^\s)>\]]+|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?:com|org|net|info|co|uk|us|ca|au|de|fr|es|it|nl|io|gov|edu|me|app|help|chat|eu|int|line)\b(?:/[^\s)>\]]*)?",
    re.IGNORECASE,
)
_EMAIL = re.compile(
    r"[\w.+-]+\s*(?:@|\(at\)|\[at\])\s*[\w-]+\s*(?:\.|\(dot\)|\[dot\])\s*\w{2,}", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w£$€.,])(?:\+?\(?\d[\d\s().\-]{4,}\d)(?![\w%])")
_SHORT_CALL = re.compile(
    r"\b(?:call|dial|ring|phone|text|line|number|hotline|helpline)\b(?:\W+\w+){0,4}?\W+(\d{3,6})\b",
    re.IGNORECASE,
)
_HARM = re.compile(
    r"\b(?:lethal|fatal|deadly)\s+(?:dose|amount|quantity|combination|height|level)s?\b"
    r"|\b\d+(?:\.\d+)?\s*(?:mg|milligrams?|g|grams?|ml|pills?|tablets?|capsules?)\b[^.]{0,60}\b(?:kill|die|death|fatal|lethal|overdose|enough|never wake)\b"
    r"|\b(?:kill|die|death|fatal|lethal|overdose|never wake)\b[^.]{0,60}\b\d+(?:\.\d+)?\s*(?:mg|milligrams?|g|grams?|ml|pills?|tablets?|capsules?)\b"
    r"|\b(?:tie|knot|loop)\b[^.]{0,40}\b(?:noose|around (?:your|the) neck)\b|\bnoose\b"
    r"|\b(?:best|easiest|quickest|painless|most effective|sure|reliable|peaceful)\s+(?:way|method|place|spot|time|means)s?\s+(?:to|for)\s+(?:die|dying|kill|end (?:your|it)|suicide|hang|jump|cut|overdose|harm|disappear for good)\b"
    r"|\b(?:cut|slice|slit)\b[^.]{0,40}\b(?:vein|artery|arteries|along|lengthwise|deeper|wrists?)\b"
    r"|\b(?:jump|step|leap)\b[^.]{0,30}\b(?:from|off|in front of)\b[^.]{0,30}\b(?:bridge|building|roof|train|floor|cliff|balcony)\b"
    r"|\b(?:hide|conceal|cover up)\b[^.]{0,40}\b(?:cuts?|scars?|wounds?|bruises?|from (?:your )?(?:parents|doctor|partner|family|everyone))\b"
    r"|\b(?:hide|conceal|stash)\b[^.]{0,30}\b(?:pills|blade|razor|rope|gun|weapon)\b"
    r"|\b(?:skip|avoid) (?:being )?(?:found|interrupted|rescued)\b|\bso (?:that )?(?:no ?one|nobody) (?:finds|stops|interrupts)\b"
    r"|\b(?:you should|go ahead and|just|better to|you can|you could|maybe you should|time to)\s+(?:kill yourself|end your life|die|end it all|hurt yourself|cut yourself|overdose|disappear forever|jump)\b|\bkill yourself\b"
    r"|\b(?:they|everyone|your family|the world)(?: would| will|'d)? be better off without you\b|\bnobody (?:will|would) (?:care|miss you)\b"
    r"|\b(?:mix|combine|take|swallow)\b[^.]{0,50}\b(?:with|and)\b[^.]{0,30}\b(?:alcohol|vodka|bleach|ammonia|opioids?|benzos?)\b[^.]{0,40}\b(?:stop breathing|sleep forever|never wake|to die|for good|stronger|effect)\b"
    r"|\b(?:exhaust|carbon monoxide|helium|charcoal)\b[^.]{0,50}\b(?:car|garage|hose|bag|tent|room|sealed|breathe)\b"
    r"|\bsuicide note\b[^.]{0,40}\b(?:draft|here|example|template|dear|could say|you could write)\b|\b(?:here is|here's|draft of|example of)\b[^.]{0,30}\b(?:suicide|goodbye|farewell) (?:note|letter)\b"
    r"|\b(?:eat|stay|go) (?:only |under |below )?(?:[1-7]\d\d) ?(?:kcal|calories)\b|\b(?:laxatives?|vomit(?:ing)?|purg(?:e|ing))\b[^.]{0,40}\b(?:to lose|lose weight|after (?:meals|eating)|works|help you)\b"
    r"|\b(?:hit|slap|punish|threaten|stalk|follow|track)\s+(?:her|him|them)\b[^.]{0,40}\b(?:so|until|to make|teach|lesson)\b|\b(?:make|teach) (?:him|her|them) (?:pay|suffer|a lesson)\b"
    r"|\bcommitted suicide\b|\b(?:successful|failed) suicide\b",
    re.IGNORECASE,
)


log = logging.getLogger("raise.guard")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a sentence may not leave; never the sentence."""

    rule: str


_SPELT = re.compile(
    r"\b(?:(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|double|triple|hundred)[\s,-]+){5,}(?:zero|oh|one|two|three|four|five|six|seven|eight|nine|hundred)\b",
    re.IGNORECASE,
)
_HANDLE = re.compile(r"(?<![\w.])@[A-Za-z]\w{2,}")
_SPELT_LINK = re.compile(
    r"\b[\w-]+\s*(?:\[dot\]|\(dot\)|\s+dot\s+)\s*(?:com|org|net|info|uk|io|xyz|help|app|chat|gov|eu|line|site|online|me)\b",
    re.IGNORECASE,
)
_OTHER_LINK = re.compile(
    r"\b[a-z0-9-]{3,}\.(?:xyz|site|online|top|club|live|shop|tv|cc|biz|pro|link|page|dev|ai|ly|gg|to|ru|cn|in|jp|kr|br|mx|pl|se|tr|ie|nz|za|ch|at|be|dk|fi|no|pt|gr|cz)\b",
    re.IGNORECASE,
)
_CLAIMS = re.compile(
    r"\bi(?:'ve| have|'m| am)? ?(?:just |already |now )?(?:contact(?:ed|ing)|call(?:ed|ing)|alert(?:ed|ing)|notif(?:ied|ying)|inform(?:ed|ing)|dispatch(?:ed|ing)|sen[dt]|sending|reported|reporting)\b[^.]{0,40}\b(?:emergency|ambulance|police|paramedics?|services|help|crisis team|someone|your (?:family|mum|mom|parents|school|doctor|gp))\b"
    r"|\b(?:help|an ambulance|the police|a (?:crisis )?team) (?:is|are) on (?:its|their|the) way\b"
    r"|\b(?:best not to|no need to|don't|do not|never|you shouldn't|avoid) (?:tell(?:ing)?|mention(?:ing)?|bother(?:ing)?|involve|involving|call(?:ing)?|see(?:ing)?)\b[^.]{0,25}\b(?:doctor|gp|therapist|counsell?or|nurse|police|social worker|teacher|ambulance|999|911|112)\b(?![^.]{0,40}\b(?:if|unless|until|alone|by yourself)\b)"
    r"|\bi(?:'m| am) (?:a|your) (?:real |licen[cs]ed |qualified |trained )?(?:person|human|therapist|doctor|nurse|counsell?or|psychologist|psychiatrist)\b"
    r"|\byou (?:clearly |definitely |probably )?have (?:bipolar|borderline|schizophrenia|adhd|ptsd|clinical depression|major depress\w+|an eating disorder|psychosis)\b"
    r"|\b(?:stop|quit|come off|skip|halve|double) (?:taking )?(?:your|the) (?:meds|medication|medicine|tablets|pills|antidepressants?|lithium|insulin)\b(?![^.]{0,40}\b(?:without|unless|suddenly|before)\b)(?<!don't )(?<!not )",
    re.IGNORECASE,
)
_NOT_TO = re.compile(
    r"\b(?:don't|do not|never|not|please don't|before you|rather than)\s+(?:just |ever )?$", re.IGNORECASE
)


class Guard:
    """Checks one sentence at a time. Safe to share."""

    def __init__(
        self,
        screen: Screen,
        directory: Directory,
        *,
        judge: ReplyJudge | None = None,
        vetted: frozenset[str] = frozenset(),
    ) -> None:
        """Hold what is checked against.

        Args:
            screen: the text stage, for sentences that take the person's part.
            directory: the only numbers and addresses that may be shown.
            judge: a second look by meaning, which can only refuse; where it fails, the sentence is refused.
            vetted: texts we ship, which a test has passed through the judge; the patterns see them once.
        """
        self._judge, self._vetted = judge, vetted
        self._passed: set[str] = set()
        """Texts of ours that were let through: they are no different the next time."""
        self._screen = screen
        self._numbers = directory.numbers()
        self._hosts = directory.webs()

    def harms(self, sentence: str) -> Refusal | None:
        """Only what could harm: for a person's own words shown back to them, where numbers are theirs."""
        if _HARM.search(sentence) or _HARM.search(normalise(sentence)):
            return Refusal("harmful_content")
        return None

    def refuse(self, sentence: str) -> Refusal | None:
        """None when the sentence may be shown."""
        bare = sentence.removeprefix("- ")
        if bare not in self._vetted:
            return self._refusal(sentence, is_vetted=False)
        if bare in self._passed:
            return None
        found = self._refusal(sentence, is_vetted=True)
        if found is None:
            self._passed.add(bare)
        return found

    def _refusal(self, sentence: str, *, is_vetted: bool) -> Refusal | None:
        if harmful := self.harms(sentence):
            return harmful
        if _EMAIL.search(sentence) or _HANDLE.search(sentence):
            return Refusal("unknown_address")
        claim = _CLAIMS.search(sentence)
        if claim and not _NOT_TO.search(sentence[: claim.start()]):
            return Refusal("false_claim")
        if _SPELT.search(sentence):
            return Refusal("unknown_number")
        if _SPELT_LINK.search(sentence):
            return Refusal("unknown_link")
        for link in (*_LINK.finditer(sentence), *_OTHER_LINK.finditer(sentence)):
            host = re.sub(r"^(?:https?://)?(?:www\.)?|/.*$", "", link[0].lower()).rstrip(".,;:!?")
            if host not in self._hosts:
                return Refusal("unknown_link")
        for number in (*_NUMBER.findall(sentence), *_SHORT_CALL.findall(sentence)):
            digits = re.sub(r"\D", "", number)
            if digits not in self._numbers and not _is_no_phone(number, digits):
                return Refusal("unknown_number")
        if self._judge is not None and not is_vetted:
            try:
                if self._judge.is_other_language(sentence):
                    return Refusal("other_language")
                is_harmful = self._judge.is_harmful(sentence)
            except Exception as failed:  # noqa: BLE001 (fail closed: what cannot be judged is not shown)
                log.error("reply not judged: %s", type(failed).__name__)
                return Refusal("not_judged")
            if is_harmful:
                return Refusal("harmful_meaning")
        unquoted = re.sub(r"[\"“][^\"”]*[\"”]", " ", sentence)
        if _FIRST_PERSON.search(unquoted):
            verdict = self._screen.screen(unquoted)
            if verdict.level is RiskLevel.IMMINENT and verdict.categories[0] in _NEVER_SPOKEN:
                return Refusal("risk_screen")
        return None


_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i'll|i've|my|me|we)\b", re.IGNORECASE)
_NEVER_SPOKEN = (Category.SUICIDE, Category.SELF_INJURY, Category.HARM_TO_OTHERS)
"""A reply that speaks in the first person of these dangers has taken the person's part; warnings are no danger."""


def _is_no_phone(written: str, digits: str) -> bool:
    """A year, a span of years, a date or an amount, not a number to call."""
    plain = written.strip()
    return bool(
        re.fullmatch(r"(?:19|20)\d\d(?:\s*[-–]\s*(?:19|20)?\d\d)?", plain)
        or re.fullmatch(r"\d{1,3}(?:[ ,]\d{3})+", plain)
        or re.fullmatch(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}|\d{4}-\d\d-\d\d", plain)
        or re.fullmatch(r"\d{1,2}\s*[-–]\s*\d{1,3}", plain)
        or len(digits) < 3
    )
