"""Every setting, typed, in one place: read once, from the environment and `.env`, and passed down.

Names start with RAISE_; a misspelt RAISE_ name is an error, not silence.
"""

from __future__ import annotations

import os
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from bot.errors import SettingsError
from bot.risk.verdict import RiskLevel
from policies import study
from policies.study import Study


class Mode(StrEnum):
    """Demo: each visitor gets an anonymous code, nothing is kept. Study: consenting participants."""

    DEMO = "demo"
    STUDY = "study"


class Settings(BaseSettings):
    """What is in force. Immutable."""

    model_config = SettingsConfigDict(env_prefix="RAISE_", env_file=".env", extra="ignore", frozen=True)

    mode: Mode = Field(default=Mode.DEMO, description="demo or study")
    data_dir: Path = Field(default=Path(".data"), description="where everything we write lives")
    host: str = Field(default="127.0.0.1", description="address the chat listens on")
    port: int = Field(default=8800, ge=1, le=65535, description="port the chat listens on")
    public_origin: str = Field(
        default="", description="the one origin of the chat, such as https://chat.example.org"
    )
    auth_secret: SecretStr | None = Field(
        default=None, description="signs session cookies; made at start when absent"
    )
    master_keys: SecretStr | None = Field(
        default=None, description="master keys, newest first, separated by commas; see docs/privacy.md"
    )
    master_key_file: Path | None = Field(
        default=None, description="a file with one master key a line, mode 0600, or a secret manager's mount"
    )
    redaction_model: str = Field(
        default="", description="package of a larger spaCy model; empty: the one that ships"
    )
    redaction_stronger: str = Field(
        default="", description="gliner:MODEL or transformers:MODEL, a recogniser beside ours"
    )
    retention_file: Path | None = Field(
        default=None, description="how long each kind of record lives; empty: the file that ships"
    )
    study_file: Path | None = Field(
        default=None, description="one study's choices; empty: the example that ships, in study mode"
    )
    consent_version: str = Field(
        default="", description="version of the consent text in force; empty: the newest that ships"
    )
    study_ends: date | None = Field(
        default=None, description="last day of the study, such as 2027-06-30, for rules that count from it"
    )
    audit_heads_file: Path | None = Field(
        default=None,
        description="where the audit log's heads go after each sweep; empty: audit-heads.txt beside the data",
    )
    audit_webhook: str = Field(
        default="",
        description="https address that is sent the audit log's heads, for whoever must be able to tell",
    )
    audit_webhook_secret: SecretStr | None = Field(
        default=None, description="signs what that webhook is sent"
    )
    study_title: str = Field(default="", description="as participants read it")
    study_contact: str = Field(default="", description="whom participants can ask or complain to")
    ethics_reference: str = Field(default="", description="of the approval")
    country: str = Field(
        default="", max_length=2, description="ISO code of the study's country; empty asks the person"
    )
    minimum_age: int = Field(default=18, ge=13, le=21, description="below it the conversation changes")
    model_base_url: str = Field(
        default="",
        description="an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1; elsewhere https",
    )
    model_api_key: SecretStr | None = Field(default=None, description="its key, where it wants one")
    model: str = Field(default="", description="its model for every role that has none of its own")
    model_assess: str = Field(default="", description="model that says what a question is about")
    model_interview: str = Field(
        default="", description="model that fits a question and reads an answer the built-in reader could not"
    )
    model_answer: str = Field(default="", description="model that writes the reply")
    model_risk: str = Field(default="", description="model that gives a second opinion on danger")
    model_embed: str = Field(
        default="", description="embedding model that finds planned paths; empty: the built-in encoder"
    )
    judge_base_url: str = Field(
        default="", description="endpoint of the benchmark's judge; empty: RAISE_MODEL_BASE_URL"
    )
    judge_api_key: SecretStr | None = Field(
        default=None, description="its key; empty: RAISE_MODEL_API_KEY where the endpoint is the same"
    )
    judge_model: str = Field(
        default="", description="model that judges in raise-chat penguin; empty: the heuristic judge"
    )
    model_turn_seconds: float = Field(
        default=20.0, gt=0, le=120, description="seconds a turn's calls may take together"
    )
    model_day_tokens: int = Field(
        default=0, ge=0, description="tokens a day, then the built-in model; 0 for no cap"
    )
    model_session_tokens: int = Field(
        default=0, ge=0, description="tokens a conversation, then the built-in model; 0 for no cap"
    )
    prices: str = Field(
        default="", description='what asking costs, where a study differs: "health=0.9, age=0", each 0 to 1'
    )
    price_weight: float = Field(
        default=0.0,
        ge=0,
        le=20,
        description="λ: safety points that asking at full price must be worth; 0 asks freely",
    )
    library: Path | None = Field(
        default=None,
        description="planned paths of your own, from raise-chat plan build; empty: those that ship",
    )
    on_call_webhook: str = Field(
        default="", description="https address told of danger: pseudonym, level, time"
    )
    on_call_secret: SecretStr | None = Field(default=None, description="signs what the webhook is sent")
    on_call_email: str = Field(default="", description="e-mail address told of danger")
    on_call_level: RiskLevel = Field(
        default=RiskLevel.IMMINENT, description="lowest level told of: imminent or elevated"
    )
    on_call_response: str = Field(
        default="",
        description='how fast the contact answers, as participants read it: "within two hours on weekdays"',
    )
    smtp_host: str = Field(default="", description="mail server for on-call notices")
    smtp_port: int = Field(default=587, ge=1, le=65535, description="its port")
    smtp_tls: bool = Field(default=True, description="STARTTLS to the mail server")
    smtp_user: str = Field(default="", description="account on the mail server")
    smtp_password: SecretStr | None = Field(default=None, description="its password")
    smtp_from: str = Field(default="", description="sender of on-call notices")
    silence_seconds: int = Field(
        default=180,
        ge=5,
        description="after this long without a word under imminent danger, one more line is shown",
    )
    seed: int = Field(default=0, description="chooses phrasings")
    quick_exit_url: str = Field(
        default="", description='where "Leave this page" goes; empty: a blank page of ours'
    )

    @field_validator("country")
    @classmethod
    def _upper(cls, value: str) -> str:
        return value.upper()

    @property
    def alerts(self) -> bool:
        """Whether anybody is told of danger."""
        return bool(self.on_call_webhook or self.on_call_email)

    @property
    def alerts_key(self) -> str:
        """Which message tells people who is told of what."""
        if not self.alerts:
            return "alerts_nobody"
        return "alerts_someone" if self.on_call_level is RiskLevel.IMMINENT else "alerts_someone_early"

    @field_validator("on_call_level")
    @classmethod
    def _some_level(cls, value: RiskLevel) -> RiskLevel:
        if value is RiskLevel.NONE:
            raise ValueError("imminent or elevated")
        return value

    @property
    def origin(self) -> str:
        """The one origin the chat answers to."""
        everywhere = ("0.0.0.0", "::")  # noqa: S104 (compared, not bound)
        return (
            self.public_origin
            or f"http://{'127.0.0.1' if self.host in everywhere else self.host}:{self.port}"
        )


def read_settings() -> Settings:
    """The settings in force.

    Raises:
        SettingsError: a value is wrong or a RAISE_ name is unknown; the message names it.
    """
    known = {f"RAISE_{name.upper()}" for name in Settings.model_fields}
    in_file = []
    if Path(".env").is_file():
        in_file = [
            line.split("=", 1)[0].strip().removeprefix("export ")
            for line in Path(".env").read_text().splitlines()
            if "=" in line and not line.lstrip().startswith("#")
        ]
    unknown = sorted({name for name in (*os.environ, *in_file) if name.startswith("RAISE_")} - known)
    if unknown:
        raise SettingsError(f"{unknown[0]} is not a setting; known are {', '.join(sorted(known))}")
    try:
        return with_study(Settings())
    except ValidationError as bad:
        first = bad.errors()[0]
        name = "RAISE_" + str(first["loc"][0]).upper()
        raise SettingsError(f"{name}: {first['msg']}") from None


def study_of(settings: Settings) -> Study:
    """The study's choices: the file that is set, or the example that ships.

    Raises:
        PolicyFileError: the file cannot be used; it says where and why.
    """
    return study.load(settings.study_file) if settings.study_file else study.shipped()


def with_study(settings: Settings) -> Settings:
    """The settings with what the study file says put in.

    Raises:
        SettingsError: the environment says something else than a study file that was named; both are named.
        PolicyFileError: the file cannot be used.
    """
    if settings.study_file is None and settings.mode is not Mode.STUDY:
        return settings
    found = study_of(settings)
    chosen = found.choices
    told: dict[str, Any] = {
        "study_title": chosen.title,
        "study_contact": chosen.contact,
        "ethics_reference": chosen.ethics_reference,
        "country": chosen.country.upper(),
        "minimum_age": chosen.minimum_age,
        "study_ends": chosen.closes,
        "retention_file": found.beside(chosen.retention_file) if chosen.retention_file else None,
        "consent_version": chosen.consent,
        "on_call_response": chosen.on_call.response,
    }
    put: dict[str, Any] = {}
    for name, value in told.items():
        if value in ("", None):
            continue
        if name not in settings.model_fields_set:
            put[name] = value
        elif not found.is_example and getattr(settings, name) != value:
            raise SettingsError(
                f"RAISE_{name.upper()} is set, and {found.path} says something else: keep one of the two"
            )
    return settings.model_copy(update=put)


def masked(settings: Settings) -> dict[str, str]:
    """Every setting as text, secrets masked."""
    return {
        f"RAISE_{name.upper()}": "********"
        if isinstance(value, SecretStr)
        else ("" if value is None else str(value))
        for name, value in settings
    }
