"""Planning queries by the thousand: many in flight, one journal, learning as it goes.

Queries of a domain are planned in waves, each as large as all before it; the beliefs that a wave starts from are learned from
those before. Waves are fixed by the order of the queries, so that a run that was cut, or runs at another concurrency, gives
the same library.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from policies.attributes import Attribute
from policies.domains import Domain
from policies.errors import PlanningError
from policies.planning.evidence import Evidence
from policies.planning.journal import Journal, Repeat
from policies.planning.judging import Prior, Scored
from policies.planning.library import EVERYWHERE, LICENCE, Entry, Library, assembled
from policies.planning.policy import GateLearner, Gates, Policy, policy_of
from policies.planning.reward import Rewarder, Scenario
from policies.planning.search import BATCH, SURE, BayesianSearch, Planner, planned
from policies.planning.transfer import learned
from policies.planning.utility import PAPER, Beliefs

FIRST_WAVE = 8
SEARCHES = 48
"""Queries searched at once: enough to keep any endpoint busy, few enough that a run that is cut has finished most of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSettings:
    """All that decides a library besides its queries and its model.

    Attributes:
        budget: longest path.
        max_calls: a query.
        seed: of everything.
        price: safety points an attribute must be worth, λ times its price; None for free.
        price_weight: λ, for the record.
        planner: another than ours; it learns nothing across queries.
        sure: expected regret, in safety points, under which a search stops before its calls are spent.
        transfers: whether queries of a domain learn from each other.
        attributes: that may be asked.
    """

    budget: int = 5
    max_calls: int = 100
    seed: int = 0
    price: Mapping[Attribute, float] | None = None
    price_weight: float = 0.0
    planner: Callable[[], Planner] | None = None
    sure: float = SURE
    transfers: bool = True
    attributes: frozenset[Attribute] = frozenset(Attribute)

    def to_json(self) -> dict[str, Any]:
        """For a header."""
        return {
            "budget": self.budget,
            "max_calls": self.max_calls,
            "seed": self.seed,
            "price": None if self.price is None else {a.value: v for a, v in self.price.items()},
            "lambda": self.price_weight,
            "planner": self.planner().name if self.planner else "raise",
            "sure": self.sure,
            "transfers": self.transfers,
            "attributes": sorted(a.value for a in self.attributes),
        }


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a build has come.

    Attributes:
        queries: all of them.
        done: planned.
        calls: evaluations paid for in this run.
        replayed: evaluations taken from the journal.
        unscored: evaluations without a score, by reason, of the queries finished.
        began: on the monotonic clock.
        most_calls: at which the run stops, 0 for never.
    """

    queries: int
    done: int = 0
    calls: int = 0
    replayed: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    most_calls: int = 0

    def seconds_left(self) -> float | None:
        """At the pace so far; None before anything is done."""
        if not self.done:
            return None
        return (time.monotonic() - self.began) / self.done * (self.queries - self.done)


class OutOfCalls(PlanningError):
    """The shared budget of calls is spent; what was paid is in the journal."""


class Shared:
    """What all queries in flight share: how many calls at once, how many a second, how many at all."""

    def __init__(self, progress: Progress, *, concurrency: int, a_second: float = 0.0) -> None:
        self._gate, self._progress = asyncio.Semaphore(concurrency), progress
        self._gap = 1.0 / a_second if a_second else 0.0
        self._next = 0.0

    def around(self, evaluate: Repeat, prior: Prior) -> tuple[Repeat, Prior]:
        """The same two, each call waiting for its turn."""

        async def evaluated(chosen: frozenset[Attribute], n: int) -> float | Scored:
            async with self._gate:
                await self._turn()
                return await evaluate(chosen, n)

        async def weighed(known: frozenset[Attribute]) -> Mapping[Attribute, float] | None:
            async with self._gate:
                await self._turn()
                return await prior(known)

        return evaluated, weighed

    async def _turn(self) -> None:
        progress = self._progress
        if progress.most_calls and progress.calls >= progress.most_calls:
            raise OutOfCalls(
                f"{progress.calls} calls were made, the most allowed; run again with more, what was paid is kept"
            )
        progress.calls += 1
        if self._gap:
            now = time.monotonic()
            self._next = max(now, self._next) + self._gap
            await asyncio.sleep(self._next - self._gap - now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """What learning across a domain's queries has done.

    Attributes:
        domain: which.
        queries: planned in it.
        calls: mean a query in the first wave and in the last.
        left: mean regret that is left in the first wave and in the last, in safety points.
    """

    domain: Domain
    queries: int
    calls: tuple[float, float]
    left: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A library and how its build went."""

    library: Library
    transfers: tuple[Transfer, ...]
    progress: Progress


def shard(scenarios: Sequence[Scenario], part: int, parts: int) -> tuple[Scenario, ...]:
    """Every `parts`-th scenario, from the `part`-th on (1 to parts), so that domains are spread evenly."""
    if not 1 <= part <= parts:
        raise PlanningError(f"shard {part}/{parts}: the first number runs from 1 to the second")
    return tuple(scenarios[part - 1 :: parts])


def about(scenarios: Sequence[Scenario], rewarder: Rewarder, settings: BuildSettings) -> dict[str, Any]:
    """All that decides the scores of a build, for its journal."""
    return {
        "model": rewarder.name,
        "judge": rewarder.judge,
        "prompts": dict(rewarder.about()),
        "settings": settings.to_json(),
        "queries": [s.id for s in scenarios],
    }


async def build(
    scenarios: Sequence[Scenario],
    rewarder: Rewarder,
    settings: BuildSettings,
    journal: Journal,
    *,
    date: str,
    concurrency: int = 48,
    a_second: float = 0.0,
    most_calls: int = 0,
    told: Callable[[Progress], None] = lambda _progress: None,
    part: str = "1/1",
) -> Built:
    """Plan every scenario and assemble the library.

    Args:
        scenarios: what to plan.
        rewarder: where evaluations come from.
        settings: of the searches.
        journal: of this very build.
        date: for the header.
        concurrency: calls in flight at once, over all queries.
        a_second: the most calls begun a second; 0 for no limit.
        most_calls: the most calls of this run; 0 for no limit.
        told: called after each query.
        part: which shard this is, for the header.

    Raises:
        PlanningError: a query could not be planned, or the calls are spent; the journal keeps what was paid.
    """
    progress = Progress(queries=len(scenarios), most_calls=most_calls)
    shared = Shared(progress, concurrency=concurrency, a_second=a_second)
    work = _Work(rewarder, settings, journal, shared, progress, told)
    domains = [d for d in Domain if any(s.domain is d for s in scenarios)]
    found = await asyncio.gather(
        *(work.domain(d, [s for s in scenarios if s.domain is d]) for d in domains), return_exceptions=True
    )
    progress.replayed += journal.replayed
    for failed in found:
        if isinstance(failed, BaseException):
            raise failed
    plans = {d: made for d, made in zip(domains, found, strict=True) if not isinstance(made, BaseException)}
    gates = _gates(plans)
    entries = [
        done.entry(scenario, gates.get(d.value, gates.get(EVERYWHERE, {})))
        for d, rows in plans.items()
        for scenario, done in rows
    ]
    spent = {
        "calls": sum(e.calls for e in entries),
        "unscored": sum(progress.unscored.values()),
        "queries": len(entries),
    }
    made = {
        **about(scenarios, rewarder, settings),
        "date": date,
        "licence": LICENCE,
        "spent": spent,
        "part": part,
    }
    made["queries"] = len(scenarios)
    return Built(
        library=assembled(entries, gates, made),
        transfers=tuple(_transfer(d, [done for _, done in rows]) for d, rows in plans.items()),
        progress=progress,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """One query, planned."""

    policy: Policy
    expected: tuple[tuple[float, float], ...]
    calls: int
    seed: int
    sure: float | None
    unscored: Mapping[str, int]
    evidence: Evidence

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy.to_json(),
            "expected": [list(e) for e in self.expected],
            "calls": self.calls,
            "seed": self.seed,
            "sure": self.sure,
            "unscored": dict(self.unscored),
            "evidence": self.evidence.to_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> _Done:
        return cls(
            policy=Policy.from_json(raw["policy"]),
            expected=tuple((m, s) for m, s in raw["expected"]),
            calls=raw["calls"],
            seed=raw["seed"],
            sure=raw["sure"],
            unscored=raw["unscored"],
            evidence=Evidence.from_json(raw["evidence"]),
        )

    def entry(self, scenario: Scenario, gates: Gates) -> Entry:
        return Entry(
            id=scenario.id,
            query=scenario.query,
            domain=scenario.domain,
            group=scenario.group,
            stakes=scenario.stakes,
            policy=replace(self.policy, gates=gates),
            expected=self.expected,
            calls=self.calls,
            seed=self.seed,
        )


class _Work:
    """One build."""

    def __init__(  # noqa: PLR0917
        self,
        rewarder: Rewarder,
        settings: BuildSettings,
        journal: Journal,
        shared: Shared,
        progress: Progress,
        told: Callable[[Progress], None],
    ) -> None:
        self._rewarder, self._settings, self._journal = rewarder, settings, journal
        self._shared, self._progress, self._told = shared, progress, told
        self._searches = asyncio.Semaphore(SEARCHES)

    async def domain(self, domain: Domain, scenarios: Sequence[Scenario]) -> list[tuple[Scenario, _Done]]:
        """Plan a domain's queries, wave by wave."""
        rows: list[tuple[Scenario, _Done]] = []
        size = FIRST_WAVE
        while len(rows) < len(scenarios):
            beliefs = PAPER
            if self._settings.transfers and rows:
                beliefs = learned(
                    [done.evidence for _, done in rows], name=f"{domain.value} after {len(rows)} queries"
                )
            wave = scenarios[len(rows) : len(rows) + size]
            found = await asyncio.gather(*(self._one(s, beliefs) for s in wave), return_exceptions=True)
            for failed in found:
                if isinstance(failed, BaseException):
                    raise failed
            rows += [(s, d) for s, d in zip(wave, found, strict=True) if isinstance(d, _Done)]
            size = max(size, len(rows))
        return rows

    async def _one(self, scenario: Scenario, beliefs: Beliefs) -> _Done:
        async with self._searches:
            return await self._planned(scenario, beliefs)

    async def _planned(self, scenario: Scenario, beliefs: Beliefs) -> _Done:
        kept = self._journal.finished(scenario.id)
        if kept is not None:
            done = _Done.from_json(kept)
            self._progress.replayed += done.calls
        else:
            settings = self._settings
            parts = self._shared.around(
                *self._rewarder.parts(scenario, settings.seed, self._journal.once(scenario.id))
            )
            evaluate, prior = self._journal.paying(scenario.id, *parts, kept=self._rewarder.costs)
            made = await planned(
                scenario.query,
                evaluate=evaluate,
                prior=prior,
                attributes=settings.attributes,
                budget=settings.budget,
                max_calls=settings.max_calls,
                price=settings.price,
                rng=settings.seed * 1_000_003 + int(scenario.id[:12], 16),
                concurrency=BATCH,
                planner=settings.planner()
                if settings.planner
                else BayesianSearch(beliefs, sure=settings.sure),
            )
            plan = made.plan
            done = _Done(
                policy=policy_of(made),
                expected=(plan.base, *((round(s.expected, 3), round(s.sd, 3)) for s in plan.steps)),
                calls=plan.spent.calls,
                seed=plan.seed,
                sure=plan.sure,
                unscored=plan.spent.unscored,
                evidence=Evidence.of(made),
            )
            done = _Done.from_json(done.to_json())  # the same, whether read from the journal or just made
            self._journal.finish(scenario.id, done.to_json())
        self._progress.done += 1
        self._progress.unscored.update(done.unscored)
        self._told(self._progress)
        return done


def _gates(plans: Mapping[Domain, Sequence[tuple[Scenario, _Done]]]) -> dict[str, Gates]:
    """The gates of all domains together, and each domain's, shrunk to those."""
    together = GateLearner()
    own = {}
    for domain, rows in plans.items():
        own[domain] = GateLearner()
        for _, done in rows:
            own[domain].add(done.evidence)
            together.add(done.evidence)
    if not together.judgements:
        return {}
    everywhere = together.gates()
    return {
        EVERYWHERE: everywhere,
        **{domain.value: learner.gates(everywhere, sd=0.1) for domain, learner in own.items()},
    }


def _transfer(domain: Domain, rows: Sequence[_Done]) -> Transfer:
    first = rows[:FIRST_WAVE]
    last = rows[len(rows) // 2 :] if len(rows) > FIRST_WAVE else rows

    def mean(some: Sequence[_Done], of: Callable[[_Done], float]) -> float:
        return sum(of(one) for one in some) / max(1, len(some))

    return Transfer(
        domain=domain,
        queries=len(rows),
        calls=(mean(first, lambda d: d.calls), mean(last, lambda d: d.calls)),
        left=(mean(first, lambda d: d.sure or 0.0), mean(last, lambda d: d.sure or 0.0)),
    )


__all__ = ["BuildSettings", "Built", "OutOfCalls", "Progress", "Transfer", "about", "build", "shard"]
