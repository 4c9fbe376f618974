"""Against guessing PINs, without locking a clinic out: what is slowed down is a code from an address, not an address.

NIST SP 800-63B, 5.2.2, asks for a limit on failed tries an account; an address is shared by everybody in a house.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

FREE_TRIES = 5
"""Wrong PINs of one code from one address before it has to wait."""
FIRST_WAIT, LONGEST_WAIT = 30.0, 900.0
"""Seconds; each wrong try after that doubles it."""
CODE_TRIES, CODE_WAIT = 25, 900.0
"""Wrong PINs of one code from anywhere within an hour; then only addresses that it has signed in from before may try."""
ADDRESS_TRIES, ADDRESS_DELAY = 200, 2.0
"""Wrong tries from one address within an hour; then each try from it takes so many seconds longer."""
HOUR = 3600.0
MOST = 20_000
"""Codes and addresses remembered."""


_Key = TypeVar("_Key")
_Entry = TypeVar("_Entry")


@dataclass(slots=True)
class _Tries:
    wrong: int = 0
    until: float = 0.0
    last: float = 0.0


@dataclass(slots=True)
class _Recent:
    at: deque[float] = field(default_factory=lambda: deque(maxlen=ADDRESS_TRIES + 1))

    def within(self, now: float) -> int:
        while self.at and self.at[0] < now - HOUR:
            self.at.popleft()
        return len(self.at)


class Throttle:
    """Counts in memory. One instance for one thread."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing has been tried.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._pairs: OrderedDict[tuple[str, str], _Tries] = OrderedDict()
        self._codes: OrderedDict[str, _Recent] = OrderedDict()
        self._addresses: OrderedDict[str, _Recent] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()

    def wait(self, code: str, address: str) -> float:
        """Seconds before this code may be tried from this address; 0 for now."""
        now = self._clock()
        pair = self._pairs.get((code, address))
        if pair is not None and pair.until > now:
            return pair.until - now
        recent = self._codes.get(code)
        if recent is not None and recent.within(now) >= CODE_TRIES and (code, address) not in self._known:
            return max(0.0, recent.at[-1] + CODE_WAIT - now)
        return 0.0

    def delay(self, address: str) -> float:
        """Seconds that a try from this address takes longer; nobody is refused for it."""
        recent = self._addresses.get(address)
        return ADDRESS_DELAY if recent is not None and recent.within(self._clock()) >= ADDRESS_TRIES else 0.0

    def failed(self, code: str, address: str) -> None:
        """A wrong try."""
        now = self._clock()
        pair = _kept(self._pairs, (code, address), _Tries)
        if now - pair.last > HOUR:
            pair.wrong = 0
        pair.wrong, pair.last = pair.wrong + 1, now
        if pair.wrong >= FREE_TRIES:
            pair.until = now + min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(10, pair.wrong - FREE_TRIES))
        _kept(self._codes, code, _Recent).at.append(now)
        _kept(self._addresses, address, _Recent).at.append(now)

    def passed(self, code: str, address: str) -> None:
        """The right PIN: this try was no mistake, and earlier ones of the code from this address are forgotten."""
        self._pairs.pop((code, address), None)
        for recent in (self._codes.get(code), self._addresses.get(address)):
            if recent is not None and recent.at:
                recent.at.pop()
        self._known[code, address] = None
        while len(self._known) > MOST:
            self._known.popitem(last=False)


def _kept(book: OrderedDict[_Key, _Entry], key: _Key, make: Callable[[], _Entry]) -> _Entry:
    """The entry of a key, made where it is missing; the longest unused goes where there are too many."""
    if key not in book:
        book[key] = make()
        while len(book) > MOST:
            book.popitem(last=False)
    book.move_to_end(key)
    return book[key]
