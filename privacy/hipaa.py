"""The 18 classes of HIPAA Safe Harbor (45 CFR 164.514(b)(2)), and what of ours looks for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CLASSES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("A", "names", ("PERSON",)),
    ("B", "places smaller than a state, postcodes", ("LOCATION", "STREET_ADDRESS", "POSTCODE")),
    ("C", "dates but the year, ages of 90 and over", ("DATE", "DATE_TIME", "DATE_OF_BIRTH", "AGE_OVER_89")),
    ("D", "telephone numbers", ("PHONE_NUMBER",)),
    ("E", "fax numbers", ("PHONE_NUMBER",)),
    ("F", "e-mail addresses", ("EMAIL_ADDRESS",)),
    ("G", "social security and national numbers", ("US_SSN", "NATIONAL_ID")),
    ("H", "medical record numbers", ("MEDICAL_RECORD",)),
    ("I", "health plan numbers", ("INSURANCE_ID",)),
    ("J", "account numbers", ("BANK_ACCOUNT", "IBAN_CODE", "CREDIT_CARD")),
    ("K", "certificate and licence numbers", ("DRIVER_LICENSE", "PASSPORT", "STUDENT_ID")),
    ("L", "vehicles", ("LICENSE_PLATE",)),
    ("M", "devices", ("DEVICE_ID",)),
    ("N", "web addresses", ("URL",)),
    ("O", "IP addresses", ("IP_ADDRESS",)),
    ("P", "biometrics", ()),
    ("Q", "photographs of faces", ()),
    (
        "R",
        "any other unique number, code or name of where somebody is",
        ("SOCIAL_HANDLE", "CASE_NUMBER", "COORDINATES", "ORGANIZATION"),
    ),
)
KINDS: Final = tuple(sorted({kind for _, _, kinds in CLASSES for kind in kinds}))


def measured(by_type: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """Each class with how many labelled spans of its kinds there were and how many were covered.

    Args:
        by_type: spans and covered, by kind.
    """
    rows = []
    for letter, name, kinds in CLASSES:
        told = [by_type[kind] for kind in kinds if kind in by_type]
        rows.append({
            "class": letter, "name": name, "kinds": list(kinds), "of": sum(many for many, _ in told),
            "covered": sum(well for _, well in told), "taken_in": bool(kinds),
        })  # fmt: skip
    return rows
