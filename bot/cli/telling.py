"""What long work tells on the way: one line that is written over, and what tokens cost."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import click

Price = tuple[float, float]
"""Of a million tokens in and out."""
_State = TypeVar("_State")


def cost(tokens: tuple[float, float], price: Price) -> float:
    """Of tokens in and out."""
    return (tokens[0] * price[0] + tokens[1] * price[1]) / 1e6


def spent(tokens: tuple[float, float], price: Price | None) -> str:
    """As the end of a line of progress; nothing where no price is known."""
    return f", {cost(tokens, price):.2f} spent" if price else ""


def guess(low: int, high: int, a_call: tuple[int, int], price: Price | None) -> str:
    """What is to come, before anything is known: calls, tokens, and what they cost at a price.

    Args:
        low: fewest calls.
        high: most.
        a_call: tokens in and out of one, about.
        price: where known.
    """
    tokens = (a_call[0] * (low + high) / 2, a_call[1] * (low + high) / 2)
    at = f", about {cost(tokens, price):.2f} at that price" if price else ""
    return f"about {low:,} to {high:,} calls, {sum(tokens) / 1000:,.0f} thousand tokens (a guess until some are made){at}"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    return f"{int(seconds // 3600)}:{int(seconds % 3600 // 60):02}:{int(seconds % 60):02}"


def teller(
    words: Callable[[_State], str], *, is_last: Callable[[_State], bool] = lambda _: False
) -> Callable[[_State], None]:
    """Writes a line over the one before, on standard error, twice a second at most.

    Args:
        words: of the line.
        is_last: a line that is written however soon it comes.
    """
    last = [0.0]

    def told(state: _State) -> None:
        at = time.monotonic()
        if at - last[0] >= 0.5 or is_last(state):
            last[0] = at
            click.echo("\r" + words(state) + "   ", nl=False, err=True)
            sys.stderr.flush()

    return told
