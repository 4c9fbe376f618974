"""Whether a study could go before an ethics board: what is missing from its file and its deployment, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from importlib import resources
from pathlib import Path

from bot.agreement import disagreements
from bot.assembly import arm_rules, arm_spec, consent_text, retention_rules
from bot.errors import BotError
from bot.escalation import channels
from bot.models.connect import endpoint
from bot.moves import Rules
from bot.parts import now
from bot.posturing import ROOT
from bot.prompts import prompt
from bot.settings import Mode, Settings
from policies import crisis, hazards, thresholds
from policies.crisis.checks import check_directory
from policies.errors import PolicyError
from policies.planning import library as libraries
from policies.study import Study
from policies.wording import lint
from privacy.errors import PrivacyError
from privacy.vault import master_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something about a study.

    Attributes:
        stops: it would stop a board, or the study from running; else it is to be looked at.
        where: file and line, or setting.
        what: is wrong.
        do: what to do.
    """

    stops: bool
    where: str
    what: str
    do: str


def prompt_digests() -> dict[str, str]:
    """The SHA-256 of each prompt of the chat."""
    folder = Path(str(resources.files("bot") / "prompts"))
    return {path.stem: prompt(path.stem).sha256 for path in sorted(folder.glob("*.md"))}


def findings(settings: Settings, study: Study) -> list[Finding]:
    """Everything that is to be said about a study, what stops it first."""
    return sorted(_found(settings, study), key=lambda f: not f.stops)


def _found(settings: Settings, study: Study) -> Iterator[Finding]:
    yield from _file(study)
    yield from _deployment(settings, study)
    yield from _arms(settings, study)
    yield from _policies(settings, study)


def _stop(where: str, what: str, do: str) -> Finding:
    return Finding(stops=True, where=where, what=what, do=do)


def _look(where: str, what: str, do: str) -> Finding:
    return Finding(stops=False, where=where, what=what, do=do)


def _file(study: Study) -> Iterator[Finding]:
    said = study.choices
    if study.is_example:
        yield _stop(
            str(study.path), "this is the example that ships", "copy it, change it, set RAISE_STUDY_FILE"
        )
    for name, why in (
        ("contact", "participants have nobody to ask or complain to"),
        ("ethics_reference", "no approval is named"),
    ):
        if not getattr(said, name).strip():
            yield _stop(study.where(name), f"{name} is empty: {why}", f"fill in {name}")
    if not said.country:
        yield _look(
            study.where("country"),
            "no country: each person is asked before help lines fit",
            "set it if there is one",
        )
    if said.closes is None:
        yield _stop(study.where("closes"), "no last day: a board asks how long it runs", "set closes")
    elif said.closes < now().date():
        yield _stop(
            study.where("closes"), f"it closed on {said.closes}", "set another day, or leave it closed"
        )
    if said.opens is not None and said.opens > now().date() + timedelta(days=730):
        yield _look(
            study.where("opens"), f"it opens on {said.opens}, in more than two years", "is that meant?"
        )
    if not said.on_call.contact:
        yield _stop(
            study.where("on_call", "contact"), "nobody is named who is told of danger", "name who is on call"
        )
    if not said.on_call.response:
        yield _stop(
            study.where("on_call", "response"),
            "participants are not told how fast anybody answers",
            "set on_call.response",
        )
    if said.stop_rule.imminent_a_day is None:
        yield _stop(study.where("stop_rule"), "no stop rule", "set stop_rule.imminent_a_day")
    if said.minimum_age < 18:
        yield _look(
            study.where("minimum_age"),
            f"minors of {said.minimum_age} take part",
            "a board asks for a guardian's consent, which this program does not take",
        )
    if len(said.arms) < 2:
        yield _look(study.where("arms"), "one arm: nothing is compared", "is that meant?")
    if not said.questionnaires:
        yield _look(
            study.where("questionnaires"),
            "no questionnaires: what is the outcome?",
            "name a scale that you may use",
        )
    for number, one in enumerate(said.questionnaires):
        texts = [
            one.title,
            one.intro,
            *(i.text for i in one.items),
            *(i.low for i in one.items),
            *(i.high for i in one.items),
        ]
        for text in texts:
            for problem in lint(text):
                yield _stop(
                    study.where("questionnaires", str(number)),
                    f"{problem.rule}: {problem.why}",
                    "word it otherwise",
                )


def _deployment(settings: Settings, study: Study) -> Iterator[Finding]:
    if settings.mode is not Mode.STUDY:
        yield _stop("RAISE_MODE", "it is demo: anybody may chat without a code", "set RAISE_MODE=study")
    try:
        if not channels(settings):
            yield _stop(
                "RAISE_ON_CALL_WEBHOOK, RAISE_ON_CALL_EMAIL",
                "nobody is told of danger",
                "set one, and try it",
            )
    except BotError as bad:
        yield _stop("on call", str(bad), "mend it")
    try:
        master_keys(
            settings.data_dir,
            from_environment=settings.master_keys.get_secret_value() if settings.master_keys else "",
            file=settings.master_key_file,
        )
    except PrivacyError as bad:
        yield _stop("master key", str(bad), "docs/privacy.md says where keys live")
    if not settings.origin.startswith("https://") and "127.0.0.1" not in settings.origin:
        yield _stop("RAISE_PUBLIC_ORIGIN", "the chat is not served by https", "see docs/deploy.md")
    elif not settings.origin.startswith("https://"):
        yield _look(
            "RAISE_PUBLIC_ORIGIN",
            "the chat answers on this machine alone",
            "set the address participants use; see docs/deploy.md",
        )
    if settings.audit_heads_file is None and not settings.audit_webhook:
        yield _look(
            "RAISE_AUDIT_WEBHOOK",
            "nobody outside holds the audit log's heads",
            "set it, or mail a head by hand",
        )
    del study


def _arms(settings: Settings, study: Study) -> Iterator[Finding]:
    try:
        outside = endpoint(settings) is not None
    except BotError as bad:
        outside = False
        yield _stop("RAISE_MODEL_BASE_URL", str(bad), "mend it")
    for name, arm in study.choices.arms.items():
        where = study.where("arms", name)
        chosen = arm.model or study.choices.model.name
        if chosen != "built-in" and not outside:
            yield _stop(
                where,
                f"the arm {name} needs the model {chosen}, and no endpoint is set",
                "set RAISE_MODEL_BASE_URL",
            )
        if arm.kind == "agent" and chosen == "built-in":
            yield _stop(
                where, f"the arm {name} lets a model choose, and its model is built-in", "name a model"
            )
        if chosen != "built-in" and not arm.prompts:
            yield _look(
                where,
                f"the arm {name} does not fix its prompts",
                "put in what 'raise-chat study prompts' says",
            )
        for prompt_name, digest in arm.prompts.items():
            if prompt_digests().get(prompt_name) != digest:
                yield _stop(
                    where,
                    f"the prompt {prompt_name} is another than the protocol's",
                    "put its text back, or raise the version",
                )
        try:
            limits = arm_rules(Rules(thresholds=thresholds.shipped()), study, name).thresholds
            most = min(limits.most_questions, max(limits.budget.values()))
            if arm.budget is not None and arm.budget > most:
                yield _look(
                    where,
                    f"the arm {name} may ask {arm.budget} questions a topic, its thresholds {most}: it asks {most} at most",
                    "name a file of thresholds that allows more, or lower the budget",
                )
            if arm.library:
                libraries.read(study.beside(arm.library))
        except (BotError, PolicyError) as bad:
            yield _stop(where, str(bad), "mend the file")
        spec = arm_spec(study, name)
        if spec.budget == 0 and spec.kind != "vanilla":
            yield _look(
                where, f"the arm {name} may ask nothing: it is vanilla by another name", "is that meant?"
            )


def _policies(settings: Settings, study: Study) -> Iterator[Finding]:
    try:
        text = consent_text(settings)
        if "change me" in text.contact or "no study" in text.contact:
            yield _stop(
                "consent", "the consent text names no study", "fill in title, contact and ethics_reference"
            )
        rules = retention_rules(settings)
    except (BotError, PolicyError) as bad:
        yield _stop(study.where("consent"), str(bad), "mend it")
        return
    today = now().date()
    for found in check_directory(crisis.shipped(), today=today, is_study=True):
        if found.is_error or (settings.country and settings.country in found.where):
            yield Finding(
                stops=found.is_error, where=found.where, what=found.problem, do="raise-chat policies check"
            )
    for where, problem in disagreements(rules, hazards.shipped(), ROOT):
        yield _stop(where, problem, "raise-chat policies check")
    yield _look(
        "texts",
        "no clinician and no lawyer has reviewed questions, guidance, crisis texts or consent",
        "have them reviewed, and say so to the board",
    )
