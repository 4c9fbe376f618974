"""The journal of a build: one line an evaluation, written before it is used, so that a killed run pays for nothing twice.

The first line says what is being planned; a run with other settings is refused, and so is a second run beside the first. The
last line may be torn by a kill: it is cut off. The journal holds ids of queries, sets, scores and simulated people, and no
real person's text.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from policies.attributes import Attribute
from policies.errors import PlanningError, Unscored
from policies.planning.evidence import longhand, shorthand
from policies.planning.judging import Evaluate, Person, Prior, Scored

_Key = tuple[str, str, int]
Repeat = Callable[[frozenset[Attribute], int], Awaitable[float | Scored]]
"""One evaluation of a set, given how often it was evaluated, this time included."""
Once = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""What is made by the first who asks for it by name, and paid for once: a JSON value."""


_HEAD = b'{"journal":1,'


class Journal:
    """Evaluations paid for so far, and the file they are added to."""

    def __init__(self, path: Path, about: Mapping[str, Any]) -> None:
        """Open, or begin.

        Args:
            path: of the journal.
            about: what is being planned; all that decides a score.

        Raises:
            PlanningError: the file is a journal of something else, in use by another run, or a line within it is damaged.
        """
        self._path = path
        self._paid: dict[_Key, dict[str, Any]] = {}
        self._done: dict[str, dict[str, Any]] = {}
        self.replayed = self.paid = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: TextIO = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise PlanningError(
                f"{path}: another run writes it; wait for that, or give another --journal"
            ) from None
        try:
            self._file.truncate(self._read(about))
        except PlanningError:
            self._file.close()
            raise
        if not path.stat().st_size:
            self._write({"journal": 1, "about": dict(about)})

    def _read(self, about: Mapping[str, Any]) -> int:
        data = self._path.read_bytes()
        if data and data[: len(_HEAD)] != _HEAD[: len(data)]:
            raise PlanningError(f"{self._path}: is no journal of a build")
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                raw = json.loads(line)
            except ValueError as bad:
                raise PlanningError(
                    f"{self._path}, line {number}: not JSON; cut the file before this line to keep what was paid"
                ) from bad
            if not isinstance(raw, dict):
                raise PlanningError(f"{self._path}, line {number}: not a line of a build's journal")
            if number == 1:
                if raw["about"] != dict(about):
                    other = sorted(k for k in {*about, *raw["about"]} if about.get(k) != raw["about"].get(k))
                    raise PlanningError(
                        f"{self._path}: was begun with another {', '.join(other)}; give another --journal, or the old settings"
                    )
            elif "done" in raw:
                self._done[raw["done"]] = raw
            elif {"q", "s", "n"} <= raw.keys():
                self._paid[raw["q"], raw["s"], raw["n"]] = raw
            else:
                raise PlanningError(f"{self._path}, line {number}: not a line of a build's journal")
        return whole

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def finished(self, query: str) -> Mapping[str, Any] | None:
        """What a query was finished with, or None."""
        return self._done.get(query)

    def finish(self, query: str, record: Mapping[str, Any]) -> None:
        """A query is planned."""
        line = {"done": query, **record}
        self._write(line)
        self._done[query] = line

    def once(self, query: str) -> Once:
        """What a query needs once, such as the people simulated for it: kept, so that it is the same after a kill."""
        turns: dict[str, asyncio.Lock] = {}

        async def made(name: str, make: Callable[[], Awaitable[Any]]) -> Any:
            async with turns.setdefault(name, asyncio.Lock()):  # whoever comes first pays, the others wait
                key = (query, name, 1)
                if key not in self._paid:
                    line = {"q": query, "s": name, "n": 1, "v": await make()}
                    self._write(line)
                    self._paid[key] = line
                return self._paid[key]["v"]

        return made

    def _write(self, line: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._file.flush()
        except OSError as full:
            raise PlanningError(
                f"{self._path}: cannot be written ({full.strerror}); nothing more is paid for"
            ) from full

    def paying(
        self, query: str, evaluate: Repeat, prior: Prior, *, kept: bool = True
    ) -> tuple[Evaluate, Prior]:
        """The same two, answered from the journal where it holds the answer, and written to it where not.

        Evaluations that cost nothing need not be kept: then only their repeats are counted.

        A line is known by query, set and repeat: repeats come back in any order, and a kill may leave the second without
        the first.
        """
        asked: dict[frozenset[Attribute], int] = {}

        async def evaluated(chosen: frozenset[Attribute]) -> float | Scored:
            name = "+".join(sorted(a.value for a in chosen))
            n = asked[chosen] = asked.get(chosen, 0) + 1
            raw = self._paid.get((query, name, n))
            if raw is not None:
                self.replayed += 1
                if "why" in raw:
                    raise Unscored(raw["why"])
                return Scored(raw["x"], tuple(Person(longhand(b), x) for b, x in raw.get("p", ())))
            try:
                made = await evaluate(chosen, n)
            except Unscored as failed:
                self._write({"q": query, "s": name, "n": n, "why": failed.reason})
                self.paid += 1
                raise
            scored = made if isinstance(made, Scored) else Scored(made)
            line: dict[str, Any] = {"q": query, "s": name, "n": n, "x": scored.score}
            if scored.people:
                line["p"] = [[shorthand(p.bands), p.score] for p in scored.people]
            self._write(line)
            self.paid += 1
            return scored

        if not kept:

            async def counted(chosen: frozenset[Attribute]) -> float | Scored:
                n = asked[chosen] = asked.get(chosen, 0) + 1
                return await evaluate(chosen, n)

            return counted, prior

        async def weighed(known: frozenset[Attribute]) -> Mapping[Attribute, float] | None:
            name = "prior " + "+".join(sorted(a.value for a in known))
            raw = self._paid.get((query, name, 1))
            if raw is not None:
                self.replayed += 1
                if "why" in raw:
                    raise Unscored(raw["why"])
                return None if raw["w"] is None else {Attribute(a): w for a, w in raw["w"].items()}
            try:
                weights = await prior(known)
            except Unscored as failed:
                self._write({"q": query, "s": name, "n": 1, "why": failed.reason})
                self.paid += 1
                raise
            self._write(
                {
                    "q": query,
                    "s": name,
                    "n": 1,
                    "w": None if weights is None else {a.value: w for a, w in weights.items()},
                }
            )
            self.paid += 1
            return weights

        return evaluated, weighed
