"""What a person could be found by that has a form: numbers, addresses, dates, names on networks. Data, no library.

Each pattern either has a form that stands alone, or names what stands before it; the part to redact is its group `it`,
or all of it. Contexts match whole words (Presidio's own match inside others, "lic" in "public"). Classes follow the 18
of HIPAA Safe Harbor, 45 CFR 164.514(b)(2).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?:(?:19|20)\d\d|['’]?\d\d)"
_DATE = (
    rf"(?:{_DAY}(?: of)?[ -]{_MONTH}(?:,?[ -]{_YEAR}(?!\d))?|{_MONTH} (?:the )?{_DAY}(?!\d|[:.]\d| ?(?:am|pm|%))(?:,? {_YEAR}(?![\d:]))?|"
    rf"(?:19|20)\d\d[-/.](?:0?[1-9]|1[0-2])[-/.](?:0?[1-9]|[12]\d|3[01])(?:[ T]\d\d:\d\d(?::\d\d)?)?|"
    rf"(?:0?[1-9]|[12]\d|3[01])[-/.](?:0?[1-9]|[12]\d|3[01])[-/.](?:(?:19|20)\d\d|\d\d))"
)
_IS = r"(?:\s*(?:is|was|are|were|be|:|=|#|-|number|no\.?|num|nr\.?|id|ref|code|the|my|it'?s|its|of|ends? in|under|on|at)){0,4}\s*[:#=]?\s*"
_CODE = r"(?P<it>(?=[A-Z0-9/.-]*\d)[A-Z0-9](?:[A-Z0-9]|[/.-](?=[A-Z0-9])){3,22})"
_SPACED = r"(?P<it>(?=[A-Z0-9 /.-]*\d)[A-Z0-9]{1,6}(?:[ /.-]?[A-Z0-9]{1,6}){1,5})"
_DIGITS = r"(?P<it>\d[\d -]{4,22}\d)"
_STREET = (
    r"(?:street|st|road|rd|avenue|ave|av|lane|ln|drive|dr|close|court|ct|way|place|pl|crescent|cres|terrace|terr|tce|grove|"
    r"gardens|gdns|hill|square|sq|boulevard|blvd|highway|hwy|parkway|pkwy|row|mews|walk|park|view|rise|green|estate|circle|"
    r"cir|trail|loop|quay|wharf|house|towers?|heights|court|plaza|alley|vale|nagar|marg|chowk|bagh|colony)"
)
_NOT_A_STREET = (
    r"(?:hours?|hrs?|h|minutes?|mins?|miles?|days?|weeks?|months?|years?|yrs?|times?|people|kids|of|and|or|to|in|the|a|an|"
    r"my|his|her|our|percent|k|mg|pounds?|quid|dollars?|am|pm|more|other|another|long)"
)
_TLD = (
    r"(?:com|org|net|info|co|uk|us|ca|au|de|fr|es|it|nl|ie|in|io|gov|edu|me|app|dev|xyz|site|online|tv|ly|gg|be|eu|nz|za|ng|ke|"
    r"ph|sg|jp|br|mx|pl|se|no|dk|fi|ch|at|pt|gr|tr|ru|cz|biz|blog|page|link|shop|club|live|chat|health|care|support|example|test)"
)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One form.

    Attributes:
        type: of the entity.
        regex: with the group `it`, or whole.
        score: 0 to 1.
        accepts: a further check of what was found, or None.
    """

    type: str
    regex: re.Pattern[str] = field(repr=False)
    score: float
    accepts: Callable[[str], bool] | None = None


def _p(kind: str, regex: str, score: float, accepts: Callable[[str], bool] | None = None) -> Pattern:
    return Pattern(kind, re.compile(regex, re.IGNORECASE), score, accepts)


def _letters_and_digits(text: str) -> bool:
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _digits_between(least: int, most: int) -> Callable[[str], bool]:
    return lambda text: least <= sum(c.isdigit() for c in text) <= most


def _has_digits(text: str) -> bool:
    return any(c.isdigit() for c in text)


def _luhn(text: str) -> bool:
    digits = [int(c) for c in text if c.isdigit()][::-1]
    return (
        len(digits) >= 12
        and not sum(d if i % 2 == 0 else sum(divmod(2 * d, 10)) for i, d in enumerate(digits)) % 10
    )


def _is_phone(text: str) -> bool:
    digits = "".join(c for c in text if c.isdigit())
    if not 7 <= len(digits) <= 15 or len(set(digits)) < 3:
        return False
    return not re.fullmatch(r"(?:19|20)\d\d\s*-\s*(?:19|20)\d\d", text.strip())


def _whole_dates_only(text: str) -> bool:
    return not re.fullmatch(r"\d{1,2}\.\d{1,2}\.\d{1,2}", text)


PATTERNS: Final[tuple[Pattern, ...]] = (
    # -- reachable
    _p("EMAIL_ADDRESS", r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+", 1.0),
    _p("EMAIL_ADDRESS", r"(?<![\w.+-])[\w.+-]+\s*(?:\(at\)|\[at\]|\{at\}|<at>|\s+@\s+|\s@|@\s)\s*[\w-]+(?:\s*(?:\.|\(dot\)|\[dot\]|\{dot\}|\s+dot\s+)\s*[\w-]+)+", 0.95),
    _p("EMAIL_ADDRESS", rf"(?<![\w.+-])[\w+-]+(?:(?:\s*\.\s*|\s+dot\s+|_|\s+underscore\s+)[\w+-]+){{0,3}}\s+at\s+[\w-]+(?:\s*(?:\.|\(dot\)|\[dot\])\s*|\s+dot\s+){_TLD}(?:(?:\.|\s+dot\s+){_TLD})?(?![\w-])", 0.9),
    _p("EMAIL_ADDRESS", rf"(?<![\w.+-])[\w+-]+(?:(?:\s*\.\s*|\s+dot\s+|_|\s+underscore\s+)[\w+-]+){{0,3}}\s*@\s*[\w-]+\s+dot\s+{_TLD}(?![\w-])", 0.95),
    _p("EMAIL_ADDRESS", r"\b[\w.+-]+ at (?:gmail|hotmail|yahoo|outlook|icloud|proton|aol|live|msn|gmx)(?:(?:\s*\.\s*|\s+dot\s+)\w{2,5})?\b", 0.9),
    _p("URL", r"\bhttps?://[^\s<>\"')\]]+", 1.0),
    _p("URL", r"\bwww\.[^\s<>\"')\]]+", 1.0),
    _p("URL", rf"(?<![\w@.])[a-z0-9-]{{2,}}(?:\.[a-z0-9-]{{2,}})*\.{_TLD}/[^\s<>\"')\]]*", 0.95),
    _p("URL", r"(?<![\w@.])[a-z0-9-]{3,}(?:\.[a-z0-9-]{2,})*\.(?:com|org|net|info|co\.uk|org\.uk|com\.au|edu|gov|io|app|example|dev|xyz|blog)(?![\w-])", 0.9),
    _p("SOCIAL_HANDLE", r"(?<![\w@.])@[A-Za-z_][\w.]{2,29}\b", 0.95),
    _p("SOCIAL_HANDLE", r"(?<![\w/])/?u/[\w-]{3,20}\b", 0.9),
    _p("SOCIAL_HANDLE", r"(?<!\w)[\w.]{3,32}#\d{4}\b", 0.9),
    _p("SOCIAL_HANDLE", r"\b(?:insta(?:gram)?|ig|snap(?:chat)?|sc|tik ?tok|twitter|discord|telegram|reddit|kik|tumblr|steam|psn|xbox|gamertag|twitch|threads|facebook|fb|bluesky|mastodon|youtube|onlyfans|insta handle|handle|username|user ?name|screen ?name|gamer ?tag|profile)"
       r"(?:\s+(?:is|was|handle|name|user|username|account|acc|id|tag|page|profile|under|as|called|me|on|at|add|my|its|it's|:|=|-)){0,4}\s*[:=@]?\s*(?P<it>(?=[\w.-]*(?:[\d_]|\.\w))[A-Za-z0-9_][\w.-]{2,29}\w)", 0.85),
    _p("SOCIAL_HANDLE", r"(?<![\w.@/-])(?P<it>(?=[a-z0-9._]*_)[a-z][a-z0-9._]{3,28}[a-z0-9])(?![\w@])", 0.6),
    _p("PHONE_NUMBER", r"(?<![\w.,/-])(?:\+|00)\d{1,3}[\s().-]{0,2}(?:\(0\))?\d[\d\s().-]{5,16}\d(?![\w%])", 0.95, _is_phone),
    _p("PHONE_NUMBER", r"(?<![\w.,/-])\(\d{2,5}\)[\s.-]?\d{2,5}[\s.-]?\d{2,5}(?:[\s.-]?\d{2,5})?(?![\w%])", 0.95, _is_phone),
    _p("PHONE_NUMBER", r"(?<![\w.,/-])(?:1[\s.-])?\d{3}[\s.-]\d{3}[\s.-]\d{4}(?:\s*(?:x|ext\.?)\s*\d{1,5})?(?![\w%])", 0.95, _is_phone),
    _p("PHONE_NUMBER", r"(?<![\w.,/-])0\d{1,4}[\s.-]?\d{2,4}[\s.-]?\d{2,4}(?:[\s.-]?\d{2,4})?(?![\w%]|[.,]\d)", 0.85, _digits_between(9, 12)),
    _p("PHONE_NUMBER", r"(?<![\w.,/-])\d{3}[\s.-]\d{4}(?![\w%-])", 0.6, _is_phone),
    _p("PHONE_NUMBER", r"\b(?:call|text|ring|phone|mobile|cell|tel|telephone|whatsapp|number|no|num|reach|dial|fax|landline|contact|extension|ext)\b(?:\s+(?:me|is|was|on|at|him|her|us|them|my|number|no|the|it|its|:|=|-)){0,4}\s*[:#=]?\s*(?P<it>\+?\d[\d\s().-]{5,17}\d)(?![\w%])", 0.9, _is_phone),
    _p("PHONE_NUMBER", r"\b(?:(?:double|triple)[\s,-]+)?(?:zero|oh|nought|one|two|three|four|five|six|seven|eight|nine)(?:[\s,.-]+(?:zero|oh|nought|one|two|three|four|five|six|seven|eight|nine|double|triple|hundred|\d{1,4})){5,}\b", 0.9),
    # -- where
    _p("STREET_ADDRESS", rf"(?<![\w.$£€])(?:(?:flat|apt\.?|apartment|unit|room|suite|block|plot|house no\.?)\s*#?\w{{1,5}}[,\s]+)?(?:no\.?\s*)?\d{{1,5}}[a-d]?(?:[-/]\d{{1,5}})?,?\s+(?!{_NOT_A_STREET}\b)(?:(?:saint|st|mount|mt|north|south|east|west|old|new|upper|lower|great|little|van|de|la|el|le)\.?\s+)?(?:[^\W\d][\w'’-]+\.?\s+){{1,3}}{_STREET}\b\.?(?:\s*,?\s*(?:flat|apt\.?|apartment|unit|#)\s*#?\w{{1,5}}\b)?", 0.9,
       lambda t: not re.search(r"\b(?:hours?|minutes?|miles?|days?|weeks?|years?|times|month)\b", t.lower())),
    _p("STREET_ADDRESS", r"\b(?:flat|apt\.?|apartment|unit)\s*#?\d{1,4}[a-z]?\b(?:\s*,\s*[\w' ]{3,30}(?=,|$))?", 0.8),
    _p("STREET_ADDRESS", r"\b\d{1,4}\s?(?:bis|ter)?,?\s+(?:rue|avenue|boulevard|place|chemin|impasse|calle|carrer|avenida|plaza|paseo|via|viale|piazza|rua|ulica|ul\.)\s+(?:(?:de|del|de la|du|des|la|le|los|las|da|do|di)\s+)?[^\W\d][\w'’-]+(?:\s+[^\W\d][\w'’-]+)?", 0.9),
    _p("STREET_ADDRESS", r"\b(?:calle|carrer|avenida|rue|via|rua)\s+(?:(?:de|del|de la|du|des|la|le|los|las|da|do|di)\s+)?[^\W\d][\w'’-]+(?:\s+[^\W\d][\w'’-]+)?,?\s+\d{1,4}\b", 0.9),
    _p("STREET_ADDRESS", r"\b[^\W\d][\w-]*(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse|straat|laan|gatan|vägen)\s+\d{1,4}\s?[a-z]?\b", 0.9),
    _p("STREET_ADDRESS", r"\bp\.?\s?o\.?\s*box\s*\d{1,7}\b", 0.95),
    _p("STREET_ADDRESS", r"(?<![\w.$£€])\d{1,6}[a-z]?,?\s+(?-i:[A-ZÀ-Þ][\w'’.-]+)(?:\s+(?-i:[A-ZÀ-Þ][\w'’.-]*|\d{1,4}|de|del|da|do|la|le|van|der|den|von|of|of the)){0,5}\s*,?\s+(?:apt\.?|suite|ste\.?|unit|flat|floor|fl\.?|room|rm\.?|#)\s*#?\w{1,6}", 0.9),
    _p("STREET_ADDRESS", r"\b(?:the )?corner of [^,?!\n]{4,40} and [^,.?!\n]{4,40}", 0.75),
    _p("STREET_ADDRESS", r"\b(?:suite|ste\.|apt\.|apartment)\s+#?\d{1,5}[a-z]?\b", 0.8),
    _p("STREET_ADDRESS", r"(?<![\w.$£€])\d{2,6}\s+(?-i:[A-ZÀ-Þ][\w'’.-]+)(?:\s+(?-i:[A-ZÀ-Þ][\w'’.-]*|de|del|da|do|la|le|van|der|den|von)){0,3}\s+\d{1,4}(?![\w.:%-])", 0.75),
    _p("STREET_ADDRESS", r"\b(?:PSC|unit)\s+\d{3,5},?\s+box\s+\d{1,5}\b(?:\s*,?\s*(?:APO|FPO|DPO)\s+A[AEP]\s+\d{5})?|\b(?:USNS|USS|USCGC|USNV)\s+\w+\s+(?:APO|FPO|DPO)\s+A[AEP]\s+\d{5}|\b(?:APO|FPO|DPO)\s*,?\s*A[AEP]\s+\d{5}", 0.95),
    _p("STREET_ADDRESS", r"\b(?-i:[A-ZÀ-Þ])[\w'’-]{3,}(?:\s+(?-i:[A-ZÀ-Þ])[\w'’-]+)?\s+(?:u\.|utca|út|tér|körút|ulice|ulica|katu|vej|gade|gata|vägen|väg|tie|str\.)\s*\d{0,4}\.?", 0.8),
    _p("STREET_ADDRESS", r"\b(?:house|plot|door|flat|block|h)\.?\s*(?:no\.?|number|#)\s*\d{1,4}[a-z]?(?:/\d+)?(?:\s*,\s*[\w' ]{3,28}){0,2}", 0.75),
    _p("POSTCODE", r"\b(?:GIR ?0AA|(?:[A-PR-UWYZ](?:[0-9]{1,2}|[A-HK-Y][0-9]|[A-HK-Y][0-9](?:[0-9]|[ABEHMNPRV-Y])|[0-9][A-HJKPS-UW])) ?[0-9][ABD-HJLNP-UW-Z]{2})\b", 0.9),
    _p("POSTCODE", r"\b[ABCEGHJ-NPRSTVXY]\d[ABCEGHJ-NPRSTV-Z][ -]?\d[ABCEGHJ-NPRSTV-Z]\d\b", 0.9),
    _p("POSTCODE", r"\b[ACDEFHKNPRTVWXY]\d[0-9W]\s?[0-9ACDEFHKNPRTVWXY]{4}\b(?=[\w\s]*)", 0.6, _letters_and_digits),
    _p("POSTCODE", r"\b(?:zip(?: ?code)?|post ?code|postal ?code|pin ?code|pincode|plz|eircode|code postal|cep)\b" + _IS + r"(?P<it>[A-Z0-9]{2,5}(?:[ -]?[A-Z0-9]{2,4})?)\b", 0.9, _has_digits),
    _p("POSTCODE", r"\b(?-i:A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|W[AIVY])\.?,?\s+\d{5}(?:-\d{4})?\b", 0.9),
    _p("POSTCODE", r"\b(?:al|ak|ar|az|ca|co|ct|fl|ga|il|ks|ky|md|mi|mn|mo|ms|nc|nd|ne|nh|nj|nm|nv|ny|ri|sc|sd|tn|tx|ut|va|vt|wa|wi|wv|wy)\.?,?\s+\d{5}(?:-\d{4})?\b", 0.8),
    _p("POSTCODE", r"\b(?:nsw|vic|qld|tas|act|western australia|south australia)\.?,?\s+\d{4}\b", 0.9),
    _p("POSTCODE", r"(?<![\w$£€.,-])\d{5}-\d{4}(?![\w-])", 0.8),
    _p("COORDINATES", r"(?<![\w.])[-+]?\d{1,3}\.\d{3,}°?\s*[NS]?\s*(?:,|;|/|\s)\s*(?:lo?ng?\.?:?\s*)?[-+]?\d{1,3}\.\d{3,}°?\s*[EW]?(?![\w.])", 0.95),
    _p("COORDINATES", r"\d{1,3}\s?°\s?\d{1,2}\s?['′]\s?(?:\d{1,2}(?:\.\d+)?\s?[\"″”]?)?\s?[NS]\W{1,3}\d{1,3}\s?°\s?\d{1,2}\s?['′]\s?(?:\d{1,2}(?:\.\d+)?\s?[\"″”]?)?\s?[EW]", 0.95),
    _p("COORDINATES", r"\blat(?:itude)?\.?[:= ]+[-+]?\d{1,3}\.\d+\W+(?:and )?(?:lng|long?(?:itude)?)\.?[:= ]+[-+]?\d{1,3}\.\d+", 0.95),
    _p("COORDINATES", r"///[a-z]{3,}\.[a-z]{3,}\.[a-z]{3,}", 0.95),
    # -- when
    _p("DATE_OF_BIRTH", rf"\b(?:d\.?o\.?b\.?|date of birth|birth ?date|born(?: on| the)?|b-?day|birthday|bd)\b{_IS}(?P<it>{_DATE})", 0.98),
    _p("DATE_OF_BIRTH", rf"\b(?P<it>{_DATE})\W{{0,3}}(?:is|was|'s)?\s*(?:my|his|her|their|our)?\s*(?:d\.?o\.?b|birthday|bday|date of birth)\b", 0.95),
    _p("DATE_TIME", rf"(?<![\w.,/:$£€-]){_DATE}(?![\w/:-])", 0.85, _whole_dates_only),
    _p("AGE_OVER_89", r"\b(?:9\d|1[01]\d)[\s-]*(?:years?[\s-]+(?:old|of age|young)|yrs?[\s-]+old|y/?o\b|year-old)", 0.95),
    _p("AGE_OVER_89", r"(?<!\d )\b(?:aged?|turn(?:s|ed|ing)?|age of|almost|nearly|over|at|reached|reaching|hit|made it to|till|til|until|to be|be|past)\s+(?P<it>9\d|10\d)\b(?!\s*(?:%|percent|per cent|kg|kilos?|lbs?|pounds?|stone|bpm|mg|ml|miles?|mph|km|degrees?|minutes?|mins?|hours?|days?|weeks?|months?|times|people|quid|dollars?|euros?|k\b|in\b|on\b|out\b|/|points?|marks?|calories|kcal)|[.,:]\d|\d)", 0.8),
    _p("AGE_OVER_89", r"\b(?:grandma|grandpa|grandmother|grandfather|nan|nana|gran|granny|grandad|granddad|mother|father|mum|mom|dad|mother in law|father in law|aunt|auntie|uncle|neighbou?r|abuela|abuelo|oma|opa|she|he|she'?s|he'?s|who|who'?s|i|i'?m|im|shes|hes)(?:\s+(?:is|was|am|'s|just|only|now|already|are|and))*,?\s+(?P<it>9\d|10\d)\b(?!\s*(?:%|percent|per cent|kg|kilos?|lbs?|pounds?|stone|bpm|mg|ml|miles?|mph|km|degrees?|minutes?|mins?|hours?|days?|weeks?|months?|times|people|quid|dollars?|euros?|k\b|in\b|on\b|out\b|/|points?|marks?|calories|kcal|texts?|calls?|messages?)|[.,:]\d|\d)", 0.8),
    _p("AGE_OVER_89", r"\b(?P<it>ninety(?:[\s-]+(?:one|two|three|four|five|six|seven|eight|nine))?|a hundred(?: and (?:one|two|three|four|five))?)\b(?=[\s-]*(?:years?[\s-]+old|yrs? old|year-old)|\s*(?:$|[.,;!?]|and\b|now\b|next\b|last\b|this\b|in (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)))", 0.7),
    # -- numbers of a person
    _p("US_SSN", r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])", 0.95),
    _p("US_SSN", r"\b(?:ssn|social(?: security)?(?: number| no)?)\b" + _IS + r"(?P<it>\d{3}[- ]?\d{2}[- ]?\d{4}|\d{4})(?!\d)", 0.95),
    _p("CREDIT_CARD", r"(?<![\w-])(?:\d[ -]?){12,18}\d(?![\w-])", 0.95, _luhn),
    _p("CREDIT_CARD", r"\b(?:card|visa|mastercard|amex|debit|credit)\b(?:\s+(?:card|number|no|ending|ends|in|is|with|:|#))*\s*(?P<it>\d[\d -]{10,20}\d|\d{4})(?!\d)", 0.8, _digits_between(4, 19)),
    _p("IBAN_CODE", r"(?<!\w)[A-Z]{2}\d{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,4})?(?!\w)", 0.9, _digits_between(6, 32)),
    _p("BANK_ACCOUNT", r"\b(?:account|acct?|a/c|acc|iban|sort ?code|routing(?: number)?|bsb|aba|ifsc|clabe|checking|savings|bank)\b(?:\s*(?:account|acct|acc))?" + _IS + r"(?P<it>(?=[A-Z0-9 -]*\d{4})[A-Z0-9][A-Z0-9 -]{4,26}[A-Z0-9]|\d{2}[- ]\d{2}[- ]\d{2}|\d{3}[- ]\d{3})(?![\w-])", 0.85, _digits_between(5, 24)),
    _p("BANK_ACCOUNT", r"(?<![\w-])\d{2}-\d{2}-\d{2}(?![\w-])(?:\W+(?:and\s+)?(?:account|acct?|acc)?\W*\d{6,10}\b)?", 0.8),
    _p("BANK_ACCOUNT", r"\bsort ?code\b.{0,40}?(?P<it>\b\d{7,10}\b)", 0.85),
    _p("PASSPORT", r"\bpassport\b" + _IS + r"(?P<it>(?=[A-Z0-9 ]*\d)[A-Z]{0,2}\s?\d[\dA-Z ]{4,10}[\dA-Z])(?!\w)", 0.9),
    _p("DRIVER_LICENSE", r"\b(?:driv(?:er'?s?|ing)|dl|provisional)\b(?:\s*(?:licen[cs]e|permit))?" + _IS + _SPACED + r"(?!\w)", 0.9, _digits_between(3, 20)),
    _p("DRIVER_LICENSE", r"\blicen[cs]e\s+(?:number|no\.?|num|#|id)" + _IS + _SPACED + r"(?!\w)", 0.85, _digits_between(3, 20)),
    _p("DRIVER_LICENSE", r"\b[A-Z9]{5}\d{6}[A-Z9]{2}\d[A-Z]{2}\b", 0.9),
    _p("LICENSE_PLATE", r"\b(?:number ?plate|licen[cs]e ?plate|plates?|reg(?:istration|o)?|tags?)\b" + _IS + r"(?P<it>(?=[A-Z0-9 -]*\d)[A-Z0-9]{1,4}[ -]?[A-Z0-9]{1,4}(?:[ -]?[A-Z0-9]{1,4})?)(?!\w)", 0.85, _letters_and_digits),
    _p("LICENSE_PLATE", r"(?<![\w-])[A-Z]{2}\d{2}\s?[A-Z]{3}(?![\w-])", 0.85),
    _p("LICENSE_PLATE", r"(?<![\w-])(?-i:[A-Z]{2})[ -]?\d{1,2}[ -]?(?-i:[A-Z]{1,3})[ -]?\d{3,4}(?![\w-])", 0.85),
    _p("LICENSE_PLATE", r"(?<![\w-])(?-i:[A-Z]{2,3}) ?\d{3}-\d{3}(?![\w-])", 0.85),
    _p("LICENSE_PLATE", r"(?<![\w-])\d{2,3}-[A-Z]{1,2}-\d{1,6}(?![\w-])", 0.85),
    _p("LICENSE_PLATE", r"\b(?:car|van|truck|vehicle|jeep|bmw|audi|ford|honda|toyota|nissan|suv|sedan|corsa|golf|civic|transit|pickup)\b(?:\s+\w+){0,3}?\W+(?P<it>(?=[A-Z0-9]*\d)(?=[A-Z0-9]*[A-Z])[A-Z0-9]{2,4}[ -]?[A-Z0-9]{3,4})(?!\w)", 0.6, lambda t: _letters_and_digits(t) and (t.isupper() or bool(re.fullmatch(r"[a-z]{1,3}[ -]?\d{2,4}[ -]?[a-z]{0,3}", t)))),
    _p("MEDICAL_RECORD", r"\b(?:mrn|nhs(?: number| no)?|chi(?: number)?|medical record|hospital(?: number| no| id)|patient(?: number| no| id| ref)|chart(?: number| no)?|record(?: number| no)|health ?card|medicare|hosp(?:ital)? no|unit number|emr|ehr)\b" + _IS + r"(?P<it>(?=[A-Z0-9 /-]*\d{3})[A-Z0-9][A-Z0-9 /-]{3,16}[A-Z0-9])(?!\w)", 0.9, _digits_between(4, 16)),
    _p("MEDICAL_RECORD", r"(?<![\w-])\d{3} \d{3} \d{4}(?![\w-])", 0.6),
    _p("STUDENT_ID", r"\b(?:student|matric(?:ulation)?|enrol?lment|candidate|learner|pupil|uni|college|ucas|campus|roll|school|usn|exam|index)\b\s*(?:id|no\.?|number|num|#|nr|card|ref|code)\b" + _IS + _CODE + r"(?!\w)", 0.9),
    _p("STUDENT_ID", r"\b(?:student ?id|matric|matriculation|studentid|matrikelnummer|ucas)\b" + _IS + _CODE + r"(?!\w)", 0.9),
    _p("INSURANCE_ID", r"\b(?:insurance|policy|member(?:ship)?|subscriber|group|medicaid|medicare|bupa|aetna|cigna|humana|kaiser|blue cross|bcbs|beneficiary|benefits?)\b\s*(?:id|no\.?|number|num|#|nr|policy|card)?" + _IS + _CODE + r"(?!\w)", 0.85, _digits_between(4, 20)),
    _p("CASE_NUMBER", r"\b(?:case|ref(?:erence)?|claim|incident|crime|docket|file|ticket|report|complaint|application|tribunal|order|warrant|booking|inmate|prisoner|court|log|job|police|grievance|hearing|appeal|tenancy|employee|staff|payroll|badge|customer|loan|invoice|agreement|contract|visa|permit|alien|uscis|receipt|a-number|brp)\b(?:\s*(?:case|ref|file|crime|report))?\s*(?:id|no\.?|number|num|#|nr|ref)?" + _IS + _CODE + r"(?!\w)", 0.85, _digits_between(3, 20)),
    _p("NATIONAL_ID", r"\b(?:aadhaar|aadhar|adhaar|pan(?: card)?|nin|nino|national insurance|ni (?:number|no)|sin|social insurance|tfn|tax file|tax (?:id|number|code)|pps(?:n)?|cpf|dni|nie|pesel|personnummer|nric|fin|bsn|curp|codice fiscale|id ?(?:number|no|card|nummer)|national id|identity (?:number|card)|steuer-?id|nif|insee|s[eé]cu|rsa id|sa id|emirates id|cnic|nid|voter id|citizenship|tin|itin|ein|resident(?:ce)? permit)\b" + _IS + _SPACED + r"(?!\w)", 0.9, _digits_between(5, 18)),
    _p("NATIONAL_ID", r"(?<!\w)(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z]\s?\d{2}\s?\d{2}\s?\d{2}\s?[A-D](?!\w)", 0.9),
    _p("NATIONAL_ID", r"(?<![\w-])[A-Z]{5}\d{4}[A-Z](?![\w-])", 0.85),
    _p("NATIONAL_ID", r"(?<![\w-])[2-9]\d{3} \d{4} \d{4}(?![\w-])", 0.85),
    _p("NATIONAL_ID", r"(?<![\w-])\d{3}\.\d{3}\.\d{3}-\d{2}(?![\w-])", 0.95),
    _p("NATIONAL_ID", r"(?<![\w-])[STFGM]\d{7}[A-Z](?![\w-])", 0.9),
    _p("NATIONAL_ID", r"(?<![\w-])\d{8}-?[A-HJ-NP-TV-Z](?![\w-])", 0.75),
    _p("NATIONAL_ID", r"(?<![\w-])(?:19|20)?\d{6}[-+]\d{4}(?![\w-])", 0.8),
    # -- machines
    _p("IP_ADDRESS", r"(?<![\w.])(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.]\d|\w)", 0.95),
    _p("IP_ADDRESS", r"(?<![\w:])(?:[0-9a-f]{1,4}:){3,7}(?::?[0-9a-f]{1,4}){1,4}(?![\w:])|(?<![\w:])(?:[0-9a-f]{1,4}:){1,6}:(?:[0-9a-f]{1,4}:?){1,6}(?![\w:])", 0.9),
    _p("DEVICE_ID", r"(?<![\w:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:-])", 0.95),
    _p("DEVICE_ID", r"\b(?:imei|serial(?: number| no)?|device(?: id)?|udid|mac(?: address)?|asset tag|s/n|sn|idfa|android id|uuid|airtag|tracker|pump|pacemaker|monitor)\b" + _IS + r"(?P<it>(?=[A-Z0-9:/-]*\d)[A-Z0-9](?:[A-Z0-9]|[:/-](?=[A-Z0-9])){5,40})(?!\w)", 0.9, _digits_between(3, 40)),
    _p("DEVICE_ID", r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", 0.95),
    _p("PERSON", r"(?<!^)(?<![.!?:] )\b(?-i:[A-ZÀ-Þ][a-zà-ÿ]+), (?-i:[A-ZÀ-Þ][a-zà-ÿ]+) and (?-i:[A-ZÀ-Þ][a-zà-ÿ]+)\b(?!\s+(?:are|were) (?:all )?(?:days|months|countries))", 0.55),
    # -- whatever else looks like somebody's number
    _p("CASE_NUMBER", r"(?<![\w@#./-])(?=[A-Z0-9/-]*\d[A-Z0-9/-]*\d[A-Z0-9/-]*\d)(?=[A-Z0-9/-]*[A-Z])[A-Z0-9]+(?:[/-][A-Z0-9]+)*(?![\w@/-])", 0.5,
       lambda t: len(t) >= 7 and not re.fullmatch(r"(?i)\d+(?:st|nd|rd|th|mg|ml|kg|mcg|lbs?|km|hrs?|mins?|yrs?|years?|days?|weeks?|months?|k|am|pm|kcal|cal)s?|[a-z]+-?\d{1,2}|\d{1,2}-[a-z-]+", t) and (t.isupper() or sum(c.isdigit() for c in t) >= 5) and not re.search(r"(?i)^\d+-?(?:year|month|week|day|hour|minute|mile|pound|dollar)", t)),
    _p("CASE_NUMBER", r"(?<![\w@#./-])(?-i:[A-Z]{2,5})\s?[:#-]?\s?\d{4,}(?:[/-]\d+)*(?![\w@/-])", 0.6),
    _p("BANK_ACCOUNT", r"(?<![\w.,$£€#/-])\d{8,19}(?![\w%]|[.,]\d)", 0.6),
)  # fmt: skip
