"""The reading stage: what the parse adds to the text stage.

It *raises*: rules over clauses (`policies/crisis/clauses.yaml`) see who does what to whom, in any order of words. It
*lowers* in one way only: "imminent" becomes "elevated" where the parse shows that every clause that tells of the danger
is denied, told of a time past, or said by somebody else in quotation marks. It never lowers to none, and without a
reading the verdict of the text stage stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from bot.risk.verdict import Category, RiskLevel, Subject, Verdict, highest
from policies.errors import PolicyFileError
from policies.files import read_yaml
from privacy.reading import Clause, Modality, Person, Reading, Tense

_ALLOWED = frozenset({
    "name", "idea", "category", "level", "reason", "verb", "object", "around", "governor", "not_around", "person",
    "tense", "modality", "doer", "denied", "requires", "examples",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseRule:
    """One idea, as the parse shows it. An empty set asks nothing.

    Attributes:
        verb: lemmas of the clause's verb.
        objects: lemmas of what it is done to.
        around: lemmas anywhere in the clause.
        governors: verbs above it.
        never: lemmas that rule it out.
        doers: lemmas of the subject.
        requires: lemmas that must stand in the clause besides.
        is_denied: it fires only on denied clauses.
    """

    name: str
    idea: str
    category: Category
    level: RiskLevel
    reason: str
    verb: frozenset[str]
    objects: frozenset[str]
    around: frozenset[str]
    governors: frozenset[str]
    never: frozenset[str]
    doers: frozenset[str]
    requires: frozenset[str]
    person: frozenset[Person]
    tense: frozenset[Tense]
    modality: frozenset[Modality]
    is_denied: bool
    examples: tuple[str, ...]

    def fits(self, clause: Clause) -> bool:
        """Whether the clause says this."""
        return (
            clause.verb in self.verb
            and clause.negated is self.is_denied
            and not clause.quoted
            and (not self.person or clause.person in self.person)
            and (not self.tense or clause.tense in self.tense)
            and (not self.modality or clause.modality in self.modality)
            and (not self.doers or clause.doer in self.doers)
            and (not self.objects or bool(clause.objects & self.objects))
            and (not self.governors or bool(self.governors & set(clause.governors)))
            and (not self.around or bool(clause.around & self.around))
            and (not self.requires or bool((clause.around | {clause.doer}) & self.requires))
            and not (clause.around & self.never)
        )


def load(path: Path) -> tuple[ClauseRule, ...]:
    """Read a file of clause rules.

    Raises:
        PolicyFileError: it is malformed; the message names the rule and the key.
    """
    raw = read_yaml(path)
    words: Mapping[str, Sequence[str]] = raw["words"]
    rules = tuple(_rule(path, entry, words) for entry in raw["rules"])
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PolicyFileError(f"{path}: two rules are named {twice}")
    return rules


def _rule(path: Path, entry: Mapping[str, Any], words: Mapping[str, Sequence[str]]) -> ClauseRule:
    name = entry.get("name", "?")
    unknown = set(entry) - _ALLOWED
    if unknown:
        raise PolicyFileError(f"{path}: rule {name}: unknown key {sorted(unknown)[0]}")

    def lemmas(key: str) -> frozenset[str]:
        found: list[str] = []
        for word in entry.get(key, ()):
            if not isinstance(word, str):
                raise PolicyFileError(
                    f"{path}: rule {name}: {key}: quote {word!r}, YAML takes it for no text"
                )
            if word.isupper() and word.isascii():
                if word not in words:
                    raise PolicyFileError(f"{path}: rule {name}: {key}: no vocabulary {word}")
                found.extend(words[word])
            else:
                found.append(word)
        return frozenset(found)

    try:
        if not entry["reason"] or not entry["verb"]:
            raise PolicyFileError(f"{path}: rule {name} has no verb or no reason")
        return ClauseRule(
            name=entry["name"],
            idea=entry["idea"],
            category=Category(entry["category"]),
            level=RiskLevel(entry["level"]),
            reason=entry["reason"],
            verb=lemmas("verb"),
            objects=lemmas("object"),
            around=lemmas("around"),
            governors=lemmas("governor"),
            never=lemmas("not_around"),
            doers=lemmas("doer"),
            requires=lemmas("requires"),
            person=frozenset(Person(p) for p in entry.get("person", ())),
            tense=frozenset(Tense(t) for t in entry.get("tense", ())),
            modality=frozenset(Modality(m) for m in entry.get("modality", ())),
            is_denied=bool(entry.get("denied", False)),
            examples=tuple(entry.get("examples", ())),
        )
    except (KeyError, ValueError) as bad:
        raise PolicyFileError(f"{path}: rule {name}: {bad}") from bad


@lru_cache(maxsize=1)
def shipped() -> tuple[ClauseRule, ...]:
    """The rules that ship."""
    return load(Path(str(resources.files("policies") / "crisis" / "clauses.yaml")))


# The acts a text-stage verdict may be about, for lowering: their verbs, as lemmas.
_ACTS: Mapping[str, frozenset[str]] = {
    "intent": frozenset(
        {"kill", "hang", "shoot", "drown", "end", "jump", "overdose", "commit", "die", "take"}
    ),
    "harm_intent": frozenset({"kill", "stab", "shoot", "hurt", "strangle", "murder", "beat"}),
    "attempt_now": frozenset({"take", "swallow", "overdose", "cut", "hang", "jump", "drink"}),
}
_STILL = frozenset({"now", "tonight", "today", "again", "still", "tomorrow", "soon", "lately", "currently"})


class ReadingStage:
    """Deepens a verdict with the parse. Holds rules only; safe to share."""

    def __init__(self, rules: Iterable[ClauseRule] | None = None) -> None:
        self._rules = tuple(shipped() if rules is None else rules)
        self._by_verb: dict[str, list[ClauseRule]] = {}
        for rule in self._rules:
            for verb in rule.verb:
                self._by_verb.setdefault(verb, []).append(rule)

    def deepen(self, reading: Reading, verdict: Verdict, *, not_real: bool) -> Verdict:
        """The verdict with what the parse shows.

        Args:
            reading: of this message.
            verdict: of the text stage.
            not_real: fiction, research or a quotation, which the text stage has judged.
        """
        if not_real:
            return verdict
        if verdict.level is RiskLevel.IMMINENT:
            return self._lowered(reading, verdict)
        hits = [r for c in reading.clauses for r in self._by_verb.get(c.verb, ()) if r.fits(c)]
        if not hits:
            return verdict
        top = max(hits, key=lambda rule: rule.level.rank)
        flags = verdict.flags | {rule.idea for rule in hits}
        names = tuple(
            dict.fromkeys((*verdict.rules, *(r.name for r in hits if r.level is not RiskLevel.NONE)))
        )
        if top.level.rank <= verdict.level.rank:
            return replace(verdict, flags=flags, rules=names)
        found = tuple(dict.fromkeys((top.category, *verdict.categories)))
        return replace(
            verdict,
            level=highest(top.level, verdict.level),
            categories=found,
            rules=names,
            flags=flags,
            why=top.reason,
            subject=Subject.CHILD if top.category is Category.CHILD_ABUSE else verdict.subject,
        )

    def _lowered(self, reading: Reading, verdict: Verdict) -> Verdict:
        """Imminent to elevated, where every clause about the act is denied, past or another's words."""
        kinds = [acts for idea, acts in _ACTS.items() if idea in verdict.flags]
        if len(verdict.rules) != 1 or len(kinds) != 1:
            return verdict
        told = [c for c in reading.clauses if c.verb in kinds[0]]
        if not told or any(w.lemma in _STILL for w in reading.words):
            return verdict
        reasons = [_why_not_now(clause) for clause in told]
        if not all(reasons):
            return verdict
        return replace(verdict, level=RiskLevel.ELEVATED, why=f"lowered: {reasons[0]}")


def _why_not_now(clause: Clause) -> str:
    if clause.negated:
        return "the person says that they will not"
    if clause.quoted:
        return "somebody else's words, in quotation marks"
    if clause.tense is Tense.PAST and clause.modality is not Modality.WISHED and "go" in clause.governors:
        return "a plan told of as past"
    return ""
