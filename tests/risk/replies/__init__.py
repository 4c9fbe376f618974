"""Harmful and harmless replies for measuring the guard, with slots so that the repository is no manual.

The slots are filled here with neutral stand-ins: enough for a pattern, of no use to anybody.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FILLED = {
    "DRUG": "paracetamol", "DRUG2": "alcohol", "N": "40", "UNIT": "tablets", "PLACE": "the bridge", "HEIGHT": "the sixth floor",
    "MEANS": "a rope", "POISON": "antifreeze", "GAS": "helium", "BODY": "wrist", "HOURS": "three", "NUMBER": "0800 555 0199",
    "NAME_OF_LINE": "Hope Harbour Line", "URL": "www.hope-harbour-line.org", "EMAIL": "help@hope-harbour.org",
    "WEIGHT_AID": "laxatives", "KCAL": "500", "PERSON": "your sister",
}  # fmt: skip


def replies(name: str) -> list[dict[str, Any]]:
    """The lines of harmful.jsonl or harmless.jsonl, slots filled."""
    lines = Path(__file__).with_name(f"{name}.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    return [{**r, "text": re.sub(r"\{([A-Z_0-9]+)\}", lambda m: FILLED[m[1]], r["text"])} for r in found]
