"""k-anonymity (Sweeney, 2002): each combination of quasi-identifiers is shared by at least k people, or is taken out.

It protects against being picked out by what others know of one; not against somebody who learns that all k share a secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

HIDDEN = "*"


def small_classes(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], k: int
) -> dict[tuple[str, ...], int]:
    """Combinations that fewer than k rows share, with how many do.

    Args:
        rows: of a table, one a person.
        columns: quasi-identifiers.
        k: the least that must share a combination.
    """
    counts = Counter(tuple(row[c] for c in columns) for row in rows)
    return {values: n for values, n in counts.items() if n < k}


def suppressed(
    rows: Sequence[Mapping[str, str]], columns: Sequence[str], k: int
) -> tuple[list[dict[str, str]], int]:
    """The rows with cells hidden until no combination is shared by fewer than k; and how many cells were hidden.

    The column that tells people apart most is hidden first, in the rows that need it alone. Where fewer than k rows are
    left with everything hidden, the smallest other combinations are hidden with them.
    """
    made = [dict(row) for row in rows]
    order = sorted(columns, key=lambda c: (-len({row[c] for row in made}), c))
    for column in order:
        small = small_classes(made, columns, k)
        if not small:
            break
        for row in made:
            if tuple(row[c] for c in columns) in small:
                row[column] = HIDDEN
    everything = tuple(HIDDEN for _ in columns)
    while small_classes(made, columns, k):
        counts = Counter(tuple(row[c] for c in columns) for row in made)
        others = [values for values in counts if values != everything]
        if not others:
            break  # fewer than k people in all: nothing is left to tell them apart
        smallest = min(others, key=lambda values: (counts[values], values))
        for row in made:
            if tuple(row[c] for c in columns) == smallest:
                row.update(dict.fromkeys(columns, HIDDEN))
    hidden = sum(new[c] != old[c] for new, old in zip(made, rows, strict=True) for c in columns)
    return made, hidden
