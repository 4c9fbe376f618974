"""A whole pilot in one script: thirty people by the socket, two arms, withdrawals, a crisis, a purge, a rotation, an export, an audit.

usage: python -m tests.prove_pilot [PEOPLE]     (part of make prove; the last result is in docs/proofs.md)

The script keeps books of its own of everything that people do; every number of the export, the flow and the audit must agree.
"""

from __future__ import annotations

import asyncio
import csv
import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.prove_load import ROOT, Measured, Person, browsers, conversation

STUDY = """
version: "pilot-1"
title: Pilot in a script
contact: desk@pilot.example
ethics_reference: none, a proof
country: GB
closes: 2099-12-31
on_call: {contact: the script, response: at once}
stop_rule: {imminent_a_day: 50}
arms:
  raise: {kind: raise}
  vanilla: {kind: vanilla}
questionnaires:
  - name: distress
    title: How you are
    when: [before]
    items:
      - {id: now, text: "How upset are you right now?", kind: likert, points: 5, low: not at all, high: extremely}
"""
SCOPES = ("chat", "keep", "research", "contact")
DANGER = "I am going to kill myself tonight"


@dataclass
class Book:
    """What one participant did.

    Attributes:
        code: of the study.
        pin: theirs.
        says: scopes that they agree to.
        sent: messages.
        answered: consent questions.
        rated: answers that they rated.
        upset: their point on the scale.
        in_danger: they told of danger.
        leaves: how: "" for not, "page" or "desk".
    """

    code: str
    pin: str
    says: frozenset[str]
    sent: int = 0
    answered: int = 0
    rated: int = 0
    upset: int = 0
    in_danger: bool = False
    leaves: str = ""
    receipt: dict[str, Any] = field(default_factory=dict)

    @property
    def is_kept(self) -> bool:
        return "keep" in self.says and not self.leaves

    @property
    def is_exported(self) -> bool:
        return "research" in self.says and not self.leaves


class Participant(Person):
    """A person who signs in with a code and a PIN."""

    def __init__(self, url: str, http: aiohttp.ClientSession, measured: Measured, book: Book) -> None:
        super().__init__(url, http, measured)
        self.book = book

    async def cookie(self) -> str:
        return self._cookie

    async def sign_in(self) -> None:
        form = {"username": self.book.code, "password": self.book.pin}
        async with self._http.post(self._url + "/login", data=form, headers={"Origin": self._url}) as answer:
            assert answer.status == 200, await answer.text()
            self._cookie = "; ".join(f"{c.key}={c.value}" for c in answer.cookies.values())

    async def post(self, path: str, **form: str) -> str:
        headers = {"Origin": self._url, "Cookie": self._cookie}
        async with self._http.post(self._url + path, data=form, headers=headers) as answer:
            assert answer.status == 200, (path, answer.status)
            return await answer.text()


async def take_part(url: str, http: aiohttp.ClientSession, book: Book, measured: Measured) -> None:
    rng = random.Random(book.code)
    person = Participant(url, http, measured, book)
    await person.sign_in()
    for scope in SCOPES:
        await person.post("/consent", scope=scope, answer="yes" if scope in book.says else "no")
        book.answered += 1
    if "keep" in book.says:
        book.upset = rng.randrange(1, 6)
        await person.post("/questions/before", **{"distress.now": str(book.upset)})
    await person.come()
    for text in conversation(rng, 4):
        await asyncio.sleep(rng.expovariate(2))
        await person.say(text)
        book.sent += 1
    if "keep" in book.says and rng.random() < 0.5:
        await person.post("/feedback", turn=str(book.sent), rate="helped", note="")
        book.rated = 1
    if book.in_danger:
        await person.say(DANGER)
        book.sent += 1
    await person.go("close")
    if book.leaves == "page":
        page = await person.post("/my-data/erase", sure="yes")
        assert "Erased" in page, "a receipt"


class Desk:
    """Commands, as whoever runs the study gives them."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAISE_", "CHAINLIT_"))}
        self.env = {**clean, **settings}

    def run(self, *words: str, fails: bool = False) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from bot.cli import main; main()", *words],
            cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        assert (done.returncode != 0) is fails, (words, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))


def serving(desk: Desk, port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", "from bot.cli import main; main()", "serve"], cwd=ROOT, env=desk.env,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    async def ready() -> bool:
        async with browsers() as http:
            try:
                async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    return answer.status == 200
            except aiohttp.ClientError:
                return False

    for _ in range(240):
        if asyncio.run(ready()):
            return process
        assert process.poll() is None, "the chat did not start"
        time.sleep(0.25)
    raise AssertionError("the chat is not ready")


def purge_later(desk: Desk, days: int) -> dict[str, int]:
    """A sweep as it would be so many days later: what it deleted, by category."""
    code = (
        "import asyncio, json, sys\nfrom datetime import timedelta\nfrom bot import assembly, parts\n"
        "from bot.settings import read_settings\n"
        "k = assembly.keeping(read_settings(), clock=lambda: parts.now() + timedelta(days=int(sys.argv[1])))\n"
        "done, _ = asyncio.run(k.sweep('pilot'))\n"
        "print(json.dumps([done[-1].deleted, done[-1].is_clean]))\nk.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(days)],
        cwd=ROOT,
        env=desk.env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    deleted, is_clean = json.loads(done.stdout)
    assert is_clean, "nothing of it is left"
    return dict(deleted)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as content:
        return list(csv.DictReader(content))


def main(people: int = 30) -> None:
    from privacy.vault import new_master_key

    began = time.time()
    agreed: list[str] = []

    def agree(what: str, found: Any, wanted: Any) -> None:
        assert found == wanted, (what, found, wanted)
        agreed.append(what)

    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), new_master_key()
        (folder / "study.yaml").write_text(STUDY)
        port = 20_000 + os.getpid() % 20_000
        desk = Desk(
            folder,
            {
                "RAISE_MODE": "study", "RAISE_STUDY_FILE": str(folder / "study.yaml"), "RAISE_DATA_DIR": str(folder / "data"),
                "RAISE_MASTER_KEYS": key, "RAISE_PORT": str(port),
            },
        )  # fmt: skip
        made = desk.json(
            "participants", "create", "--count", str(people), "--arms", "raise:1,vanilla:1", "--block", "6"
        )
        rng = random.Random(0)
        books = []
        for number, row in enumerate(made["participants"]):
            says = {"chat", "keep", "research", "contact"}
            says -= {"research"} if number % 5 == 0 else set()
            says -= {"keep", "research"} if number % 10 == 3 else set()
            books.append(Book(code=row["code"], pin=row["pin"], says=frozenset(says)))
        for number, book in enumerate(rng.sample([b for b in books if "research" in b.says], 4)):
            book.leaves = ("page", "desk")[number % 2]
        for book in rng.sample([b for b in books if b.is_exported], 2):
            book.in_danger = True

        process = serving(desk, port)
        measured = Measured()

        async def everybody() -> None:
            async with browsers() as http:
                url = f"http://127.0.0.1:{port}"
                await asyncio.gather(*(take_part(url, http, book, measured) for book in books))

        asyncio.run(everybody())
        agree("errors while people chatted", dict(measured.errors), {})
        for book in (b for b in books if b.leaves == "desk"):
            book.receipt = desk.json("participants", "withdraw", book.code, "--yes")
        time.sleep(6)
        notices = desk.json("crisis", "list")
        agree("notices of danger", {n["person"] for n in notices}, {b.code for b in books if b.in_danger})
        for notice in notices:
            desk.run("crisis", "acknowledge", str(notice["id"]), "--by", "script", "--did", "reached")
        process.terminate()
        process.wait(30)

        kept = [b for b in books if b.is_kept]
        exported = [b for b in books if b.is_exported]
        with sqlite3.connect(folder / "data" / "study.db") as db:
            volatile = db.execute(
                "SELECT count(*) FROM attributes WHERE category = 'volatile_attribute'"
            ).fetchone()[0]
            agree(
                "messages kept",
                db.execute("SELECT count(*) FROM turns").fetchone()[0],
                sum(b.sent for b in kept),
            )
        db.close()
        desk.env["RAISE_MASTER_KEYS"] = f"{new_master_key()},{key}"
        desk.run("privacy", "rotate-keys", "--data")
        desk.env["RAISE_MASTER_KEYS"] = desk.env["RAISE_MASTER_KEYS"].split(",")[0]

        refused = desk.run("study", "export", "--out", str(folder / "export"), "--k", "5", fails=True)
        assert not (folder / "export").exists(), refused
        told = desk.json("study", "export", "--out", str(folder / "export"), "--k", "5", "--suppress")
        agree("people exported", told["people"], len(exported))
        tables = {path.stem: rows(path) for path in (folder / "export").glob("*.csv")}
        manifest = (folder / "export" / "manifest.json").read_bytes()
        agree("the manifest's hash", told["sha256"], hashlib.sha256(manifest).hexdigest())
        for name_, found in tables.items():
            if name_ != "codebook":
                agree(f"rows of {name_} in the manifest", len(found), json.loads(manifest)["rows"][name_])
        agree("participants", len(tables["participants"]), len(exported))
        agree("their arms", {r["arm"] for r in tables["participants"]}, {"raise", "vanilla"})
        agree("transcripts", len(tables["transcripts"]), sum(b.sent for b in exported))
        agree("timings", len(tables["timings"]), sum(b.sent for b in exported))
        agree("ratings", len(tables["ratings"]), sum(b.rated for b in exported))
        agree(
            "points on the scale", Counter(r["value"] for r in tables["questionnaires"]),
            Counter(str(b.upset) for b in exported),
        )  # fmt: skip
        agree("adverse events", len(tables["adverse_events"]), sum(b.in_danger for b in exported))
        agree("all acknowledged", {r["action"] for r in tables["adverse_events"]}, {"reached"})
        agree("turns", sum(int(r["turns"]) for r in tables["participants"]), len({(r["id"], r["session"], r["turn"]) for r in tables["decisions"]}))  # fmt: skip
        asked = Counter(r["id"] for r in tables["decisions"] if r["outcome"] == "ask")
        by_id = {r["id"]: r for r in tables["participants"]}
        agree("questions asked", {i: int(r["asked"]) for i, r in by_id.items()}, {i: asked[i] for i in by_id})
        agree(
            "nothing is asked in vanilla",
            sum(int(r["asked"]) for r in by_id.values() if r["arm"] == "vanilla"),
            0,
        )
        bands = [c for c in tables["participants"][0] if c in ("age", "gender", "marital_status", "profession", "economic_status", "education")]  # fmt: skip
        shared = Counter(tuple(r[c] for c in bands) for r in tables["participants"])
        agree("nobody alone in their bands", min(shared.values()) >= 5, True)

        flow = {(r["step"], r["arm"]): r["people"] for r in desk.json("study", "flow")}
        for step, wanted in (
            ("allocated", people), ("withdrawn", 4), ("came", people), ("agreed", people),
            ("agreed to keep", len(kept)), ("agreed to research", len(exported)),
        ):  # fmt: skip
            agree(f"flow: {step}", sum(n for (s, _), n in flow.items() if s == step), wanted)
        shown_as = {key: n if n == 0 or n >= 5 else None for key, n in flow.items()}
        in_table = {
            (r["step"], r["arm"]): int(r["people"]) if r["people"] else None
            for r in tables["flow"]
            if r["step"] != "exported"
        }
        agree("flow in the export, small counts hidden", in_table, shown_as)
        agree("arms balanced", abs(flow["allocated", "raise"] - flow["allocated", "vanilla"]) <= 3, True)

        deleted = purge_later(desk, 8)
        agree("answers that fade, purged", deleted.get("volatile_attribute", 0), volatile)

        lines = [json.loads(line) for line in desk.run("privacy", "export-log").splitlines()]
        kinds = Counter(line["kind"] for line in lines)
        counts = [json.loads(line["counts"]) for line in lines]
        agree("consents logged", kinds["consent"], _consents(books))
        agree("erasures logged", kinds["erasure"], 4)
        agree(
            "the export logged",
            [c["manifest"] for line, c in zip(lines, counts, strict=True) if line["kind"] == "export" and "manifest" in c],
            [told["sha256"]],
        )  # fmt: skip
        agree("acknowledgements logged", sum(c.get("acknowledged") is True for c in counts), 2)
        for book in (b for b in books if b.receipt):
            (folder / "receipt.json").write_text(json.dumps(book.receipt))
            desk.run("privacy", "verify-receipt", str(folder / "receipt.json"))
        audit = json.loads(desk.run("privacy", "audit", "--json"))
        agree("promises broken", [p for p in audit["promises"] if p["state"] == "broken"], [])
        raw = b"".join(p.read_bytes() for p in (folder / "data").rglob("*") if p.is_file())
        agree(
            "codes of who left, in any file",
            [b.code for b in books if b.leaves and b.code.encode() in raw],
            [],
        )
    sent = sum(b.sent for b in books)
    print(
        f"{people} people, two arms, {sent} messages, 2 in danger, 4 withdrew, keys rotated, {volatile} answers purged, {told['people']} exported "
        f"({told['hidden']} cells hidden): {len(agreed)} numbers agree; in {time.time() - began:.0f} s"
    )


def _consents(books: list[Book]) -> int:
    """Answers that stand in the log: of who has a key and may be named there; leaving by the desk takes back what was said."""
    logged = 0
    for book in books:
        logged += book.answered
        if book.leaves == "desk":
            logged += 1
    return logged


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
