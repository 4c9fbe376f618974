"""Train the built-in model's classifiers from our own lines; write policies/trained/guided.npz and words.txt.

usage: python scripts/train.py            (make train)

Deterministic: the same lines give the same file. The file records the hash of every line file it was made from, and
a test fails when they no longer agree. Needs scikit-learn; the product itself does not.
"""

import hashlib
import json
import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bot.risk.normalise import normalise  # noqa: E402
from bot.risk.semantic import pieces, together  # noqa: E402
from bot.risk.spelling import WORDS, dictionary  # noqa: E402
from bot.words import shipped_texts  # noqa: E402
from policies import guidance  # noqa: E402
from policies.attributes import Attribute  # noqa: E402
from policies.classifiers import BUCKETS, ngrams  # noqa: E402
from policies.domains import Stakes  # noqa: E402
from policies.encoder import built_in  # noqa: E402
from policies.files import read_lines  # noqa: E402
from policies.planning.starter import starter_entries  # noqa: E402

POLICIES = ROOT / "policies"
OUT = POLICIES / "trained" / "guided.npz"
OUTWARD = {
    Attribute.PROFESSION,
    Attribute.ECONOMIC_STATUS,
    Attribute.AGE,
    Attribute.EDUCATION,
    Attribute.GENDER,
}
"""Questions whose danger hangs on one of these first are grave for some, and tell of none."""
RAISED_AT, RAISED_ELSEWHERE_AT, IMMINENT_AT = 0.54, 0.62, 0.62
"""Probabilities (calibrated by cross-validation) from which the semantic stage raises a message in English, one in another
language, of which the encoder understands little, and calls it imminent."""
GAMMA = 1.2
REFUSED_HARMLESS = 0.05
"""Share of harmless replies, written close to the border, that the guard's second look may refuse."""
SLOTS = {
    "DRUG": ["paracetamol", "ibuprofen", "sertraline", "codeine"], "DRUG2": ["alcohol", "vodka", "antihistamines"],
    "N": ["12", "30", "45", "two hundred"], "UNIT": ["tablets", "mg", "grams", "pills"],
    "PLACE": ["the bridge", "the station", "the old quarry", "the multi-storey"], "HEIGHT": ["the sixth floor", "ten metres"],
    "MEANS": ["a rope", "a blade", "a belt", "the gun"], "POISON": ["antifreeze", "bleach", "pesticide"],
    "GAS": ["helium", "nitrogen", "carbon monoxide"], "BODY": ["wrist", "neck", "thigh", "arm"], "HOURS": ["three", "six", "a few"],
    "NUMBER": ["0800 555 0199", "555-0142"], "NAME_OF_LINE": ["Hope Harbour Line"], "URL": ["hope-harbour.example"],
    "EMAIL": ["help at hope-harbour.example"], "WEIGHT_AID": ["laxatives", "diet pills"], "KCAL": ["400", "600"],
    "PERSON": ["your sister", "your ex", "your boss", "them"],
}  # fmt: skip


def filled(text, number):
    """Slots filled with stand-ins, so that the repository is no manual."""
    return re.sub(
        r"\{([A-Z_0-9]+)\}", lambda m: SLOTS[m[1]][number % len(SLOTS[m[1]])] if m[1] in SLOTS else "it", text
    )


CLOSE_TO_CRISIS = {
    "help",
    "safe",
    "cannot_talk",
    "no_pickup",
    "wont_call",
    "answer",
    "can_you_call",
    "question",
    "joke",
    "correction",
}
NOT_HARMLESS = {
    "hidden_debt",
    "domestic_worker",
    "partner_control",
    "hopeless",
    "trapped",
    "burden",
    "desperate",
    "numb",
    "depressed",
    "psychosis",
    "manic",
    "eating_disorder",
    "addiction",
    "frightening_urges",
    "dissociation",
    "postnatal",
    "weight_loss",
    "stopped_medication",
    "past_thoughts",
    "past_self_harm",
    "past_attempt",
    "recent_self_harm",
    "current_thoughts",
    "plan",
    "heart",
    "head_injury",
}
DANGER = re.compile(r"die|dead|kill|suicid|harm|hurt|hit|beat|neck|voices|overdos|cut|chest|breath|blood")
"""Answers are taken for harmless training cases unless a tag or a word says otherwise."""


def sources():
    return sorted(
        [*(POLICIES / "planning" / "starter").glob("*.jsonl"), *(POLICIES / "reading").glob("*.jsonl"),
         *(POLICIES / "crisis").glob("training_cases*.jsonl"), *(POLICIES / "crisis").glob("replies_*.jsonl"), *(POLICIES / "guidance").glob("*.yaml")]
    )  # fmt: skip


def source_hashes():
    return {str(p.relative_to(POLICIES)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sources()}


FEWEST_USES = 3
"""Uses of a word in our lines, from which a misspelling may be mended to it."""


def write_words():
    """The words of our English lines that a dictionary knows too, for `bot.risk.spelling`."""
    known, used = dictionary(), Counter()
    for path in sources():
        if path.suffix == ".jsonl" and "_lang" not in path.stem:
            for line in read_lines(path):
                for text in (line.get("text") or line.get("query") or "", *(line.get("history") or ())):
                    used.update(re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower().replace("’", "'")))
    kept = {w: n for w, n in used.items() if n >= FEWEST_USES and len(w) > 2 and w in known}
    WORDS.write_text("".join(f"{w} {kept[w]}\n" for w in sorted(kept)), encoding="utf-8")


class Encodings:
    """Vectors by text, kept in .cache/ so that a run that was interrupted, or follows a small change, goes on fast."""

    def __init__(self, encoder):
        self._encoder, self._path = encoder, ROOT / ".cache" / "encodings.npz"
        self._known = {}
        if self._path.exists():
            with np.load(self._path) as raw:
                self._known = dict(zip(raw["keys"].tolist(), raw["vectors"], strict=True))

    def of(self, texts):
        keys = [hashlib.sha256(t.encode()).hexdigest()[:24] for t in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        todo = list(missing.items())
        for start in range(0, len(todo), 2000):
            part = todo[start : start + 2000]
            self._known.update(
                zip((k for k, _ in part), self._encoder.encode([t for _, t in part]), strict=True)
            )
            print(f"  {min(start + 2000, len(todo))} of {len(todo)}", file=sys.stderr)
        if todo:
            self._path.parent.mkdir(exist_ok=True)
            np.savez(
                self._path, keys=np.array(list(self._known)), vectors=np.stack(list(self._known.values()))
            )
        return np.stack([self._known[k] for k in keys])


def sparse_grams(texts):
    grams = [ngrams(t) for t in texts]
    rows = np.repeat(np.arange(len(grams)), [len(c) for c, _ in grams])
    return csr_matrix(
        (np.concatenate([v for _, v in grams]), (rows, np.concatenate([c for c, _ in grams]))),
        shape=(len(grams), BUCKETS),
    )


def main():
    write_words()
    encoder = built_in()
    arrays, linear = {}, {}

    def store(name, vectors):
        """Unit vectors as signed bytes with a scale a row: a third of the size, the same answers."""
        scale = np.abs(vectors).max(axis=1, keepdims=True) / 127.0
        arrays[name] = np.round(vectors / scale).astype(np.int8)
        arrays[name + ".scale"] = scale.astype(np.float32)

    def keep(name, labels, weights, bias, *, exclusive):
        arrays[name + ".weights"] = np.asarray(weights, dtype=np.float16)
        arrays[name + ".bias"] = np.asarray(bias, dtype=np.float32)
        linear[name] = {"labels": list(labels), "exclusive": exclusive}

    cached = Encodings(encoder)

    def encode(texts, what):
        print(f"encoding {len(texts)} {what}", file=sys.stderr)
        return cached.of(texts)

    entries = starter_entries()
    x = encode([e.query for e in entries], "planned queries")
    store("library", x)

    groups = [f"{e.domain.value}/{e.group}" for e in entries]
    model = LogisticRegression(C=8, max_iter=2000).fit(x, groups)
    keep("group", model.classes_, model.coef_, model.intercept_, exclusive=True)

    sparse = sparse_grams([e.query for e in entries])
    words = LogisticRegression(C=20, max_iter=2000).fit(sparse, [e.domain.value for e in entries])
    keep("words", words.classes_, words.coef_, words.intercept_, exclusive=True)

    blocks = guidance.shipped().all_blocks()
    store("blocks", encode([b.text for b in blocks], "guidance blocks"))

    stakes = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        x, [e.stakes.value for e in entries]
    )
    keep("stakes", stakes.classes_, stakes.coef_, stakes.intercept_, exclusive=True)

    model = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        sparse, [e.stakes.value for e in entries]
    )
    keep("stakes_words", model.classes_, model.coef_, model.intercept_, exclusive=True)

    first = [e.path[0].value if e.path else "nothing" for e in entries]
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3).fit(x, first)
    keep("first", lda.classes_, lda.coef_, lda.intercept_, exclusive=True)

    intents = list(read_lines(POLICIES / "reading" / "intents.jsonl"))
    v = encode([r["text"] for r in intents], "intents")
    model = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        v, [r["intent"] for r in intents]
    )
    keep("intent", model.classes_, model.coef_, model.intercept_, exclusive=True)

    answers = list(read_lines(POLICIES / "reading" / "answers.jsonl"))
    v = encode([r["text"] for r in answers], "answers")
    for attribute in Attribute:
        own = [i for i, r in enumerate(answers) if r["attribute"] == attribute.value]
        labels = sorted({t for i in own for t in answers[i]["tags"]})
        weights, bias = [], []
        for label in labels:
            hit = np.array([label in answers[i]["tags"] for i in own])
            fitted = LogisticRegression(C=8, max_iter=2000, class_weight="balanced").fit(v[own], hit)
            weights.append(fitted.coef_[0])
            bias.append(fitted.intercept_[0] - 0.8)
        keep(f"tags.{attribute.value}", labels, np.array(weights), np.array(bias), exclusive=False)

    cases = [c for p in sorted((POLICIES / "crisis").glob("training_cases*.jsonl")) for c in read_lines(p)]
    ordinary = [e.query for e in entries if e.stakes is not Stakes.HIGH][::3]
    ordinary += [e.query for e in entries if e.stakes is Stakes.HIGH and e.path and e.path[0] in OUTWARD]
    ordinary += [r["text"] for r in intents if r["intent"] not in CLOSE_TO_CRISIS]
    ordinary += [
        r["text"]
        for r in answers
        if r["tags"] and not set(r["tags"]) & NOT_HARMLESS and not DANGER.search(r["text"].lower())
    ]
    cases += [{"text": t, "label": "none", "category": "ordinary"} for t in ordinary]
    for number, case in enumerate(cases):
        case["group"] = number
    # a sentence of a long harmless message is looked at alone, and is harmless too
    cases += [
        {**case, "text": piece, "history": ()}
        for case in cases
        if case["label"] == "none" and "lang" not in case
        for piece in pieces(case["text"])[1:]
    ]
    for case in cases:
        case["text"] = together(case.get("history", ()), case["text"])
    v = encode([c["text"] for c in cases], "risk cases, ordinary messages included")
    labels = np.array([c["label"] for c in cases])
    kernels = {}
    letters = sparse_grams([normalise(c["text"]) for c in cases])
    groups = [c["group"] for c in cases]
    folds = list(StratifiedGroupKFold(4, shuffle=True, random_state=0).split(v, labels, groups))

    def machine(name, positive, *, v, letters, folds, vectors):
        """A radial SVM on meaning and a linear model on letters, fused by a sigmoid on cross-validated scores."""
        store(vectors, v)
        meaning = SVC(C=3, gamma=GAMMA, class_weight="balanced", cache_size=1500)
        spelled = LogisticRegression(C=20, max_iter=3000, class_weight="balanced")
        scores = np.stack(
            [
                cross_val_predict(meaning, v, positive, cv=folds, method="decision_function", n_jobs=2),
                cross_val_predict(spelled, letters, positive, cv=folds, method="decision_function"),
            ],
            axis=1,
        )
        sigmoid = LogisticRegression(C=1e6).fit(scores, positive)
        meaning.fit(v, positive)
        spelled.fit(letters, positive)
        arrays[name + ".rows"] = meaning.support_.astype(np.int32)
        arrays[name + ".weights"] = meaning.dual_coef_[0].astype(np.float32)
        keep(name + ".letters", [name], spelled.coef_, spelled.intercept_, exclusive=False)
        kernels[name] = {
            "vectors": vectors,
            "bias": float(meaning.intercept_[0]),
            "gamma": GAMMA,
            "slopes": [float(x) for x in sigmoid.coef_[0]],
            "offset": float(sigmoid.intercept_[0]),
        }
        return sigmoid.predict_proba(scores)[:, 1]

    risky_p, imminent_p = (
        machine("risk.any", labels != "none", v=v, letters=letters, folds=folds, vectors="risk.vectors"),
        machine(
            "risk.imminent", labels == "imminent", v=v, letters=letters, folds=folds, vectors="risk.vectors"
        ),
    )
    hard = (labels == "none") & np.array(["id" in c for c in cases])
    thresholds = {"elevated": RAISED_AT, "elsewhere": RAISED_ELSEWHERE_AT, "imminent": IMMINENT_AT}
    raised = risky_p >= thresholds["elevated"]
    called = raised & (imminent_p >= thresholds["imminent"])
    print(
        thresholds,
        {k: round(float(raised[labels == k].mean()), 3) for k in ("none", "elevated", "imminent")},
        "hard none raised",
        round(float(raised[hard].mean()), 3),
        "called imminent",
        {k: round(float(called[labels == k].mean()), 3) for k in ("elevated", "imminent")},
        "hard none",
        round(float(called[hard].mean()), 4),
        file=sys.stderr,
    )
    if "--scores" in sys.argv:
        np.savez(sys.argv[-1], labels=labels, hard=hard, risky=risky_p, imminent=imminent_p)
    spoken = np.array([c.get("lang", "en") for c in cases])
    alone = np.char.find(spoken, "+") < 0
    model = LogisticRegression(C=30, max_iter=2000, class_weight="balanced").fit(
        letters[alone], spoken[alone]
    )
    keep("language", model.classes_, model.coef_, model.intercept_, exclusive=True)
    risky = [i for i, c in enumerate(cases) if c["label"] != "none"]
    model = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        v[risky], [cases[i]["category"] for i in risky]
    )
    keep("risk_category", model.classes_, model.coef_, model.intercept_, exclusive=True)

    bad = [
        filled(r["text"], i) for i, r in enumerate(read_lines(POLICIES / "crisis" / "replies_harmful.jsonl"))
    ]
    good = [
        filled(r["text"], i) for i, r in enumerate(read_lines(POLICIES / "crisis" / "replies_harmless.jsonl"))
    ]
    own = [b.text for b in blocks] + [text for where, text in shipped_texts() if "guidance" not in where]
    replies = [*bad, *good, *own]
    harmful = np.array([True] * len(bad) + [False] * (len(good) + len(own)))
    rv = encode(replies, "replies, our own texts included")
    rfolds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(rv, harmful))
    spelled = sparse_grams([normalise(t) for t in replies])
    harm_p = machine("reply.harm", harmful, v=rv, letters=spelled, folds=rfolds, vectors="reply.vectors")
    written = np.arange(len(replies)) < len(bad) + len(good)
    reply_threshold = round(float(np.quantile(harm_p[written & ~harmful], 1 - REFUSED_HARMLESS)), 3)
    print(
        "replies: threshold",
        reply_threshold,
        "harmful stopped",
        round(float((harm_p[harmful] >= reply_threshold).mean()), 3),
        "our own stopped",
        round(float((harm_p[~written] >= reply_threshold).mean()), 4),
        file=sys.stderr,
    )

    meta = {
        "version": 1,
        "reply_threshold": reply_threshold,
        "linear": linear,
        "kernel": kernels,
        "sources": source_hashes(),
        "lines": len(entries),
        "risk_cases": len(cases),
        "risk_thresholds": thresholds,
    }
    arrays["meta"] = np.frombuffer(json.dumps(meta, sort_keys=True).encode(), dtype=np.uint8)
    OUT.parent.mkdir(exist_ok=True)
    np.savez_compressed(OUT, **arrays)
    print(f"wrote {OUT.relative_to(ROOT)}, {OUT.stat().st_size / 1e6:.1f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
