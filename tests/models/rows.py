"""Every way an endpoint can fail, what is done about it, and what the person gets: tested row by row, and printed into docs/failures.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to fail, at every call of a conversation.

    Attributes:
        mode: what the server of the tests is told to do.
        what: in words.
        again: what we do about it.
        tries: requests for the reply that this comes to.
        kind: what the failure is called in the log, or "" where it is overcome.
        is_own: the person gets the model's reply, not the built-in one.
    """

    mode: str
    what: str
    again: str
    tries: int
    kind: str
    is_own: bool = False


ROWS = (
    Row(mode="hangs", what="no answer comes", again="no; the budget of the turn ends it", tries=1, kind="timeout"),
    Row(mode="unauthorised", what="401", again="no", tries=1, kind="auth"),
    Row(mode="forbidden", what="403", again="no", tries=1, kind="auth"),
    Row(mode="no_model", what="404, no such model", again="no", tries=1, kind="no_model"),
    Row(mode="limited", what="429 with a short retry-after", again="twice, after as long as it says", tries=3, kind="rate_limited"),
    Row(mode="limited_for_long", what="429 with a long retry-after", again="no: it would outlast the turn", tries=1, kind="rate_limited"),
    Row(mode="broken", what="500", again="twice, with jitter", tries=3, kind="server"),
    Row(mode="cut_before", what="connection cut before the answer", again="twice, with jitter", tries=3, kind="connection"),
    Row(mode="cut_in_the_middle", what="connection cut in the middle of the stream", again="not once a sentence was shown; what was shown is taken back", tries=1, kind="connection"),
    Row(mode="empty", what="nothing in the answer", again="twice", tries=3, kind="empty"),
    Row(mode="endless", what="an answer without end", again="no; cut off at 320 words or 8,000 characters, and taken back", tries=1, kind="endless"),
    Row(mode="malformed", what="a stream that is no JSON", again="twice", tries=3, kind="malformed"),
    Row(mode="schema_breaking", what="answers outside their shape, data in place of a reply", again="twice; the reply not", tries=1, kind="malformed"),
    Row(mode="truncated", what='finish reason "length"', again="no; what was shown is taken back", tries=1, kind="truncated"),
    Row(mode="refused", what="the model refuses", again="no", tries=1, kind="refused"),
    Row(mode="filtered_question", what="a content filter refuses the question", again="no", tries=1, kind="filtered"),
    Row(mode="filtered_answer", what="a content filter cuts the answer", again="no; what was shown is taken back", tries=1, kind="filtered"),
    Row(mode="no_schema", what="the endpoint knows no JSON schema", again="at once in plain JSON, and so from then on", tries=1, kind="", is_own=True),
    Row(mode="thinks_aloud", what="a reasoning trace in the text", again="it is cut out, shown to nobody and kept nowhere", tries=1, kind="", is_own=True),
    Row(mode="thinks_unannounced", what="a reasoning trace whose opening tag is not sent", again="all before its closing tag is cut out; the model's replies are then shown when they are whole", tries=1, kind="", is_own=True),
)  # fmt: skip


def table() -> str:
    """The rows as the table of docs/failures.md."""
    lines = [
        "| failure | what it is | log | tried again | the question | the reply |",
        "|---|---|---|---|---|---|",
    ]
    for row in ROWS:
        reply = "the model's" if row.is_own else "the built-in one, said openly"
        question = "as the model fits it" if row.is_own else "as it is written"
        lines.append(
            f"| {row.mode.replace('_', ' ')} | {row.what} | {row.kind or '-'} | {row.again} | {question} | {reply} |"
        )
    return "\n".join(lines)
