"""Make policies/crisis/resources.yaml from a cross-checked directory of help lines.

usage: python scripts/make_resources.py DIRECTORY.json > policies/crisis/resources.yaml

Only numbers that independent sources agree on are kept (`phones[].agree`, `sms_agree`, `emergency_agree`). Hours,
languages and web addresses come from single sources and are marked unverified.
"""

import json
import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.crisis.checks import RETIRED

PAIRS = [
    {"country": "GB", "names": ["Samaritans", "Shout (text SHOUT)"], "why": "one to call, one to text"},
    {
        "country": "IE",
        "names": ["Samaritans Ireland", "Text About It (text HELLO)"],
        "why": "one to call, one to text",
    },
    {
        "country": "US",
        "names": ["988 Suicide & Crisis Lifeline", "Crisis Text Line (text HOME)"],
        "why": "one to call, one to text",
    },
    {
        "country": "BE",
        "names": ["Zelfmoordlijn 1813", "Centre de Prevention du Suicide"],
        "why": "Dutch and French speakers",
    },
]
"""Two services of which showing one alone leaves somebody without a way."""
NO_EMERGENCY = {
    "PE": "105 (police) by libphonenumber, 911 by two lists; ambulance 106, fire 116; check locally",
    "RS": "112 by libphonenumber alone; police 192, fire 193, ambulance 194; check locally",
}


def line(raw, checked):
    phones = [p["number"] for p in raw["phones"] if p["agree"]]
    sms = raw["sms"] if raw["sms_agree"] else None
    if not raw["agree"] or not (phones or sms):
        return None
    return {
        "name": raw["name"],
        "phones": phones,
        "sms": sms,
        "web": raw["web"],
        "hours": raw["hours"],
        "languages": raw["languages"],
        "audience": raw["audience"],
        "sources": raw["sources"],
        "agreement": raw["agreement"],
        "checked_on": checked,
        "unverified": ["name", "hours", "languages", "web"],
    }


def main():
    directory = json.loads(Path(sys.argv[1]).read_text())
    countries = {}
    for iso, raw in sorted(directory["countries"].items()):
        lines = [made for made in (line(x, directory["meta"]["built"]) for x in raw["lines"]) if made]
        medical = raw.get("emergency_medical", {})
        countries[iso] = {
            "name": raw["country"],
            "emergency": raw["emergency"] if raw["emergency_agree"] else None,
            "emergency_medical": medical.get("number") if medical.get("agree") else None,
            "emergency_sources": raw["emergency_sources"],
            **({"emergency_note": NO_EMERGENCY[iso]} if iso in NO_EMERGENCY else {}),
            "lines": lines,
        }
    out = {
        "checked_on": directory["meta"]["built"],
        "note": "Numbers agreed by independent sources; nobody has dialled them. A person must check each before a real deployment.",
        "directories": directory["directories"],
        "fallback_emergency": "Call your local emergency number: 112 works in the EU and from many mobile networks, 911 in North America, 999 in the UK.",
        "retired": [{"number": number, "why": why} for number, why in RETIRED.items()],
        "pairs": PAIRS,
        "countries": countries,
    }
    print("# Made by scripts/make_resources.py; edit the directory, not this file.")
    yaml.safe_dump(out, sys.stdout, sort_keys=False, allow_unicode=True, width=118)


if __name__ == "__main__":
    main()
