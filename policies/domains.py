"""The seven domains of PENGUIN and what hangs on a wrong answer in them."""

from __future__ import annotations

from enum import StrEnum


class Domain(StrEnum):
    """PENGUIN's seven high-stakes domains (paper, section 3.1)."""

    LIFE = "life"
    EDUCATION = "education"
    RELATIONSHIP = "relationship"
    HEALTH = "health"
    SOCIAL = "social"
    FINANCIAL = "financial"
    CAREER = "career"


class Stakes(StrEnum):
    """How much a generic answer could hurt some person who might plausibly be asking."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"
