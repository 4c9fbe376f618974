"""Whether code and policy say the same: tables and rules, hazards and the files that are to control them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from policies.hazards import HazardLog
from policies.retention import CATEGORIES, PERSONAL, RetentionPolicy
from privacy.store.schema import MIGRATIONS, TABLES, TableFacts, columns_of_release


def disagreements(
    rules: RetentionPolicy, hazards: HazardLog, root: Path, *, tables: dict[str, TableFacts] | None = None
) -> Iterator[tuple[str, str]]:
    """Where they do not: what, and what is wrong with it.

    Args:
        rules: of retention.
        hazards: that are to be controlled.
        root: of the installation; where its tests are not installed, their files are not looked for.
        tables: what each table is for; ours where None.
    """
    known = dict(TABLES) if tables is None else tables
    made = columns_of_release(MIGRATIONS)
    for table in made:
        if table not in known:
            yield f"table {table}", "no purpose and no retention rule (privacy/store/schema.py)"
    for table, facts in known.items():
        if table not in made:
            yield f"table {table}", "it has a rule and no migration makes it"
        for category in facts.categories:
            if category not in rules.rules:
                yield f"table {table}", f"its category {category} has no rule in {rules.source}"
        if facts.categories and facts.categories[0] in PERSONAL:
            missing = {"person", "category", "expires_at"} - set(made.get(table, ()))
            if missing:
                yield f"table {table}", f"it belongs to persons and has no column {min(missing)}"
    used = {c for facts in known.values() for c in facts.categories} | {
        "audit_log",
        "exports",
        "logs",
        "uploads",
    }
    for category in CATEGORIES:
        if category not in used:
            yield f"rule {category}", "no table and no folder falls under it"
    has_tests = (root / "tests").is_dir()
    for hazard in hazards.hazards:
        for name in (*hazard.code, *(hazard.verified_by if has_tests else ())):
            if not (root / name).exists():
                yield f"hazard {hazard.id}", f"{name} is not there"
