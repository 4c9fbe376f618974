"""The built-in model: deterministic, no network, no key.

It understands with a sentence encoder and small classifiers trained on lines that we wrote, and composes replies
from cited guidance that fits the profile. It knows what it was given and says so.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from bot import country, interview
from bot.aside import aside
from bot.errors import ModelUnavailable
from bot.interview import Reader
from bot.messages import messages
from bot.models.protocol import Draft
from bot.models.usage import Budget
from bot.risk.verdict import Category, RiskLevel, Subject
from bot.session import Session
from bot.understanding import Assessment, Intent, Understood
from policies import classifiers, crisis, guidance, lexicon, questions
from policies.attributes import SPECS, Attribute, Standing
from policies.classifiers import Trained, ngrams
from policies.domains import Domain, Stakes
from policies.encoder import Encoder, Vectors
from policies.guidance import Block, Group
from policies.planning import library as libraries
from policies.planning.library import Library
from policies.planning.retrieval import Retrieval
from policies.planning.starter import PathLibrary, starter_entries, vectors_of
from policies.questions import Question

LONGEST_REPLY = 248
"""Words of a reply, headings and questions included."""
NEIGHBOURS, NEIGHBOURS_OF_A_DOMAIN = 25, 60
SHARPNESS, NEIGHBOURS_SAY, WORDS_SAY = 12.0, 0.6, 0.7
"""How sharply nearness decides a neighbour's vote; how much the neighbours' domains and the words count beside the meaning."""
PLANS_SAY = 2.0
"""How much the planned policies count beside the classifier of the first attribute."""
UNSURE, SURE_ALONE = 0.35, 0.75
"""Confidence below which words that tell of nobody are not taken for a problem, and below which a short message after
an answer is taken to belong to it."""
SAME_TOPIC = 0.45
"""Cosine above which a new question belongs to the topic that was just answered."""


class GuidedModel:
    """Implements `LanguageModel` with what ships. Holds no conversation; safe to share."""

    name = "guided"

    def __init__(
        self,
        encoder: Encoder,
        *,
        trained: Trained | None = None,
        minimum_age: int = 18,
        library: Library | None = None,
        cache: Path | None = None,
    ) -> None:
        """Hold what ships, or what was given.

        Args:
            encoder: of sentences.
            trained: classifiers.
            minimum_age: below it the conversation changes.
            library: planned paths; those that ship where None.
            cache: a folder that keeps the vectors of a library that is not ours.
        """
        self._encoder = encoder
        trained = trained or classifiers.shipped()
        self._reader = Reader(encoder, trained)
        self._guidance = guidance.shipped()
        self._questions = questions.shipped()
        self._countries = crisis.shipped()
        self._minimum_age = minimum_age
        self._library = PathLibrary(starter_entries(), trained.vectors("library"))
        planned = library or libraries.shipped()
        vectors = vectors_of(planned, self._library, encoder, cache)
        self._retrieval = Retrieval(planned, vectors, by="the built-in encoder")
        self._group = trained.linear("group")
        self._words = trained.linear("words")
        self._stakes = trained.linear("stakes")
        self._stakes_words = trained.linear("stakes_words")
        self._first = trained.linear("first")
        self._line_vectors: dict[str, Vectors] = {}
        self._block_vectors = dict(
            zip((b.id for b in self._guidance.all_blocks()), trained.vectors("blocks"), strict=True)
        )

    def _line_vector(self, line: str) -> Vectors:
        """The vector of a line that we ship, encoded once."""
        if line not in self._line_vectors:
            self._line_vectors[line] = self._encoder.encode([line])[0]
        return self._line_vectors[line]

    # ------------------------------------------------------------------------------------------- understanding

    async def understand(
        self,
        text: str,
        session: Session,
        *,
        at: datetime,
        chosen: bool,
        budget: Budget | None = None,  # noqa: ARG002 (it costs nothing)
        hurry: bool = False,  # noqa: ARG002 (it is always quick)
    ) -> Understood:
        """Read one message: intent, facts, and an assessment where it asks or tells of a problem.

        In a thread of its own, as all that takes milliseconds here: others' conversations go on meanwhile.
        """
        return await aside(self._understood, text, session, at=at, chosen=chosen)

    def _understood(self, text: str, session: Session, *, at: datetime, chosen: bool) -> Understood:
        vector = self._encoder.encode([text])[0]
        pending = session.pending.attribute if session.pending else None
        domain = session.topic.assessment.domain if session.topic else Domain.LIFE
        confidence = session.topic.assessment.confidence if session.topic else 0.0
        read = self._reader.read(
            text,
            vector,
            at=at,
            pending=pending,
            profile=session.profile,
            question=self._questions.worded(pending, domain, confidence, is_disclosed=session.has_disclosed)
            if pending
            else None,
            chosen=chosen,
        )
        if session.plan is not None and session.plan.is_open and self._reader.stops(text):
            return Understood(intent=Intent.STOP_PLAN)
        if session.plan is not None and session.plan.is_open and self._reader.skips(text):
            return Understood(intent=Intent.DECLINE)
        if session.plan is not None and session.plan.is_open and self._reader.has_nobody(text):
            return Understood(intent=Intent.ANSWER, has_nobody=True)
        if session.risk.level is RiskLevel.NONE and read.intent in _AFTER_A_CARD:
            read = replace(read, intent=Intent.OTHER)
        is_minor = (read.age_years is not None and read.age_years < self._minimum_age) or any(
            answer.tags & {"child", "teen"} for a, answer in read.facts.items() if a is Attribute.AGE
        )
        understood = Understood(intent=read.intent, facts=read.facts, is_minor=is_minor)
        named = country.named(text, self._countries)
        if named.is_all:
            return replace(understood, country=named.code, intent=Intent.COUNTRY, facts={})
        understood = replace(understood, country=named.code)
        if pending is None and is_not_english(text) and self._encoder.pieces(text) > 1.5 * len(text.split()):
            return replace(understood, intent=Intent.NOT_ENGLISH, facts={})
        if pending is not None and read.intent is not Intent.QUESTION:
            return understood
        if read.intent not in (
            Intent.OTHER,
            Intent.QUESTION,
            Intent.ANSWER,
            Intent.CORRECTION,
            Intent.JUST_ANSWER,
            Intent.NONSENSE,
        ):
            return understood
        topic = session.topic
        said = interview.plain(text)
        if topic is not None and topic.settled:
            asks = interview.looks_like_question(text)
            if not asks and read.facts and len(said.split()) <= 14:
                return understood
            if read.intent is Intent.CORRECTION and read.facts and not asks:
                return understood
            if read.intent in (Intent.JUST_ANSWER, Intent.NONSENSE) or (not asks and len(said.split()) < 4):
                return understood
        elif read.intent is Intent.JUST_ANSWER or (
            read.intent is Intent.NONSENSE and read.intent_confidence >= 1.0
        ):
            return understood
        if (
            len(said.split()) <= 2
            and not interview.looks_like_question(text)
            and (topic is None or topic.settled)
        ):
            return understood
        assessment = self.assess(text, vector)
        changes = interview.opens_new_topic(text)
        told_of_self = re.search(r"\b(?:i|im|ive|my|me|we|our)\b", said)
        if assessment.confidence < UNSURE and not told_of_self and not interview.looks_like_question(text):
            return understood
        is_new = True
        if topic is not None:
            near = float(vector @ self._encoder.encode([topic.query])[0])
            same = assessment.domain is topic.assessment.domain and assessment.group == topic.assessment.group
            short = len(said.split()) <= 12
            leans = short and (interview.follows_up(text) or assessment.confidence < SURE_ALONE)
            is_new = changes or not (leans or near >= SAME_TOPIC or (same and near > 0.2))
            if short and not is_new:
                assessment = topic.assessment
        return replace(understood, assessment=assessment, is_new_topic=is_new, changes_subject=changes)

    def assess(self, text: str, vector: Vectors | None = None, *, domain: Domain | None = None) -> Assessment:
        """Domain, scenario group, stakes and what the answer hangs on; the group within a domain where that is given.

        The weights are votes of two voices: the policies of the nearest planned queries (paper, appendix D.4), and a
        classifier of the first attribute. The policy is the nearest queries' own, with its worth shared out by these.
        """
        vector = self._encoder.encode([text])[0] if vector is None else vector
        by_group = self._group.probabilities(vector)
        columns, values = ngrams(text)
        by_words = dict(
            zip(self._words.labels, self._words.sparse_probabilities(columns, values), strict=True)
        )
        domains = dict.fromkeys(Domain, 1e-9)
        for label, p in zip(self._group.labels, by_group, strict=True):
            domains[Domain(label.split("/")[0])] += float(p)
        wide = self._library.nearest(vector, NEIGHBOURS_OF_A_DOMAIN)
        pulls = np.exp(SHARPNESS * np.array([n.similarity for n in wide]))
        around = dict.fromkeys(Domain, 1e-3)
        for neighbour, pull in zip(wide, pulls / pulls.sum(), strict=True):
            around[neighbour.planned.domain] += float(pull)
        pooled = {
            d: p * around[d] ** NEIGHBOURS_SAY * float(by_words[d.value]) ** WORDS_SAY
            for d, p in domains.items()
        }
        total = sum(pooled.values())
        domain = domain or max(pooled, key=lambda d: pooled[d])
        inside = [
            (label, float(p))
            for label, p in zip(self._group.labels, by_group, strict=True)
            if label.startswith(domain.value + "/")
        ]
        group = max(inside, key=lambda item: item[1])[0].split("/")[1]

        near = wide[:NEIGHBOURS]
        votes = np.exp(SHARPNESS * np.array([n.similarity for n in near]))
        votes /= votes.sum()
        spelled = self._stakes_words.sparse_probabilities(columns, values)
        low_by_words = float(spelled[self._stakes_words.labels.index(Stakes.LOW.value)])
        stakes = self._vote_stakes(vector, [n.planned.stakes for n in near], votes.tolist(), low_by_words)
        weights: dict[Attribute, float] = {}
        found = self._retrieval.policy_for(vector, domain=domain, sure=pooled[domain] / total)
        first = dict(zip(self._first.labels, self._first.probabilities(vector), strict=True))
        voices: list[tuple[Mapping[Attribute, float], float]] = [
            (found.shares, PLANS_SAY),
            ({a: float(first.get(a.value, 0.0)) for a in Attribute}, 1.0),
        ]
        for voice, say in voices:
            for attribute, w in voice.items():
                weights[attribute] = weights.get(attribute, 0.0) + say * w
        share = sum(weights.values()) or 1.0
        ranked = sorted(((a, w / share) for a, w in weights.items()), key=lambda item: (-item[1], item[0]))
        kept = {} if stakes is Stakes.LOW else dict(ranked[:6])
        return Assessment(
            domain=domain,
            group=group,
            stakes=stakes,
            weights=kept,
            confidence=pooled[domain] / total,
            policy=found.policy.shared_out(dict(ranked)) if kept else None,
            planned_by=found.source.value if kept else "",
        )

    def _vote_stakes(
        self, vector: Vectors, near: Sequence[Stakes], votes: Sequence[float], low_by_words: float
    ) -> Stakes:
        """Low where meaning, neighbours and words agree enough that it is; high where it is not plain that it is not."""
        told = dict(zip(self._stakes.labels, self._stakes.probabilities(vector), strict=True))
        around = {s: sum(v for n, v in zip(near, votes, strict=True) if n is s) for s in Stakes}
        share = {s: 0.5 * float(told[s.value]) + 0.5 * around[s] for s in Stakes}
        if (float(told[Stakes.LOW.value]) + 2 * around[Stakes.LOW] + low_by_words) / 4 >= LOW_ENOUGH:
            return Stakes.LOW
        if share[Stakes.MODERATE] >= MODERATE_ENOUGH and share[Stakes.HIGH] < NOT_HIGH:
            return Stakes.MODERATE
        return Stakes.HIGH

    # ------------------------------------------------------------------------------------------- composing

    async def word(
        self,
        question: Question,
        session: Session,  # noqa: ARG002 (the written words fit any)
        *,
        variant: int,
        budget: Budget | None = None,  # noqa: ARG002
    ) -> str:
        """The question as it is written."""
        return question.phrasing(variant)

    async def compose(
        self,
        session: Session,
        *,
        follow_up: str,
        budget: Budget | None = None,  # noqa: ARG002 (it costs nothing)
    ) -> AsyncGenerator[str | Draft, None]:
        """The whole answer at once, as a draft.

        Raises:
            ModelUnavailable: there is no guidance for it.
        """
        yield await aside(self.draft, session, follow_up=follow_up)

    def draft(self, session: Session, *, follow_up: str) -> Draft:
        """Acknowledge, name the risk this profile carries, give two to four steps that fit, say what would change it."""
        topic = session.topic
        if topic is None:
            raise ModelUnavailable("no topic is open")
        assessment = topic.assessment
        group = self._guidance.groups.get((assessment.domain, assessment.group))
        if group is None:
            raise ModelUnavailable(f"no guidance for {assessment.domain.value}/{assessment.group}")
        query = self._encoder.encode([follow_up or topic.query])[0]
        tags = profile_tags(session)
        domain, group = self._refitted(session, assessment.domain, group)
        likely = self._likely_groups(query, domain, group.name)
        own = [
            b
            for b in self._guidance.blocks[domain]
            if b.applies(tags)
            and (group.name in b.groups or (b.groups & likely.keys() and self._near(b, query) >= ALSO_NEAR))
        ]
        light = assessment.stakes is Stakes.LOW and session.risk.level is RiskLevel.NONE
        common = [] if light else [b for b in self._guidance.common if b.applies(tags)]
        shown = frozenset(topic.shown)
        found = self._for_follow_up(domain, query, tags, shown) if follow_up else []
        if light:
            own = [b for b in own if self._near(b, query) >= LOW_NEAR]
            if len(own) < LOW_FEWEST:
                return Draft(sentences=(messages()["no_guidance"],), used=())
        if follow_up and not found:
            fresh = [
                b for b in own if b.slot == "step" and b.id not in shown and self._near(b, query) >= LOW_NEAR
            ]
            found = sorted(fresh, key=lambda b: (-self._near(b, query), b.id))[:2]
            if not found:
                help_from = self._guidance.humans[group.human[0]]
                text = messages()["no_guidance_follow_up"].format(label=help_from.label, how=help_from.how)
                return Draft(sentences=(text,), used=())
        chosen = found or self._choose(own, common, query, tags, likely=likely, shown=shown)
        sentences = self._write(session, group, chosen, follow_up=follow_up)
        used = tuple(
            a
            for a in Attribute
            if any(a.value in block.when for block in chosen)
            or (a is Attribute.EMOTION and session.profile.tags(a))
            or (
                a is Attribute.HEALTH
                and any(block.when.get("mental_state", frozenset()) & _FROM_HEALTH for block in chosen)
            )
        )
        return Draft(
            sentences=sentences,
            used=tuple(a for a in used if session.profile.tags(a)),
            sources=tuple(dict.fromkeys(b.source for b in chosen)),
            blocks=tuple(b.id for b in chosen),
        )

    def _refitted(self, session: Session, domain: Domain, group: Group) -> tuple[Domain, Group]:
        """The group the answer comes from: another one for a child among parents, or for worry about someone else."""
        name = _FOR_MINORS.get(group.name, "") if session.is_minor else ""
        risk = session.risk
        other = risk.subject in (Subject.CHILD, Subject.OTHER_ADULT)
        if risk.level is RiskLevel.ELEVATED and other and risk.categories[:1] in _ABOUT_SOMEONE:
            name = "someone_at_risk"
        found = self._guidance.groups.get((Domain.RELATIONSHIP, name))
        return (Domain.RELATIONSHIP, found) if found else (domain, group)

    def _likely_groups(self, query: Vectors, domain: Domain, first: str) -> dict[str, float]:
        """Groups of a domain that the question may belong to, with their share of the likeliest's probability."""
        shares = {
            label.split("/")[1]: float(p)
            for label, p in zip(self._group.labels, self._group.probabilities(query), strict=True)
            if label.startswith(domain.value + "/")
        }
        most = max(shares.values())
        return {first: 1.0} | {
            g: p / most for g, p in shares.items() if p >= ALSO_LIKELY * most and g != first
        }

    def _for_follow_up(
        self, domain: Domain, query: Vectors, tags: Mapping[str, frozenset[str]], shown: frozenset[str]
    ) -> list[Block]:
        """The steps that come nearest to what is asked after an answer, and were not shown; nearest first."""
        found = []
        for block in self._guidance.all_blocks():
            at_home = block.id.startswith((domain.value, "common"))
            enough = FOLLOW_UP_NEAR if at_home else FOLLOW_UP_NEAR_ELSEWHERE
            if (
                block.slot == "step"
                and block.id not in shown
                and self._near(block, query) >= enough
                and block.applies(tags)
            ):
                found.append(block)
        return sorted(found, key=lambda b: (-self._near(b, query), b.id))[:3]

    def _near(self, block: Block, query: Vectors) -> float:
        """Cosine of a block and the question."""
        return float(self._block_vectors[block.id] @ query)

    def _choose(
        self,
        own: Sequence[Block],
        common: Sequence[Block],
        query: Vectors,
        tags: Mapping[str, frozenset[str]],
        *,
        likely: Mapping[str, float],
        shown: frozenset[str],
    ) -> list[Block]:
        def score(block: Block) -> float:
            near = self._near(block, query)
            fit = 1.6 * len(block.when) + _weight(block, tags)
            home = (
                0.0
                if "*" in block.groups
                else 0.8 + 1.5 * max((likely.get(g, 0.0) for g in block.groups), default=0.0)
            )
            seen = 6.0 if block.id in shown else 0.0
            return 0.3 * block.priority + fit + home + 9.0 * near - seen

        ranked = sorted((*own, *common), key=lambda b: (-score(b), b.id))
        risks = [b for b in ranked if b.slot == "risk" and b.when]
        steps = [b for b in ranked if b.slot == "step"]
        urgent = tags["self_harm_history"] - {"none"} or "risk" in tags
        budget = LONGEST_REPLY - 72 - (40 if urgent else 0)
        picked: list[Block] = []

        def take(blocks: Sequence[Block], most: int, *, words: int) -> None:
            """The best of them that fit into so many words, say nothing twice, and leave room for the rest."""
            nonlocal budget
            for block in blocks:
                if most <= 0 or words <= 0:
                    return
                size = len(block.text.split())
                if size <= min(words, budget) and not any(
                    _alike(block, p, self._block_vectors) for p in picked
                ):
                    picked.append(block)
                    budget -= size
                    words -= size
                    most -= 1

        safety = [b for b in ranked if b.when and _is_safety(b, tags)]
        weighty = [b for b in risks if b not in safety and _weight(b, tags) >= WEIGHTY_RISK]
        take([b for b in safety if b.slot == "risk"] or risks, 1, words=budget)
        take(weighty, 1, words=budget - 2 * STEP_WORDS)
        take([b for b in safety if b.slot == "step"], 1, words=budget - STEP_WORDS)
        take([b for b in steps if b.when and b not in safety], 1, words=budget - STEP_WORDS)
        take([b for b in steps if not b.when], 2 if len(picked) < 3 else 1, words=budget)
        take([b for b in risks if b not in safety], 1, words=budget)
        take(steps, 4 - sum(b.slot == "step" for b in picked), words=budget)
        avoid = [b for b in ranked if b.slot == "avoid" and (b.when or self._near(b, query) >= AVOID_NEAR)]
        take(avoid, 1, words=budget)
        order = {"risk": 0, "step": 1, "avoid": 2}
        return sorted(picked, key=lambda b: (order[b.slot], not _is_safety(b, tags), -score(b)))

    @staticmethod
    def _topic_query(session: Session) -> str:
        return session.topic.query if session.topic else ""

    def _write(self, session: Session, group: Group, chosen: Sequence[Block], *, follow_up: str) -> list[str]:
        lines: list[str] = []
        feeling = sorted(
            session.profile.tags(Attribute.EMOTION),
            key=lambda t: (_HEAVIER.index(t) if t in _HEAVIER else 99, t),
        )
        low = session.topic is not None and session.topic.assessment.stakes is Stakes.LOW
        if follow_up:
            lines.append(messages()["follow_up_lead"])
        elif feeling and feeling[0] in FEELINGS:
            lines.append(FEELINGS[feeling[0]])
        else:
            lines.append(group.acknowledge[session.seed % len(group.acknowledge)])
        risks = [b.text for b in chosen if b.slot == "risk"]
        lines.extend(risks)
        lines.extend(f"- {b.text}" for b in chosen if b.slot == "step")
        lines.extend(b.text for b in chosen if b.slot == "avoid")
        if not low and not follow_up:
            query = self._encoder.encode([self._topic_query(session)])[0]
            fits = float(self._line_vector(group.would_change) @ query) >= CHANGE_NEAR
            lines.append(group.would_change if fits else messages()["would_change"])
        return [line for line in lines if line]


FOLLOW_UP_NEAR, FOLLOW_UP_NEAR_ELSEWHERE = 0.33, 0.45
"""Cosine a block needs to answer a follow-up, in the topic's own domain and in another."""
LOW_NEAR, LOW_FEWEST = 0.3, 2
"""A light question is answered from blocks at least this near to it, if there are so many; otherwise plainly not."""

CHANGE_NEAR = 0.2
"""Cosine at which the group's own "what would change this" is said; a plainer one otherwise."""
STEP_WORDS = 38
"""Words kept free for a step while risks are named."""
WEIGHTY_RISK = 1.5
"""Weight of a danger that is named even beside another one."""
ALSO_NEAR = 0.35
"""Cosine a block of such another group needs."""
AVOID_NEAR = 0.35
"""Cosine a warning needs that holds for everyone: one about something else reads like an accusation."""
ALSO_LIKELY = 0.5
"""Share of the likeliest group's probability at which another group's blocks may be used too."""

_FROM_HEALTH = frozenset({"in_recovery", "addiction"})
"""Bands of the mental state that people often tell as their health."""

_ABOUT_SOMEONE = ((Category.SUICIDE,), (Category.SELF_INJURY,))

_FOR_MINORS = {"custody_and_coparenting": "parents_separating", "divorce": "parents_separating"}
"""Groups written for parents; a child with the same words is in another one."""

_AFTER_A_CARD = frozenset({Intent.NO_PICKUP, Intent.CANNOT_TALK, Intent.WONT_CALL, Intent.SAFE})
"""Intents that answer a crisis card; without one the same words tell of something else."""

LOW_ENOUGH = 0.35
MODERATE_ENOUGH = 0.3
NOT_HIGH = 0.6
"""Shares of the vote at which stakes are called low (neighbours twice, classifier and words once each) or moderate
(neighbours and classifier). Chosen with sight of the development scenarios; on our own lines, whole groups left out, 85 %
of the light questions are found and 7 % of the others taken for light."""

_WEIGHTY = {
    "current_thoughts": 4.0, "plan": 4.0, "recent_self_harm": 3.0, "past_attempt": 3.0, "partner_control": 3.0,
    "psychosis": 3.0, "manic": 2.5, "teen": 2.0, "child": 2.5, "pregnant": 2.0, "postpartum": 2.0, "in_recovery": 3.0,
    "eating_disorder": 2.0, "heart": 1.5, "frightening_urges": 2.5, "visa_tied": 1.5, "licensed": 0.5, "stopped_medication": 1.5,
    "kidney": 1.5, "epilepsy": 1.5, "diabetes": 1.0, "hidden_debt": 1.0, "gambling": 1.0,
}  # fmt: skip
"""Tags whose blocks come before others': what hurts most when it is left out."""

_HEAVIER = [
    "hopeless", "desperate", "trapped", "burden", "numb", "ashamed", "humiliated", "scared", "overwhelmed", "sad",
    "lonely", "guilty", "angry", "anxious", "confused", "excited", "hopeful", "happy", "calm",
]  # fmt: skip

FEELINGS = {
    "hopeless": "Feeling hopeless about this is a heavy thing to carry, and it makes sense to say so before anything else.",
    "desperate": "You sound desperate for this to stop, and that comes first.",
    "trapped": "Feeling trapped narrows everything, so let us look for the nearest small opening.",
    "burden": "Feeling like a burden hurts, and it is a feeling, not a measure of your worth to others.",
    "numb": "Feeling numb or empty is often what is left when too much has happened at once.",
    "ashamed": "The shame in this is hard to sit with, and telling it here took something.",
    "humiliated": "Being humiliated cuts deep, and wanting it undone is natural.",
    "scared": "Being scared about this makes sense, so safety and small steps come first.",
    "overwhelmed": "This is a lot at once, so let us make it smaller.",
    "sad": "I am sorry this hurts so much; being sad about it makes sense.",
    "lonely": "Carrying this alone makes it heavier, and I am glad you said it.",
    "guilty": "Guilt can be loud; what you do next matters more than going over it alone.",
    "angry": "The anger makes sense; it can wait beside you while you choose what helps.",
    "anxious": "The worry you describe is real, so let us take the next steps one at a time.",
    "confused": "Not knowing which way to turn is fair with something like this.",
    "excited": "There is a lot of energy in this; let us use it with some care.",
    "hopeful": "It is good that some hope is there; let us give it firm ground.",
}


_ENGLISH = frozenset(
    [
        "the",
        "a",
        "an",
        "i",
        "im",
        "my",
        "me",
        "you",
        "your",
        "is",
        "are",
        "am",
        "was",
        "were",
        "be",
        "been",
        "it",
        "its",
        "this",
        "that",
        "to",
        "of",
        "in",
        "on",
        "at",
        "for",
        "with",
        "and",
        "or",
        "but",
        "if",
        "not",
        "no",
        "do",
        "dont",
        "does",
        "did",
        "have",
        "has",
        "had",
        "can",
        "cant",
        "could",
        "should",
        "would",
        "will",
        "what",
        "how",
        "when",
        "where",
        "who",
        "why",
        "he",
        "she",
        "they",
        "his",
        "her",
        "we",
        "our",
        "so",
        "just",
        "from",
        "about",
        "as",
        "by",
        "up",
        "out",
        "there",
        "all",
        "get",
        "got",
        "any",
        "some",
        "more",
        "than",
        "then",
        "too",
        "very",
    ]
)


def is_not_english(text: str) -> bool:
    """Whether a message of five words or more has none of the commonest English ones."""
    words = re.findall(r"[^\W\d_]+", text.lower().replace("'", "").replace("’", ""))
    return len(words) >= 5 and not any(word in _ENGLISH for word in words)


def profile_tags(session: Session) -> dict[str, frozenset[str]]:
    """The profile as guidance conditions see it.

    People answer one question with another's facts ("in recovery, sober 14 months" when asked about their health), so
    the weightier bands are looked for in every known answer.
    """
    tags: dict[str, frozenset[str]] = {a.value: session.profile.tags(a) for a in Attribute}
    words = lexicon.shipped().answers
    for attribute, bands in _ACROSS.items():
        for asked in (Attribute.HEALTH, Attribute.MENTAL_STATE, Attribute.EMOTION, Attribute.MARITAL_STATUS):
            answer = session.profile.get(asked)
            if asked is attribute or answer is None or answer.standing is not Standing.KNOWN:
                continue
            said = interview.plain(answer.text)
            heard = {band for band in bands if words[attribute][band].search(said)}
            tags[attribute.value] |= heard
    if session.risk.flags & {"dv", "dv_now"}:
        tags["marital_status"] |= {"partner_control"}
    if session.risk.level is not RiskLevel.NONE:
        tags["risk"] = frozenset({"elevated"})
    if session.is_minor and not tags["age"]:
        tags["age"] = frozenset({"teen"})
    tags["declined"] = frozenset(a.value for a in session.profile.with_standing(Standing.DECLINED))
    return tags


_ACROSS: Mapping[Attribute, tuple[str, ...]] = {
    Attribute.MENTAL_STATE: (
        "in_recovery", "addiction", "gambling", "bipolar", "psychosis", "eating_disorder", "ptsd", "depressed", "ocd",
    ),
    Attribute.HEALTH: ("pregnant", "postpartum", "heart", "diabetes", "epilepsy", "kidney", "stopped_medication"),
    Attribute.MARITAL_STATUS: ("partner_control", "widowed"),
}  # fmt: skip
"""Bands that weigh enough to be taken from an answer to another question."""


def _weight(block: Block, tags: Mapping[str, frozenset[str]]) -> float:
    """How much the bands of this profile that a block speaks to weigh."""
    return sum(
        _WEIGHTY.get(t, 0.0) for a, wanted in block.when.items() for t in wanted & tags.get(a, frozenset())
    )


def _is_safety(block: Block, tags: Mapping[str, frozenset[str]]) -> bool:
    heavy = {
        "self_harm_history": {
            "past_thoughts",
            "past_self_harm",
            "past_attempt",
            "recent_self_harm",
            "current_thoughts",
            "plan",
        },
        "marital_status": {"partner_control"},
        "mental_state": {"psychosis", "manic", "frightening_urges"},
        "risk": {"elevated"},
    }
    return any(
        block.when.get(a, frozenset()) & wanted & tags.get(a, frozenset()) for a, wanted in heavy.items()
    )


def _alike(one: Block, other: Block, vectors: Mapping[str, Vectors]) -> bool:
    """Whether two blocks say much the same."""
    return one.text == other.text or float(vectors[one.id] @ vectors[other.id]) > 0.78


__all__ = ["FEELINGS", "SPECS", "GuidedModel", "profile_tags"]
