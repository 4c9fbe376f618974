"""The three-way split: who may import whom, and which library lives where."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("bot", "policies", "privacy")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def tops(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


@pytest.mark.parametrize(
    ("package", "barred"), [("policies", {"bot", "privacy"}), ("privacy", {"bot", "policies"})]
)
def test_inner_packages_import_neither_bot_nor_each_other(package: str, barred: set[str]) -> None:
    for path in modules(package):
        assert not tops(path) & barred, path


ONLY_IN = {
    "chainlit": lambda p: p.is_relative_to(ROOT / "bot" / "web"),
    "openai": lambda p: p == ROOT / "bot" / "models" / "openai_api.py",
    "presidio_analyzer": lambda p: p == ROOT / "privacy" / "redaction.py",
    "apscheduler": lambda p: p == ROOT / "privacy" / "scheduler.py",
    "sqlite_utils": lambda p: p.is_relative_to(ROOT / "privacy"),
    "cryptography": lambda p: p.is_relative_to(ROOT / "privacy"),
    "spacy": lambda p: p.is_relative_to(ROOT / "privacy"),
    "onnxruntime": lambda p: p == ROOT / "policies" / "encoder.py",
    "fastapi": lambda p: p.is_relative_to(ROOT / "bot" / "web"),
    "httpx2": lambda p: p == ROOT / "bot" / "models" / "recorded.py",
    "click": lambda p: p.is_relative_to(ROOT / "bot" / "cli"),
}


@pytest.mark.parametrize("library", ONLY_IN)
def test_each_library_lives_in_one_place(library: str) -> None:
    for package in PACKAGES:
        for path in modules(package):
            if library in tops(path):
                assert ONLY_IN[library](path), f"{path} imports {library}"


PURE = (
    "bot/dialogue.py",
    "bot/session.py",
    "bot/moves.py",
    "bot/safety_plan.py",
    "bot/acquisition.py",
    "bot/abstention.py",
    "bot/risk/state.py",
    "bot/risk/verdict.py",
)


@pytest.mark.parametrize("name", PURE)
def test_pure_modules_reach_for_no_clock_network_model_or_store(name: str) -> None:
    path = ROOT / name
    assert not tops(path) & {"time", "socket", "asyncio", "os", "pathlib", "logging", "numpy"}
    assert "bot.models.guided" not in imports(path)
    assert ".now(" not in path.read_text()


def test_nothing_reaches_into_shared() -> None:
    """Users do not have the folder beside the repository that the developers build on."""
    for path in [
        *(p for package in PACKAGES for p in modules(package)),
        *sorted((ROOT / "tests").rglob("*.py")),
    ]:
        assert "../" + "shared" not in path.read_text(), path


def test_a_command_does_not_wait_for_what_it_does_not_use() -> None:
    """The client of models and the server of the browser take a second each to load."""
    code = "import sys, bot.cli; print([m for m in ('openai', 'chainlit', 'spacy', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr
