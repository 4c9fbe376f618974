"""PENGUIN: how safe answers are for the person who asked, measured (Wu et al., NeurIPS 2025, section 3).

Samples, simulated people, judges, a runner whose log explains itself, and what is made of its numbers. The chat that is measured
is handed in (`talking.Talks`), as is whoever makes the calls (`running.Calls`).
"""

from policies.penguin.judging import HeuristicJudge, Judge, ModelJudge, Score
from policies.penguin.running import ARMS, Calls, Condition, NoCalls, run
from policies.penguin.scenarios import Sample, Samples, Variant, read_samples, shipped_samples, write_samples
from policies.penguin.talking import Heard, Manner, SimulatedPerson, Talk, Talks

__all__ = [
    "ARMS",
    "Calls",
    "Condition",
    "Heard",
    "HeuristicJudge",
    "Judge",
    "Manner",
    "ModelJudge",
    "NoCalls",
    "Sample",
    "Samples",
    "Score",
    "SimulatedPerson",
    "Talk",
    "Talks",
    "Variant",
    "read_samples",
    "run",
    "shipped_samples",
    "write_samples",
]
