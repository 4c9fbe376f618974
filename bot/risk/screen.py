"""The risk screen's text stage: raw text in, verdict out, with nothing but itself.

No parser, model or store is needed and none can keep it from running. It reads a message sentence by sentence,
undoes hidden spelling, looks for ideas, leaves out what is quoted, fictional, academic, denied or long past, and
combines the ideas of the message with those of the conversation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bot.risk import patterns
from bot.risk.normalise import LONGEST_SCREENED, normalise
from bot.risk.patterns import Patterns, Rule
from bot.risk.verdict import Category, RiskLevel, RiskState, Subject, Verdict, highest
from policies.attributes import Attribute

_SENTENCE = re.compile(r"[.!?;\n]+|(?:\bbut\b)|(?:\bhowever\b)|(?:\balthough\b)")
_NOT_REAL = re.compile(
    r"\b(?:(?:writing|write|wrote|reading|read|working on|drafting|directing|acting in|in) (?:a|an|my|the|this) (?:\w+ ){0,2}(?:novel|story|thriller|screenplay|script|play|song|poem|fanfic|book|comic|short story|film|movie|series|game|campaign|episode)"
    r"|my (?:\w+ )?(?:character|protagonist|villain|novel|screenplay|thesis|essay|dissertation|debate|d&d|dnd|psychology class|homework essay|survey|research)|the (?:villain|protagonist|character|plot|lyrics?|episode|film|movie|show|novel|documentary|podcast)\b"
    r"|lyrics?|screenplay|fanfic|plot of|historians?|van gogh|romeo|theories of|for (?:my|a|our) (?:\w+ )?(?:essay|exam|thesis|class|poster|course|paper|presentation|article|training|lecture|dissertation|project)"
    r"|(?:research|studies|statistics|policy|policies|legislation|guidelines|rates?|prevention|awareness|campaign|charity|volunteers?|moderat\w+|drafting|c ssrs|economists?|documentary)\b"
    r"|as an? (?:nurse|doctor|counsellor|counselor|teacher|social worker|paramedic|gp|therapist|journalist|librarian|student nurse)|im an? (?:\w+ )?(?:nurse|counsellor|counselor|teacher|social worker|paramedic|journalist|moderator|screenwriter|novelist|writer|psychology student)(?: \w+){0,8} (?:patient|policy|article|write|writing|drafting|students?|clients?|document)"
    r"|(?:in|playing) (?:minecraft|fortnite|valorant|the sims|skyrim|elden ring|gta|league|the game|game)|boss fight|respawn|speedrun)"
)
_DISTANCED_SELF = re.compile(r"\b(?:i|im|ive|me|my|myself)\b")
_STRONG_SELF = re.compile(
    r"\b(?:i am|im|i will|ill|ive decided|i have decided|i want to|i think of|i feel)\b(?: \w+){0,5} (?:kill myself|suicidal|end my life|die|hang myself|shoot myself|overdose|dead|hurt myself|using it)"
)
_QUOTED = re.compile(r"[\"“«][^\"”»\n]{0,400}[\"”»]")
_NEGATED = re.compile(
    r"\b(?:no|not|never|without|isnt|arent|wasnt|dont have|havent had|didnt have|neither|nor|deny|denies|denied|nothing like|far from|zero|none of)(?: (?:any|been|having|had|have|a|really|ever|actually|planning|about|talk of|history of|thoughts? of|thinking of|thinking about|going|to|feeling|wanting|want|trying|gonna|the))*$"
)
_FALSE_NEGATION = re.compile(
    r"\b(?:not (?:only|just|sure|that i|gonna lie)|no (?:one|lie|joke|doubt|matter)|cant not|no reason)\b"
)
_WELL_SINCE = re.compile(
    r"\b(?:well (?:for|since|now)|been well|all healed|healed now|recovered|in recovery|better now|fine now|doing (?:well|great|fine|better)|stable (?:now|since|for)|no longer|havent (?:since|done|felt)|never since|proud|finished (?:dbt|therapy|treatment)|got help|well supported|behind me|past it|clean (?:for )?(?:\w+ )?(?:years|decade)|year well|on the mend|good treatment)\b"
)
_BACK_AGAIN = re.compile(r"\b(?:again|creeping|urges?|relaps\w+|same feelings?|lately|these days)\b")
_JOKE_IDIOM = re.compile(
    r"\b(?:kill(?:ing|s|ed)? (?:it|two birds|time|the (?:mood|vibe|ants|bugs|weeds|lights|engine|process|tab)|for a|for an|for some|my (?:soul|vibe|feet|back|head|plants?|battery|wifi|appetite|mood|grades?|social life|bank account))|id kill for|kill for|to die for|die (?:of|from) (?:laugh\w*|laughter|embarrass\w*|shame|boredom|cringe|cuteness|curiosity|hunger|thirst|heat)|"
    r"(?:dying|die|died|dead) (?:laughing|of (?:laughter|embarrassment|boredom|curiosity|hunger|thirst|heat|cringe|shame)|to (?:see|know|meet|try|hear|eat|go)|inside (?:lol|haha))|dying to|im dead(?: lol| haha| 💀)?|dead (?:tired|serious|line|lift|end job|beat|pan|battery|phone|body in)|drop dead gorgeous|over my dead body|"
    r"(?:bored|scared|worried|freezing|starving|embarrassed|tickled|stressed|sick) to death|love (?:\w+ ){0,3}to death|death (?:by powerpoint|of me|trap of a|metal|stare|grip)|"
    r"(?:phone|battery|laptop|car|plant|plants|engine|wifi|signal|conversation|chat|fish|goldfish|tree|grass|lawn) (?:is |has |just |keeps? )?(?:died|dying|dead|die)|"
    r"(?:homework|essay|commute|boss|suspense|feet|back|head|traffic|wait|heat|shoes|job|work|weather|exam|deadline|mortgage|mosquitos?|diet|knee|knees|neighbou?rs?|noise|this (?:heat|game|show|song|class|job|week|traffic|homework))(?: \w+){0,4} (?:is|are|was|were) (?:\w+ )?(?:killing|murder|murdering|gonna kill|going to kill)|"
    r"(?:is|are) (?:slowly |literally |absolutely )?killing (?:me|my)|(?:boss|mum|mom|dad|wife|husband|teacher|parents|coach|girlfriend|boyfriend|roommate|manager|he|she|they)(?: \w+){0,2} (?:is going to|are going to|is gonna|will|would|ll|going to) (?:literally |actually )?kill me(?: if| when| for|$)|could murder a|murder a|shoot (?:me|you|them|him|her|us) (?:an?|your|the) (?:\w+ )?(?:email|text|message|dm|line|note)|shoot (?:the|a) (?:film|photo|video|scene|hoops?|wedding|portrait)|photo shoot|shooting (?:hoops|a film|stars?|guard)|"
    r"kill me now|slay\w*|bombed (?:my|the|that)|crush(?:ed|ing) it|destroy (?:him|her|them|the other team) in|blow (?:up|it up) (?:on|the internet)|overdos\w* on (?:chocolate|coffee|caffeine|sugar|netflix|cake|sun|pizza|memes)|(?:chocolate|coffee|cake|pizza|sugar|caffeine|pasta|carb) overdose|hang(?:ing)? (?:out|pictures?|curtains|a hammock|the washing|laundry|up on|around|in there|lights|shelves|clothes|posters?)|jump(?:ing)? (?:off (?:point|the (?:sofa|couch|diving|trampoline))|in front of the class|ship|the gun|in (?:the )?(?:pool|shower|puddles?)|off topic)|suicide squad|cut(?:ting)? (?:my )?(?:hair|hours|losses|carbs|costs|grass|nails|off|back|ties|bangs|fringe|sugar|calories|down)|"
    r"end (?:it|things) with (?:him|her|them|my)|end my (?:contract|lease|subscription|marriage|relationship|membership|tenancy|shift|internship|placement)|bury(?:ing)? myself in work|drown(?:ing)? (?:in|myself in) (?:paperwork|work|emails|homework|deadlines|debt|laundry|books)|crawl under a rock|eat glass than|starving (?:lol|haha|for))\b"
)
_BEREAVED = re.compile(
    r"\b(?:died by suicide|lost (?:\w+ ){0,5}to suicide|(?:killed|hanged|shot) (?:himself|herself|themself)|took (?:his|her|their) own life)\b"
)
_MADE_SAFE = re.compile(
    r"\b(?:i |ive |i have |we )?(?:gave|handed|given|locked away|flushed|threw (?:away|out)|got rid of|put away|returned|dropped off)(?: (?:her|him|them|it|my \w+|the|all|away|to|those|over)){0,4} (?:pills?|tablets?|meds|medication|gun|guns|rifle|knife|knives|blades?|razors?|rope)\b"
    r"|\b(?:took|takes|taken|has taken|hid|has|have|holding|keeping|keeps) (?:the |my |all |all my |those |them )*(?:pills?|tablets?|meds|medication|gun|guns|rifle|knives|blades?|rope)? ?(?:away|off me|from me|for me|with (?:her|him|them))\b"
    r"|\b(?:pills?|tablets?|meds|gun|guns|rifle|knives|blades?|rope)(?: \w+){0,2} (?:are|is) (?:gone|locked away|at (?:hers|his|theirs|my \w+s)|with (?:her|him|them|my \w+)|out of the house)"
)
"""Means made safe are the opposite of means at hand."""
_OTHER_PERSON = re.compile(
    r"\b(?:my (?:\w+ ){0,2}(?:friend|mate|bestie|brother|sister|mum|mom|mother|dad|father|son|daughter|kid|child|teen|teenager|niece|nephew|cousin|uncle|aunt|gran|grandma|grandad|grandfather|grandmother|husband|wife|partner|boyfriend|girlfriend|bf|gf|fiancee?|ex|roommate|housemate|flatmate|neighbou?r|colleague|coworker|student|pupil|patient|client|teacher|classmate)|a (?:friend|guy|girl|boy|student|colleague|classmate|patient))\b"
)
_CHILD = re.compile(
    r"\b(?:my (?:\w+ ){0,2}(?:son|daughter|kid|child|teen|teenager|stepson|stepdaughter|baby|toddler|boy|girl|pupil)|(?:\d|1[0-7]) ?(?:yo|year old)|my 1[0-7]|child|toddler|baby|pupil|student in my class)\b"
)
_LITERAL_ANSWER = re.compile(
    r"^\s*(?:(?:my )?(?:self ?harm(?: history)?|mental (?:state|health)|emotion(?:al state)?|mood))\s*(?:[?:=]|\bis\b)"
)
_NAMED = re.compile(
    r"^(?:my )?(?:self ?harm(?: history)?|mental (?:state|health)|emotion(?:al state)?|mood) ?[?:=]? *"
)
_ANSWER_NONE = re.compile(
    r"^(?:\w+ ){0,3}(?:none|no|never|nope|nah|nothing|not at all|n a|none known|no history|not ever|none ever|no never|none before(?: now)?|fine)\b(?: (?:known|ever|before|at all|really|thanks|nothing like that|never have|of that|that i know of))*[ .]*$"
)


@dataclass(frozen=True, slots=True)
class _Hit:
    rule: Rule
    level: RiskLevel
    note: str


class Screen:
    """The text stage. Holds nothing between calls; safe to share."""

    def __init__(self, known: Patterns | None = None) -> None:
        self._patterns = known or patterns.shipped()

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
            text: the raw text, of any length and language.
            state: what stuck from earlier turns.
            answering: the attribute whose question is open, if one is.
            profile_flags: ideas known from the profile, such as "postpartum".
        """
        state = state or RiskState()
        plain = normalise(text)
        about = answering or _named_attribute(text[:400].lower())
        not_real = bool(_NOT_REAL.search(plain)) or "not_real" in state.flags
        hits: list[_Hit] = []
        for sentence in _sentences(plain):
            hits.extend(self._in_sentence(sentence, plain, about=about, not_real=not_real))
        if not text.isascii():
            raw = unicodedata.normalize("NFKC", text[:LONGEST_SCREENED]).lower()
            anywhere = (r for r in self._patterns.rules if r.anywhere and r.patterns.search(raw))
            hits.extend(_Hit(rule, rule.level, rule.reason) for rule in anywhere)
        if about is not None:
            for part in re.split(r",|\band\b", text.lower()):
                clause = " ".join(normalise(part).split())
                hits.extend(
                    h
                    for h in self._in_sentence(clause, plain, about=about, not_real=not_real)
                    if h.rule.attributes
                )
        if _QUOTED.search(text) and hits:
            hits = self._leave_out_quoted(text, hits, about=about, not_real=not_real)
        flags = {hit.rule.idea for hit in hits}
        if not_real:
            flags.add("not_real")
        if _BEREAVED.search(plain):
            flags.add("bereaved")
        return self._combine(
            hits, frozenset(flags), state, frozenset(profile_flags), plain, not_real=not_real
        )

    def history(self, turns: Sequence[str]) -> RiskState:
        """The state that earlier messages of a conversation left."""
        from bot.risk import state as sticky  # noqa: PLC0415 (it needs this module's verdicts only)

        state = RiskState()
        for turn in turns:
            state = sticky.after(state, self.screen(turn, state=state), says_safe=False)
        return state

    def _in_sentence(
        self, sentence: str, whole: str, *, about: Attribute | None, not_real: bool
    ) -> Iterable[_Hit]:
        if about is not None and _ANSWER_NONE.match(_NAMED.sub("", sentence)):
            return
        cleaned = _MADE_SAFE.sub(" ~ ", _JOKE_IDIOM.sub(" ~ ", sentence))
        for rule in self._patterns.rules:
            if rule.anywhere:
                continue
            if rule.attributes and about not in rule.attributes:
                continue
            found = rule.patterns.search(cleaned)
            if not found:
                continue
            if rule.unless and rule.unless.search(cleaned):
                continue
            if rule.requires and not rule.requires.search(cleaned):
                continue
            if _is_denied(cleaned[: found.start()]) and rule.idea not in _NEGATIVE_IDEAS:
                continue
            level, note = rule.level, rule.reason
            if not_real:
                if not _STRONG_SELF.search(cleaned):
                    continue
                level = min(level, RiskLevel.ELEVATED, key=lambda known: known.rank)
            if rule.idea in _PAST_IDEAS and _WELL_SINCE.search(whole) and not _BACK_AGAIN.search(whole):
                continue
            yield _Hit(rule, level, note)

    def _leave_out_quoted(
        self, text: str, hits: list[_Hit], *, about: Attribute | None, not_real: bool
    ) -> list[_Hit]:
        """A quotation of others is not the person's own word; titles and lyrics least of all."""
        if not not_real:
            return hits
        outside = normalise(_QUOTED.sub(" ", text))
        kept: list[_Hit] = []
        for sentence in _sentences(outside):
            kept.extend(self._in_sentence(sentence, outside, about=about, not_real=not_real))
        return kept

    def _combine(
        self,
        hits: Sequence[_Hit],
        flags: frozenset[str],
        state: RiskState,
        profile_flags: frozenset[str],
        plain: str,
        *,
        not_real: bool,
    ) -> Verdict:
        level = highest(*(hit.level for hit in hits))
        why = next(
            (hit.note for hit in hits if hit.level is level and level is not RiskLevel.NONE), "nothing found"
        )
        rules = [hit.rule.name for hit in hits if hit.level is not RiskLevel.NONE]
        found = {hit.rule.category: hit.level for hit in sorted(hits, key=lambda h: h.level.rank)}
        seen = flags | profile_flags | (state.flags if not not_real else frozenset())
        for combination in self._patterns.combinations if not not_real else ():
            if combination.level.rank <= level.rank:
                continue
            news = any(part & flags for part in combination.parts)
            if news and all(part & seen for part in combination.parts):
                level, why = combination.level, combination.reason
                rules.append(combination.name)
                found[combination.category] = combination.level
        if level is RiskLevel.NONE:
            return Verdict(flags=flags, why="ideas alone" if flags else "nothing found")
        order = sorted(
            (c for c, known in found.items() if known is not RiskLevel.NONE),
            key=lambda c: (-found[c].rank, _ORDER[c]),
        )
        return Verdict(
            level=level,
            categories=tuple(order),
            subject=_subject(plain, hits),
            rules=tuple(dict.fromkeys(rules)),
            flags=flags,
            why=why,
        )


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


def _subject(plain: str, hits: Sequence[_Hit]) -> Subject:
    if any(hit.rule.about_other for hit in hits):
        return Subject.CHILD if _CHILD.search(plain) else Subject.OTHER_ADULT
    if any(hit.rule.category is Category.CHILD_ABUSE for hit in hits):
        return Subject.CHILD
    if _OTHER_PERSON.search(plain) and not _DISTANCED_SELF.search(_OTHER_PERSON.sub(" ", plain)):
        return Subject.CHILD if _CHILD.search(plain) else Subject.OTHER_ADULT
    return Subject.SELF
