"""The risk screen: on every message in and every sentence out."""

from bot.risk.screen import Screen
from bot.risk.verdict import Category, RiskLevel, RiskState, Subject, Verdict

__all__ = ["Category", "RiskLevel", "RiskState", "Screen", "Subject", "Verdict"]
