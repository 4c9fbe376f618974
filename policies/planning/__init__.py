"""What to ask, in which order: planned offline, kept in a library, found again online.

`plan` searches one query's attribute sets; `Plan` is what it finds. The starter library lies beside it.
"""

from policies.planning.judging import Scored
from policies.planning.plans import Plan, PlanStep, Spent
from policies.planning.search import ALL, Planner, plan

__all__ = ["ALL", "Plan", "PlanStep", "Planner", "Scored", "Spent", "plan"]
