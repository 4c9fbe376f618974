"""The level sticks. These are the only rules that lower it.

- A single denial, joke or change of subject lowers nothing (C-SSRS practice; two studies of crisis bots).
- *imminent* falls to *elevated* when, on two separate turns after the last sign of danger, the person says that they
  are safe, that someone is with them, or that help has been called.
- *elevated* falls to *none* only with a new conversation after ten quiet turns; within a topic it stays.
"""

from __future__ import annotations

from dataclasses import replace

from bot.risk.verdict import RiskLevel, RiskState, Verdict, highest

STATEMENTS_TO_LOWER = 2
QUIET_TURNS = 10


def after(state: RiskState, verdict: Verdict, *, says_safe: bool) -> RiskState:
    """The state after one more message; raises at once, lowers by the rules above."""
    categories = state.categories + tuple(c for c in verdict.categories if c not in state.categories)
    merged = replace(state, categories=categories, flags=state.flags | verdict.flags)
    unsaid = says_safe and by_meaning_alone(verdict)
    if verdict.level.rank >= max(state.level.rank, 1) and not (unsaid and state.level is RiskLevel.IMMINENT):
        level = highest(state.level, verdict.level)
        return replace(merged, level=level, subject=verdict.subject, safe_statements=0, turns_since=0)
    merged = replace(merged, turns_since=state.turns_since + 1)
    if state.level is RiskLevel.IMMINENT:
        if unsaid or (says_safe and verdict.level is RiskLevel.NONE):
            merged = replace(merged, safe_statements=state.safe_statements + 1)
        if merged.safe_statements >= STATEMENTS_TO_LOWER:
            return replace(merged, level=RiskLevel.ELEVATED, safe_statements=0, turns_since=0)
        return merged
    if state.level is RiskLevel.ELEVATED and merged.turns_since >= QUIET_TURNS:
        return replace(merged, level=RiskLevel.NONE, categories=(), flags=frozenset())
    return merged


def by_meaning_alone(verdict: Verdict) -> bool:
    """Raised by likeness only: telling how one was made safe sounds much like telling of the danger."""
    return verdict.level is not RiskLevel.NONE and all(rule.startswith("meaning-") for rule in verdict.rules)
