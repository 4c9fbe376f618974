"""Who gets which arm: permuted blocks, so that arms stay balanced at any time and nobody can tell who comes next.

CONSORT 2010, items 8 and 9: the sequence is made by the program from a seed, concealed until assignment.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from policies.errors import PolicyError


def ratios(text: str) -> dict[str, int]:
    """Arms and their shares, as written: "raise:2,vanilla:1"; a share that is left out is 1.

    Raises:
        PolicyError: it is nothing of the kind.
    """
    found: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, share = part.partition(":")
        if not (share or "1").isdecimal() or not 1 <= int(share or 1) <= 100:
            raise PolicyError(f"--arms {part!r}: write an arm and its share, such as raise:2,vanilla:1")
        if not name.strip():
            raise PolicyError(f"--arms {part!r}: write an arm and its share, such as raise:2,vanilla:1")
        if name.strip() in found:
            raise PolicyError(f"--arms: {name.strip()} is there twice")
        found[name.strip()] = int(share or 1)
    if not found:
        raise PolicyError("--arms: name at least one arm, such as raise:2,vanilla:1")
    return found


def allocate(arms: Mapping[str, int], count: int, *, blocks: Sequence[int], rng: random.Random) -> list[str]:
    """An arm for each of so many participants, in permuted blocks.

    Args:
        arms: shares by arm.
        count: of participants; the last block may be cut.
        blocks: sizes to choose from for each block, each a multiple of the sum of the shares.
        rng: seeded.

    Raises:
        PolicyError: a block does not hold the shares.
    """
    least = sum(arms.values()) // reduce(gcd, arms.values())
    for size in blocks:
        if size < least or size % least:
            raise PolicyError(f"--block {size}: not a multiple of {least}, the sum of the shares")
    made: list[str] = []
    while len(made) < count:
        size = rng.choice(list(blocks))
        block = [arm for arm, share in arms.items() for _ in range(share * size // sum(arms.values()))]
        rng.shuffle(block)
        made += block
    return made[:count]
