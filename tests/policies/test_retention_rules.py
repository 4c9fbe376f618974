"""The retention file: durations as people write them, calendar arithmetic, and what is refused, with its line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from policies import retention
from policies.errors import PolicyFileError
from policies.retention import NEVER, Anchor

GOOD = retention.PATH.read_text()
ENDS = datetime(2027, 6, 30, tzinfo=UTC)


def changed(folder: Path, before: str, after: str) -> Path:
    assert GOOD.count(before) == 1, before
    path = folder / "rules.yaml"
    path.write_text(GOOD.replace(before, after))
    return path


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("24 hours", "2026-10-24T23:30", "2026-10-25T23:30"),
        ("30 days", "2026-11-29T12:00", "2026-12-29T12:00"),
        ("2 weeks", "2026-11-29T12:00", "2026-12-13T12:00"),
        ("1 month", "2027-01-31T00:00", "2027-02-28T00:00"),
        ("6 months", "2026-08-31T00:00", "2027-02-28T00:00"),
        ("1 year", "2028-02-29T10:00", "2029-02-28T10:00"),
        ("4 years", "2028-02-29T10:00", "2032-02-29T10:00"),
        (" 3  Years ", "2026-11-29T12:00", "2029-11-29T12:00"),
    ],
)
def test_durations_are_calendar_time(text: str, start: str, end: str) -> None:
    lasts, anchor = retention.duration(text)
    at = datetime.fromisoformat(start).replace(tzinfo=UTC)
    assert anchor is None and at + lasts == datetime.fromisoformat(end).replace(tzinfo=UTC)


def test_a_time_can_be_counted_from_something_else() -> None:
    lasts, anchor = retention.duration("end of study + 1 year")
    assert anchor is Anchor.END_OF_STUDY and ENDS + lasts == ENDS.replace(year=2028)
    assert retention.duration("withdrawal + 30 days")[1] is Anchor.WITHDRAWAL


@pytest.mark.parametrize(
    "text",
    ["", "a while", "0 days", "-3 days", "3 fortnights", "30", "101 years", "999999 years", "end of study",
     "end of study 1 year", "end of study + 0 days", "1.5 years", "1 year + 2 days"],
)  # fmt: skip
def test_an_impossible_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|longer than"):
        retention.duration(text)


SESSION = "    keep: 30 days\n    reason: Long enough"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (SESSION, "    keep: a while\n    reason: Long enough", "line {session}: session: 'a while'"),
        (SESSION, "    keep: 30 days\n    from: birth\n    reason: Long enough", "line {session}: session: from is one of"),
        (SESSION, "    keep: 30 days\n    then: archive\n    reason: Long enough", "then is one of delete"),
        (SESSION, "    keep: 30 days\n    then: keep the counts\n    reason: Long enough", "no counts are made of it"),
        (SESSION, "    keep: 30 days\n    colour: red\n    reason: Long enough", "session: colour: not known"),
        (SESSION, "    keep: 30 days\n    why: Long enough", "not known in a rule"),
        (SESSION, "    keep: end of study + 1 year\n    reason: Long enough", "set RAISE_STUDY_ENDS"),
        (
            SESSION,
            "    keep: end of study + 1 year\n    from: collection\n    reason: Long enough",
            'counts from "end of study" and from says "collection"',
        ),
        (SESSION, "    keep: withdrawal + 1 day\n    reason: Long enough", "at_most goes with"),
        (SESSION, "    keep: 30 days\n    at_most: 1 year\n    reason: Long enough", "at_most goes with"),
        ("  feedback:\n", "  gossip:\n", "gossip: no such category"),
        ("  feedback:\n", "  session:\n", "session: there twice"),
        ("    keep: 7 days\n    reason: Feelings", "    keep: 7 years\n    reason: Feelings", "lives longer than stable_attribute"),
        ("    keep: 7 days\n    reason: A copy", "    keep: 7 days\n    from: last activity\n    reason: A copy", "belongs to nobody"),
        ('sweep: "17 * * * *"', 'sweep: "hourly"', "line 5: sweep: write five cron fields"),
        ('sweep: "17 * * * *"', 'broom: "17 * * * *"', "line 5: broom: not known here"),
        ("    reason: Long enough to come back to a conversation after an illness or a holiday.\n", "    reason: yes\n", "say why"),
        ("rules:\n", "rules: [1]\nother:\n", "needs"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_hold_is_refused_with_its_line(
    before: str, after: str, says: str, tmp_path: Path
) -> None:
    path = changed(tmp_path, before, after)
    line = GOOD[: GOOD.index("  session:\n")].count("\n") + 1
    with pytest.raises(PolicyFileError) as refused:
        retention.load(path)
    assert says.format(session=line) in str(refused.value) and str(path) in str(refused.value)


def test_a_category_without_a_rule_is_refused(tmp_path: Path) -> None:
    start = GOOD.index("  uploads:\n")
    (tmp_path / "rules.yaml").write_text(GOOD[:start])
    with pytest.raises(PolicyFileError, match="no rule for uploads"):
        retention.load(tmp_path / "rules.yaml")


def test_the_end_of_the_study_counts_where_a_rule_says_so(tmp_path: Path) -> None:
    path = changed(tmp_path, SESSION, "    keep: end of study + 1 year\n    reason: Long enough")
    rules = retention.load(path, study_ends=ENDS)
    at = datetime(2026, 11, 29, tzinfo=UTC)
    assert rules.until("session", at) == datetime(2028, 6, 30, tzinfo=UTC)
    later = retention.load(path, study_ends=ENDS + timedelta(days=10))
    assert later.digest != rules.digest, "another end gives other dates, so it is another policy"
    assert retention.load(retention.PATH, study_ends=ENDS).digest == retention.shipped().digest


def test_withdrawal_sets_a_date_within_the_bound(tmp_path: Path) -> None:
    after = "    keep: withdrawal + 7 days\n    at_most: 2 years\n    reason: Long enough"
    rules = retention.load(changed(tmp_path, SESSION, after))
    at = datetime(2026, 11, 29, tzinfo=UTC)
    assert rules.until("session", at) == at.replace(year=2028)
    assert rules.until("session", at, withdrawn=at + timedelta(days=1)) == at + timedelta(days=8)
    assert rules.until("session", at, withdrawn=at.replace(year=2030)) == at.replace(year=2028)
    assert rules.describe("session")["keep"] == "withdrawal + 7 days, 2 years at most"


def test_time_does_not_run_over(tmp_path: Path) -> None:
    assert retention.shipped().until("counts", datetime(9998, 1, 1, tzinfo=UTC)) == NEVER
