"""Train the built-in model's classifiers from our own lines; write policies/trained/guided.npz.

usage: python scripts/train.py            (make train)

Deterministic: the same lines give the same file. The file records the hash of every line file it was made from, and
a test fails when they no longer agree. Needs scikit-learn; the product itself does not.
"""

import hashlib
import json
import re
import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from policies import guidance  # noqa: E402
from policies.attributes import Attribute  # noqa: E402
from policies.classifiers import BUCKETS, ngrams  # noqa: E402
from policies.domains import Stakes  # noqa: E402
from policies.encoder import built_in  # noqa: E402
from policies.files import read_lines  # noqa: E402
from policies.planning.library import starter_entries  # noqa: E402

POLICIES = ROOT / "policies"
OUT = POLICIES / "trained" / "guided.npz"
FALSE_ALARMS, FALSE_IMMINENT = 0.025, 0.001
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
"""Shares of harmless training cases that the semantic stage may raise, by cross-validation."""


def sources():
    return sorted(
        [*(POLICIES / "planning" / "starter").glob("*.jsonl"), *(POLICIES / "reading").glob("*.jsonl"),
         *(POLICIES / "crisis").glob("training_cases*.jsonl"), *(POLICIES / "guidance").glob("*.yaml")]
    )  # fmt: skip


def source_hashes():
    return {str(p.relative_to(POLICIES)): hashlib.sha256(p.read_bytes()).hexdigest() for p in sources()}


def main():
    encoder = built_in()
    arrays, linear = {}, {}

    def keep(name, labels, weights, bias, *, exclusive):
        arrays[name + ".weights"] = np.asarray(weights, dtype=np.float16)
        arrays[name + ".bias"] = np.asarray(bias, dtype=np.float32)
        linear[name] = {"labels": list(labels), "exclusive": exclusive}

    def encode(texts, what):
        print(f"encoding {len(texts)} {what}", file=sys.stderr)
        return encoder.encode(texts)

    entries = starter_entries()
    x = encode([e.query for e in entries], "planned queries")
    arrays["library"] = x.astype(np.float16)

    groups = [f"{e.domain.value}/{e.group}" for e in entries]
    model = LogisticRegression(C=8, max_iter=2000).fit(x, groups)
    keep("group", model.classes_, model.coef_, model.intercept_, exclusive=True)

    grams = [ngrams(e.query) for e in entries]
    rows = np.repeat(np.arange(len(grams)), [len(c) for c, _ in grams])
    sparse = csr_matrix(
        (np.concatenate([v for _, v in grams]), (rows, np.concatenate([c for c, _ in grams]))),
        shape=(len(grams), BUCKETS),
    )
    words = LogisticRegression(C=20, max_iter=2000).fit(sparse, [e.domain.value for e in entries])
    keep("words", words.classes_, words.coef_, words.intercept_, exclusive=True)

    blocks = guidance.shipped().all_blocks()
    arrays["blocks"] = encode([b.text for b in blocks], "guidance blocks").astype(np.float16)

    stakes = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        x, [e.stakes.value for e in entries]
    )
    keep("stakes", stakes.classes_, stakes.coef_, stakes.intercept_, exclusive=True)

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
    ordinary = [e.query for e in entries if e.stakes is not Stakes.HIGH]
    ordinary += [r["text"] for r in intents if r["intent"] not in CLOSE_TO_CRISIS]
    ordinary += [
        r["text"]
        for r in answers
        if r["tags"] and not set(r["tags"]) & NOT_HARMLESS and not DANGER.search(r["text"].lower())
    ]
    cases += [{"text": t, "label": "none", "category": "ordinary"} for t in ordinary]
    v = encode([c["text"] for c in cases], "risk cases, ordinary messages included")
    labels = np.array([c["label"] for c in cases])
    kernels = {}

    def machine(name, positive):
        """A radial SVM with Platt's sigmoid fitted on cross-validated scores."""
        made = SVC(C=3, gamma=2.0, class_weight="balanced")
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        scores = cross_val_predict(made, v, positive, cv=folds, method="decision_function")
        sigmoid = LogisticRegression(C=1e6).fit(scores[:, None], positive)
        made.fit(v, positive)
        arrays[name + ".vectors"] = made.support_vectors_.astype(np.float16)
        arrays[name + ".weights"] = made.dual_coef_[0].astype(np.float32)
        kernels[name] = {
            "bias": float(made.intercept_[0]),
            "gamma": 2.0,
            "slope": -float(sigmoid.coef_[0, 0]),
            "offset": -float(sigmoid.intercept_[0]),
        }
        return sigmoid.predict_proba(scores[:, None])[:, 1]

    risky_p, imminent_p = (
        machine("risk.any", labels != "none"),
        machine("risk.imminent", labels == "imminent"),
    )
    at_none = labels == "none"
    thresholds = {
        "elevated": round(float(np.quantile(risky_p[at_none], 1 - FALSE_ALARMS)), 3),
        "imminent": round(float(np.quantile(imminent_p[at_none], 1 - FALSE_IMMINENT)), 3),
    }
    raised = risky_p >= thresholds["elevated"]
    print(
        thresholds,
        {k: round(float(raised[labels == k].mean()), 3) for k in ("none", "elevated", "imminent")},
        "imminent called",
        round(float((imminent_p[labels == "imminent"] >= thresholds["imminent"]).mean()), 3),
        file=sys.stderr,
    )
    risky = [i for i, c in enumerate(cases) if c["label"] != "none"]
    model = LogisticRegression(C=10, max_iter=3000, class_weight="balanced").fit(
        v[risky], [cases[i]["category"] for i in risky]
    )
    keep("risk_category", model.classes_, model.coef_, model.intercept_, exclusive=True)

    meta = {
        "version": 1,
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
