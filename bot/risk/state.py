"""The level sticks. These are the only rules that lower it.

- A single denial, joke or change of subject lowers nothing (C-SSRS practice; two studies of crisis bots).
- *imminent* falls to *elevated* when, on two separate turns after the last sign of danger, the person says that they
  are safe, that someone is with them, or that help has been called.
- *elevated* falls to *none* only with a new conversation after ten quiet turns; within one it stays.
"""

from __future__ import annotations

from dataclasses import replace

from bot.risk.verdict import RiskLevel, RiskState, Verdict, highest

STATEMENTS_TO_LOWER = 2
QUIET_TURNS = 10
KEPT_WHEN_SAFER = frozenset(
    {"ideation", "death_wish", "attempt_past", "loss", "psychosis", "postpartum", "dv"}
)
"""Ideas that outlast the danger; plans, means and times do not, so that "tomorrow" brings no card back."""


def after(state: RiskState, verdict: Verdict, *, says_safe: bool) -> RiskState:
    """The state after one more message; raises at once, lowers by the rules above."""
    categories = state.categories + tuple(c for c in verdict.categories if c not in state.categories)
    merged = replace(state, categories=categories, flags=state.flags | verdict.flags)
    unsaid = says_safe and is_weak(verdict)
    if verdict.level.rank >= max(state.level.rank, 1) and not (unsaid and state.level is RiskLevel.IMMINENT):
        level = highest(state.level, verdict.level)
        return replace(merged, level=level, subject=verdict.subject, safe_statements=0, turns_since=0)
    merged = replace(merged, turns_since=state.turns_since + 1)
    if state.level is RiskLevel.IMMINENT:
        if unsaid or (says_safe and verdict.level is RiskLevel.NONE):
            merged = replace(merged, safe_statements=state.safe_statements + 1)
        if merged.safe_statements >= STATEMENTS_TO_LOWER:
            over = merged.flags & KEPT_WHEN_SAFER
            return replace(merged, level=RiskLevel.ELEVATED, safe_statements=0, turns_since=0, flags=over)
        return merged
    return merged


def at_new_conversation(state: RiskState) -> RiskState:
    """What a new conversation starts with: the same, unless only signs were seen and ten quiet turns followed."""
    if state.level is RiskLevel.ELEVATED and state.turns_since >= QUIET_TURNS:
        return RiskState()
    return state


def is_weak(verdict: Verdict) -> bool:
    """Raised by likeness, or by old and new words put together: telling how one was made safe sounds like danger too."""
    if verdict.level is RiskLevel.NONE:
        return False
    return verdict.by_combination or all(rule.startswith("meaning-") for rule in verdict.rules)
