"""Names of people, places and organisations in chat, in any casing.

spaCy's model finds about half of the names in messages as people type them and hardly any in lower case. This is a
small linear model over words, their neighbours, their spelling, word lists and spaCy's own reading, trained by
`scripts/train_redaction.py` on lines that we wrote with names swapped at random, so that it learns the places where
names stand. Weights and word lists live in `privacy/trained/`, arrays and words only, no code.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.errors import RedactionFailed

BUCKETS = 1 << 17
TYPES = ("PERSON", "LOCATION", "ORGANIZATION", "STREET_ADDRESS")
TAGS = ("O", *(f"{way}-{kind}" for kind in TYPES for way in "BI"))
Columns = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One word as the tagger sees it.

    Attributes:
        text: as it was written.
        start: first character in the message.
        end: after the last one.
        part: spaCy's part of speech.
        relation: spaCy's dependency label.
        entity: spaCy's entity label, "" for none.
        starts: it begins a sentence.
    """

    text: str = field(repr=False)
    start: int
    end: int
    part: str
    relation: str
    entity: str
    starts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A span that was found.

    Attributes:
        start: first character.
        end: after the last one.
        type: one of `TYPES`.
        score: 0 to 1.
    """

    start: int
    end: int
    type: str
    score: float


class Lexicon:
    """Word lists: given names, surnames, places. Facts, compiled from Faker (MIT) and GeoNames (CC BY 4.0)."""

    def __init__(self, kinds: dict[str, int]) -> None:
        self._kinds = kinds

    def kind(self, word: str) -> int:
        """Bits: 1 a given name, 2 a surname, 4 a place, 8 a common word of our own lines."""
        return self._kinds.get(word, 0)

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """One word and its bits a line."""
        kinds = {}
        for line in path.read_text(encoding="utf-8").splitlines():
            word, _, bits = line.rpartition("\t")
            kinds[word] = int(bits)
        return cls(kinds)


_CLASSES = {
    "kin": "mum mom mam mama mother dad dada father stepdad stepmum stepmom stepfather stepmother parent sister sis brother bro "
    "stepbrother stepsister twin son daughter stepson stepdaughter kid baby boy girl toddler eldest oldest youngest middle "
    "husband wife hubby missus partner fiance fiancee fiancé fiancée boyfriend girlfriend bf gf ex exhusband exwife spouse widow "
    "uncle aunt auntie aunty tia tio cousin niece nephew grandma grandpa gran granny grandad granddad nan nana nanna nanny pop "
    "papa abuela abuelo oma opa lola lolo godmother godfather godson inlaw mil fil sil bil kuya ate bhai didi oga chacha",
    "tie": "friend mate bestie bff buddy pal roommate roomate flatmate housemate neighbour neighbor coworker colleague "
    "classmate teammate lad bloke guy girl woman man lady fella kid dude person someone crush date stalker abuser bully "
    "dealer landlord landlady tenant lodger carer caregiver sponsor client patient pupil student trainer",
    "role": "dr doctor prof professor nurse therapist counsellor counselor psychologist psychiatrist gp midwife dentist surgeon "
    "physio caseworker keyworker socialworker worker supervisor manager boss teamleader lead foreman director ceo owner head "
    "headteacher headmaster principal dean tutor teacher coach mentor advisor adviser judge magistrate lawyer solicitor barrister "
    "attorney officer pc sergeant sgt detective constable captain pastor father fr rev reverend priest imam rabbi sheikh vicar "
    "deacon bishop sister brother matron warden agent bailiff recruiter hr councillor",
    "title": "mr mrs ms miss mx sir madam dame lord lady sr sra señor señora herr frau monsieur madame mademoiselle",
    "say": "say says said saying tell tells told telling ask asks asked texted texts text messaged msgd called calls call rang "
    "rings ring phoned emailed wrote writes thinks thought knows knew found keeps kept wants wanted left leaves came comes "
    "went goes died dies dumped cheated hit hits hurt hurts screamed screams shouted yelled yells cried cries laughed blocked "
    "moved lives works got gets gave took takes made makes made stole owes promised refused admitted denied swore threatened",
    "am": "im i'm am m is was its it's he's she's hes shes thats that's",
    "naming": "name names named called nicknamed known call nickname surname",
    "greet": "hi hey hello dear yo thanks thank sorry goodbye bye love yours sincerely regards xx xo cheers signed ta",
    "at": "in at from near around outside to into towards through via toward across off by for with",
    "live": "live lives living lived moved move moving born grew stay staying stayed based stuck drove drive driving back "
    "flew arrived left leaving visit visiting settled",
    "work": "work works worked working job shift shifts employed hired sacked fired started joined quit left nights warehouse "
    "intern internship apprentice cleaner receptionist discharged admitted enrolled attend attending attends go goes went study "
    "studying studies graduated dropped teach teaches taught",
    "orgword": "ltd limited inc llc plc gmbh corp co company group solutions services logistics foods farm farms bakery cafe "
    "restaurant pub bar hotel motel inn garage motors salon studio gym club fc united academy school college university uni "
    "institute primary secondary high grammar prep sixth nursery kindergarten elementary middle hospital clinic surgery practice "
    "ward unit hospice infirmary centre center lodge house manor court home hall church chapel mosque temple synagogue "
    "tabernacle parish cathedral ministries trust foundation charity shelter housing association bank union society "
    "pharmacy dental medical health care packing steel textiles software systems media marketing recruitment estates lettings "
    "builders plumbing transport haulage security cleaning supermarket stores store market mart",
    "streetword": "street st road rd avenue ave lane ln drive close crescent terrace court way place square boulevard blvd "
    "mews grove gardens hill park row walk estate flat apt apartment unit",
    "placeword": "town city village county district borough state province island islands valley beach bay port north south "
    "east west upper lower new old st saint mount fort lake",
    "det": "my our his her their your the a an this that",
    "and": "and & or plus n",
    "month": "january february march april may june july august september october november december",
}
_CLASS: dict[str, str] = {}
for _name, _words in _CLASSES.items():
    for _word in _words.split():
        _CLASS.setdefault(_word, _name)


def _class(word: str) -> str:
    """What a word tells of its neighbours."""
    found = _CLASS.get(word)
    if found is None and word.endswith("s"):
        found = _CLASS.get(word[:-1])
    return found or "-"


def _shape(text: str) -> str:
    if text.isdigit():
        return f"d{min(len(text), 6)}"
    if text.isupper():
        return "X" if len(text) == 1 else "XX"
    if text[:1].isupper():
        return "Xx"
    if text.islower():
        return "x"
    return "mix" if any(c.isalnum() for c in text) else text[:1]


def features(tokens: Sequence[Token], lexicon: Lexicon) -> Iterator[list[str]]:
    """What is seen of each token, as strings; the tag before it is added when tagging."""
    low = [t.text.lower().replace("’", "'") for t in tokens]
    kinds = [lexicon.kind(w) for w in low]
    cased = sum(t.text[:1].isupper() for t in tokens) / max(1, len(tokens))
    casing = "lower" if cased < 0.02 else "upper" if all(not t.text.islower() for t in tokens) else "cased"

    def at(values: Sequence[Any], i: int) -> Any:
        return values[i] if 0 <= i < len(values) else "^" if i < 0 else "$"

    for i, token in enumerate(tokens):
        w, shape = low[i], _shape(token.text)
        b, bb, a, aa = at(low, i - 1), at(low, i - 2), at(low, i + 1), at(low, i + 2)
        kind, kb, ka = kinds[i], at(kinds, i - 1), at(kinds, i + 1)
        part, pb, pa = (at([t.part for t in tokens], j) for j in (i, i - 1, i + 1))
        nb, na = at([t.entity for t in tokens], i - 1), at([t.entity for t in tokens], i + 1)
        before3 = at(low, i - 3)
        cb, cbb, ca, caa, cw = _class(b), _class(bb), _class(a), _class(aa), _class(w)
        yield [
            "1", f"w={w}", f"b={b}", f"a={a}", f"bb={bb}", f"aa={aa}", f"b3={before3}",
            f"bw={b} {w}", f"wa={w} {a}", f"bbb={bb} {b}", f"aaa={a} {aa}", f"ba={b}|{a}",
            f"k={kind}", f"kb={kb}|{kind}", f"ka={kind}|{ka}", f"bk={b}|{kind}", f"ak={a}|{kind}", f"bbk={bb} {b}|{kind}",
            f"bka={b}|{kind}|{a}",
            f"p2={w[:2]}", f"p3={w[:3]}", f"s2={w[-2:]}", f"s3={w[-3:]}", f"s4={w[-4:]}|{kind}", f"n={min(len(w), 12)}",
            f"sh={shape}|{casing}", f"shs={shape}|{token.starts}|{casing}", f"shb={shape}|{_shape(str(b))}|{_shape(str(a))}",
            f"pos={part}", f"posb={pb}|{part}", f"posa={part}|{pa}", f"pk={part}|{kind}", f"bp={b}|{part}", f"ap={a}|{part}",
            f"dep={token.relation}", f"depb={token.relation}|{b}", f"ner={token.entity}|{casing}", f"nerk={token.entity}|{kind}",
            f"cb={cb}", f"ca={ca}", f"cbk={cb}|{kind}", f"cak={ca}|{kind}", f"cbb={cbb}|{cb}", f"cbbk={cbb}|{cb}|{kind}",
            f"cba={cb}|{ca}", f"cbak={cb}|{ca}|{kind}", f"cw={cw}", f"cwb={cb}|{cw}", f"cwa={cw}|{ca}", f"caa={ca}|{caa}",
            f"cbp={cb}|{part}", f"cbbp={cbb}|{cb}|{part}", f"cbs={cb}|{shape}|{casing}", f"nn={nb}|{token.entity}|{na}", f"at={min(i, 3)}|{min(len(tokens) - i, 3)}|{kind}", f"len={min(len(tokens), 6)}|{kind}",
        ]  # fmt: skip


def hashed(seen: Sequence[str]) -> Columns:
    """Columns of what is seen."""
    return np.fromiter((zlib.crc32(s.encode()) % BUCKETS for s in seen), dtype=np.int64, count=len(seen))


class Tagger:
    """Finds names. Safe to share."""

    def __init__(self, weights: NDArray[np.float32], lexicon: Lexicon, *, boldness: float) -> None:
        """Hold the model.

        Args:
            weights: shape (buckets, tags).
            lexicon: word lists.
            boldness: added to the score of every tag but O: the more, the more is redacted.
        """
        self._weights, self._lexicon = weights, lexicon
        self._bold = np.full(len(TAGS), boldness, dtype=np.float32)
        self._bold[0] = 0.0

    def find(self, text: str, tokens: Sequence[Token], *, bolder: float = 0.0) -> list[Found]:
        """Spans of the four kinds, in order, none overlapping.

        Args:
            text: the message.
            tokens: of it.
            bolder: added to the boldness, for text in which a capital letter tells a name.
        """
        bold = self._bold + np.float32(bolder) * (self._bold > 0)
        found: list[Found] = []
        before = "O"
        for token, seen in zip(tokens, features(tokens, self._lexicon), strict=True):
            columns = hashed([*seen, *history(before, seen)])
            scores = self._weights[columns].sum(axis=0) + bold
            if not any(c.isalnum() for c in token.text):
                scores[0] += 2.0
            best = int(scores.argmax())
            tag = TAGS[best]
            if tag != "O":
                spread = np.exp(scores - scores.max())
                score = float(1.0 - spread[0] / spread.sum())
                kind = tag[2:]
                last = found[-1] if found else None
                joins = before != "O" and last is not None and last.end >= token.start - 2
                if joins and last is not None and (tag[0] == "I" or kind == last.type) and tag[0] == "I":
                    found[-1] = Found(
                        start=last.start, end=token.end, type=last.type, score=max(last.score, score)
                    )
                else:
                    found.append(Found(start=token.start, end=token.end, type=kind, score=score))
            before = tag
        return [f for f in (_trimmed(text, f) for f in found) if f is not None]


def history(before: str, seen: Sequence[str]) -> list[str]:
    """What the tag before adds to what is seen."""
    return [f"t={before}", f"tw={before}|{seen[1]}", f"tk={before}|{seen[12]}", f"ts={before}|{seen[25]}"]


def _trimmed(text: str, found: Found) -> Found | None:
    start, end = found.start, found.end
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    if text[start:end].lower().endswith(("'s", "’s")):
        end -= 2
    if start >= end:
        return None
    return Found(start=start, end=end, type=found.type, score=found.score)


@lru_cache(maxsize=1)
def shipped() -> Tagger:
    """The tagger that ships.

    Raises:
        RedactionFailed: its files are missing or damaged.
    """
    folder = Path(str(resources.files("privacy") / "trained"))
    try:
        with np.load(folder / "tagger.npz", allow_pickle=False) as raw:
            about = json.loads(bytes(raw["meta"]).decode())
            weights = np.zeros((BUCKETS, len(TAGS)), dtype=np.float32)
            weights[raw["rows"]] = raw["weights"].astype(np.float32) * raw["scale"]
        return Tagger(weights, Lexicon.read(folder / "words.tsv"), boldness=about["boldness"])
    except (OSError, ValueError, KeyError) as bad:
        raise RedactionFailed(
            f"{folder}: the tagger cannot be read; 'make train-redaction' rebuilds it"
        ) from bad
