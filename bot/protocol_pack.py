"""The pack for an ethics board: made from the running configuration, so that it says what the program does."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from bot.assembly import consent_text, outside
from bot.messages import messages
from bot.posturing import KNOWN_GAPS
from bot.settings import Mode, Settings, masked
from bot.web import pages
from bot.web.audit_page import audit_page
from policies import consent, crisis
from policies.consent import ConsentText
from policies.hazards import HazardLog
from policies.retention import RetentionPolicy
from privacy.consent import ConsentVersion
from privacy.posture import Posture

NOT_FIXED = ("audit.html", "audit.json", "next-30-days.md")
"""Files of the pack that say how things stand today; the others change only with code, policies or settings."""
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The files of a pack.

    Attributes:
        files: name to content.
    """

    files: dict[str, str]

    def write(self, folder: Path) -> None:
        """Into a folder, with a manifest of their hashes."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / MANIFEST).write_text(json.dumps(self.hashes(), indent=1) + "\n", encoding="utf-8")

    def hashes(self) -> dict[str, str]:
        """SHA-256 by file."""
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sorted(self.files.items())}

    def differs(self, folder: Path) -> list[str]:
        """Fixed files of a pack that was made before which the program would write otherwise now."""
        found = []
        for name, text in sorted(self.files.items()):
            path = folder / name
            if name in NOT_FIXED:
                continue
            if not path.exists():
                found.append(f"{name}: not there")
            elif path.read_text(encoding="utf-8") != text:
                found.append(f"{name}: says something else than the program does now")
        return found


def pack(
    settings: Settings, *, rules: RetentionPolicy, hazards: HazardLog, posture: Posture, release: str
) -> Pack:
    """Everything that an ethics board asks for.

    Args:
        settings: in force.
        rules: of retention.
        hazards: the log of them.
        posture: the auditor's report of today.
        release: of the program.
    """
    texts = [consent_text(settings, path) for path in consent.every()]
    about = {
        "title": settings.study_title or "A demo, no study", "mode": settings.mode.value, "release": release,
    }  # fmt: skip
    said = messages()
    alerts = said[settings.alerts_key].format(response=settings.on_call_response or said["alerts_no_promise"])
    files = {
        "data-map.csv": _data_map(posture),
        "retention.md": _retention(rules),
        "next-30-days.md": _coming(posture),
        "crisis-protocol.html": pages.protocol_page(checked=crisis.shipped().verified_on, alerts=alerts),
        "hazards.md": _hazards(hazards),
        "breach.md": _breach(settings),
        "subprocessors.md": _subprocessors(settings),
        "measured.md": _measured(),
        "settings.json": json.dumps(masked(settings), indent=1, sort_keys=True) + "\n",
        "audit.html": audit_page(posture, about=about),
        "audit.json": json.dumps(posture.to_json(), indent=1) + "\n",
        **{f"consent-{text.version}.md": _consent(text) for text in texts},
    }
    files["README.md"] = _readme(settings, files, release=release, checked=crisis.shipped().verified_on)
    return Pack(files=files)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    def cell(value: Any) -> str:
        return str(value).replace("|", "/").replace("\n", " ")

    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)]) + "\n"


def _data_map(posture: Posture) -> str:
    out = io.StringIO()
    columns = ("file", "table", "column", "category", "purpose", "basis", "sealed", "rule")
    writer = csv.DictWriter(out, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(posture.data_map)
    return out.getvalue()


def _retention(rules: RetentionPolicy) -> str:
    told = [(c, rules.describe(c)) for c in rules.rules]
    rows = [(c.replace("_", " "), d["keep"], d["from"], d["then"], d["reason"]) for c, d in told]
    ends = f" The study ends {rules.study_ends:%Y-%m-%d}." if rules.study_ends else ""
    return (
        f"# Retention\n\nSwept by schedule `{rules.sweep}` (cron, UTC) and at start; what has expired is never read, from that"
        f" second on.{ends} Digest of the rules: `{rules.digest}`.\n\n"
        + _table(("category", "kept", "from", "then", "why"), rows)
    )


def _coming(posture: Posture) -> str:
    rows = [(r["day"], r["category"].replace("_", " "), r["rows"]) for r in posture.coming]
    return f"# What goes within 30 days of {posture.at[:10]}\n\n" + (
        _table(("day", "category", "rows"), rows) if rows else "Nothing.\n"
    )


def _consent(text: ConsentText) -> str:
    digest = ConsentVersion.of(text.version, text.everything()).sha256
    return f"# Consent text, version {text.version}\n\nSHA-256 of the text below the line: `{digest}`\n\n---\n\n{text.everything()}\n"


def _hazards(log: HazardLog) -> str:
    parts = [
        f"# Hazard log\n\nReviewed by: {log.reviewed_by}. Scores are estimates by the developers.\n\n"
        + _table(("scale", "meaning"), list(log.scales.items())),
        _table(
            ("id", "hazard", "severity", "likelihood before", "after", "left"),
            [
                (h.id, h.hazard, h.severity, h.likelihood, h.residual_likelihood, h.residual)
                for h in log.hazards
            ],
        ),
    ]
    for h in log.hazards:
        controls = "\n".join(f"- {c}" for c in h.controls)
        parts.append(
            f"## {h.id} {h.hazard}\n\nCause: {h.cause}\n\nHarm: {h.harm}\n\nControls:\n\n{controls}\n\nIn: {', '.join(h.code)}."
            f" Shown by: {', '.join(h.verified_by)}.\n\nLeft: {h.residual}\n\nThe study must: {h.operator}\n"
        )
    return "\n".join(parts)


def _breach(settings: Settings) -> str:
    """The runbook with this deployment's names.

    Raises:
        KeyError: it has a placeholder that nothing fills.
    """
    text = (resources.files("policies") / "breach.md").read_text(encoding="utf-8")
    values = {
        "study_title": settings.study_title or "(set RAISE_STUDY_TITLE)",
        "study_contact": settings.study_contact or "(set RAISE_STUDY_CONTACT)",
        "ethics_reference": settings.ethics_reference or "(set RAISE_ETHICS_REFERENCE)",
        "data_dir": str(settings.data_dir),
    }
    return re.sub(r"\{(\w+)\}", lambda found: values[found[1]], text)


def _subprocessors(settings: Settings) -> str:
    rows = []
    where = outside(settings)
    if where is not None:
        what = (
            "redacted text of messages, where the person consented to send"
            if not where.is_local
            else "the same, on this machine"
        )
        roles = {
            settings.model_answer, settings.model, settings.model_assess, settings.model_interview, settings.model_risk,
        } - {""}  # fmt: skip
        rows.append((where.host, f"language model ({', '.join(sorted(roles)) or 'unnamed'})", what))
    if settings.on_call_webhook or settings.on_call_email:
        rows.append(
            ("the on-call contact", "webhook or e-mail", "pseudonym, level and time of danger; no words")
        )
    if settings.smtp_host:
        rows.append((settings.smtp_host, "mail server", "the same notices"))
    if settings.audit_webhook:
        rows.append(("the holder of the log's heads", "webhook", "number, hash and time of log entries"))
    told = (
        _table(("who", "what for", "what they get"), rows) if rows else "None: nothing leaves this machine.\n"
    )
    return f"# Subprocessors and recipients\n\n{told}\nThe page itself loads nothing from anybody else.\n"


def _measured() -> str:
    raw = json.loads((resources.files("policies") / "crisis" / "measured.json").read_text(encoding="utf-8"))
    rows = [(s["name"], r["what"], r["hits"], r["of"]) for s in raw["sets"] for r in s["rows"]]
    gaps = "\n".join(f"- {gap}" for gap in KNOWN_GAPS)
    return (
        "# What is measured, and what is not\n\nThe risk screen, on labelled messages written for this project, not on people in crisis:\n\n"
        + _table(("set", "what", "hits", "of"), rows)
        + "\nRedaction is measured anew with each audit (audit.html). Known to be missed:\n\n" + gaps
        + "\n\nNot measured, not reviewed:\n\n"
        "- No person in distress has used this; whether anyone is better off for it is unknown.\n"
        "- No clinician, lawyer, native speaker of another language or person with lived experience has reviewed it.\n"
        "- Nobody has dialled the help lines.\n"
        "- How good replies are has been judged by no one but the developers and their checks.\n"
        "- Whether the screen or the redaction errs more for some groups of people than for others.\n"
    )  # fmt: skip


def _readme(settings: Settings, files: dict[str, str], *, release: str, checked: date) -> str:
    what = {
        "data-map.csv": "every table and column: purpose, legal basis, sealed or not, rule (GDPR Art. 30)",
        "retention.md": "how long, from when, then what, why",
        "next-30-days.md": "what will be deleted (as of today)",
        "crisis-protocol.html": "what is detected, what then happens, how often it errs",
        "hazards.md": "what can go wrong, what is done about it, what is left",
        "breach.md": "what to do when something got out",
        "subprocessors.md": "who else gets anything",
        "measured.md": "what is measured and what is not",
        "settings.json": "the configuration in force, secrets masked",
        "audit.html": "the auditor's report of today; audit.json is the same for programs",
    }
    lines = [f"- `{name}`: {what[name]}" for name in what if name in files]
    lines += [
        f"- `{name}`: the exact text that participants agree to"
        for name in files
        if name.startswith("consent-")
    ]
    mode = (
        "a study"
        if settings.mode is Mode.STUDY
        else "a demo: a study needs RAISE_MODE=study and its own texts"
    )
    return (
        f"# Protocol pack: {settings.study_title or 'no study title is set'}\n\n"
        f"Made by `raise-chat privacy protocol` from the configuration of {mode}; raise-chat {release}. Ethics reference:"
        f" {settings.ethics_reference or 'none is set'}. Contact: {settings.study_contact or 'none is set'}. Help lines compared on {checked}.\n\n"
        "**No clinician, lawyer or ethics board has reviewed the product or this pack.**\n\n"
        + "\n".join(lines)
        + "\n\n`raise-chat privacy protocol --check DIR` says whether the program still does what this pack says.\n"
    )
