"""Undo what hides a message from a pattern: look-alikes, spacing, leet, algospeak, emoji.

Pure and bounded: the longest run of anything is cut, and no step is more than linear in the length of the text.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_SCREENED = 50_000
"""Characters the text stage reads in one window; a longer message is read in several."""

_ZERO_WIDTH = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]"
)
_LOOK_ALIKE = str.maketrans(
    {
        # Cyrillic and Greek letters that look like Latin ones
        "а": "a", "е": "e", "о": "o", "р": "p", "с": "c", "у": "y", "х": "x", "і": "i", "ј": "j", "ѕ": "s", "һ": "h",
        "к": "k", "м": "m", "т": "t", "в": "b", "н": "h", "ԁ": "d", "ӏ": "l", "ԛ": "q", "ԝ": "w",
        "α": "a", "ε": "e", "ι": "i", "ο": "o", "ρ": "p", "τ": "t", "υ": "u", "ν": "v", "κ": "k", "χ": "x",
        "ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ğ": "g", "ş": "s",
        # apostrophes go: "don't" is "dont"
        "'": "", "’": "", "‘": "", "`": "", "´": "", "ʼ": "",
    }
)  # fmt: skip
_EMOJI = {
    "🔫": " gun ", "💊": " pills ", "🔪": " knife ", "🗡": " knife ", "⚰": " dead ", "🪦": " dead ", "🩸": " blood ",
    "🪢": " rope ", "🌉": " bridge ", "😵": " ", "💀": " ", "☠": " ", "😂": " lol ", "🤣": " lol ", "👋": " goodbye ",
}  # fmt: skip
_LEET = str.maketrans(
    {
        "0": "o",
        "1": "i",
        "3": "e",
        "4": "a",
        "5": "s",
        "7": "t",
        "@": "a",
        "$": "s",
        "!": "i",
        "|": "l",
        "*": "",
    }
)
_LEET_WORD = re.compile(
    r"(?<![\w@$!|*])(?=[\w@$!|*]*[a-z])(?=[\w@$!|*]*[a-z@$!|*0-9][@$!|*0134579][a-z]|[@$0134579][a-z]{2})[a-z0-9@$!|*]{3,}(?![\w@$|*])"
)
_SPACED = re.compile(r"(?<![\w])(?:[a-z][ .\-_*]{1,2}){3,}[a-z](?![\w])")
_RUNS = re.compile(r"([a-z])\1{2,}")
_LONG_RUNS = re.compile(r"(.)\1{5,}", re.DOTALL)
_REPEATED_WORDS = re.compile(r"\b(\w+)(?: \1\b){3,}")

_WORDS = {
    "tn": "tonight", "2nite": "tonight", "2night": "tonight", "tonite": "tonight", "tmrw": "tomorrow",
    "tmr": "tomorrow", "tomoro": "tomorrow", "tmw": "tomorrow", "2moro": "tomorrow", "tomorow": "tomorrow",
    "wanna": "want to", "gonna": "going to", "gunna": "going to", "gona": "going to", "goin": "going", "imma": "im going to", "ima": "im going to",
    "finna": "going to", "gna": "going to", "gon": "going to", "u": "you", "ur": "your", "r": "are", "abt": "about",
    "cuz": "because", "bc": "because", "bcoz": "because", "rn": "right now", "w": "with", "dnt": "dont", "cnt": "cant",
    "wnt": "want", "wana": "want to", "wanto": "want to", "ded": "dead", "dieing": "dying", "wsh": "wish", "alredy": "already",
    "allready": "already", "sumtimes": "sometimes", "tok": "took", "pils": "pills", "pilz": "pills", "kil": "kill",
    "killin": "killing", "slef": "self", "mysef": "myself", "meself": "myself", "mself": "myself", "maself": "myself",
    "sucide": "suicide", "suside": "suicide", "suicde": "suicide", "sewerslide": "suicide", "sewercide": "suicide",
    "soocide": "suicide", "sueside": "suicide", "suicidel": "suicidal", "sucidal": "suicidal", "sooicidal": "suicidal",
    "sui": "suicide", "suey": "suicide", "kys": "kill yourself", "kms": "kill myself", "kmself": "kill myself",
    "ctb": "catch the bus", "unalive": "kill", "unaliving": "killing", "unalived": "killed", "depresed": "depressed",
    "depresd": "depressed", "hurtin": "hurting", "cuttin": "cutting", "thinkin": "thinking", "thots": "thoughts",
    "anymor": "anymore", "nomore": "no more", "n": "and", "b4": "before", "od": "overdose", "oding": "overdosing",
    "odd": "odd", "odded": "overdosed", "oded": "overdosed", "selfdelete": "kill myself", "theyre": "they are", "plz": "please",
    "thru": "through", "hes": "he is", "shes": "she is", "ive": "i have", "weve": "we have",
}  # fmt: skip
_PHRASES = [
    (re.compile(r"\bself[ -]?(?:delet\w+|exit\w*|terminat\w+|unaliv\w+)(?: myself)?\b"), "kill myself"),
    (re.compile(r"\b(?:delet\w+|unaliv\w+|kill|end|game ?end|yeet|log off|logging off|forever sleep) (?:my ?self|me self)\b"), "kill myself"),
    (re.compile(r"\b(?:log|logging|logg) (?:off|out) (?:of )?(?:life|forever|for good|permanently)\b"), "kill myself"),
    (re.compile(r"\bkill (?:thoughts|ideation|feelings|urges)\b"), "suicidal thoughts"),
    (re.compile(r"\bgrippy socks?(?: vacation| holiday)?\b"), "psych ward"),
    (re.compile(r"\b(?:s/h|s\.h\.|\$h)\b"), "self harm"),
    (re.compile(r"\b(?:take|taking) the (?:l train|forever nap|long sleep|easy way out)\b"), "kill myself"),
    (re.compile(r"\b(?:forever|eternal|permanent|dirt) nap\b"), "die"),
    (re.compile(r"\b(?:go|going|went) off (?:the )?grid (?:permanently|forever|for good)\b"), "die"),
    (re.compile(r"\bclock(?:ing)? out (?:of life|forever|for good|permanently)\b"), "kill myself"),
    (re.compile(r"\b(?:k[ .]?m[ .]?s)\b"), "kill myself"),
]  # fmt: skip


def normalise(text: str) -> str:
    """The text as the patterns expect it: lower case, plain letters, hidden spellings undone.

    Sentence marks and line breaks are kept; apostrophes go, so that "don't" is "dont".
    """
    if len(text) > LONGEST_SCREENED:
        half = LONGEST_SCREENED // 2
        text = text[:half] + "\n" + text[-half:]
    text = _LONG_RUNS.sub(lambda run: run[1] * 3, text)
    for emoji, word in _EMOJI.items():
        if emoji in text:
            text = text.replace(emoji, word)
    text = unicodedata.normalize("NFKC", _ZERO_WIDTH.sub("", text)).lower()
    text = unicodedata.normalize("NFKD", text)
    text = "".join(c for c in text if not unicodedata.combining(c)).translate(_LOOK_ALIKE)
    text = _SPACED.sub(lambda m: re.sub(r"[ .\-_*]", "", m[0]), text)
    text = _LEET_WORD.sub(_unleet, text)
    text = _RUNS.sub(r"\1", text) if _RUNS.search(text) else text
    text = re.sub(r"[a-z0-9]+", lambda m: _WORDS.get(m[0], m[0]), text)
    for pattern, plain in _PHRASES:
        text = pattern.sub(plain, text)
    text = text.replace("he is s ", "hes ").replace("-", " ")
    text = re.sub(r"[,:\"“”«»()\[\]{}*_~#<>/]", " ", text)
    text = re.sub(r"[^\S\n]+", " ", text)
    return _REPEATED_WORDS.sub(r"\1", text)


_NUMERIC = re.compile(
    r"\d+(?:st|nd|rd|th|s|k|m|d|yo|am|pm|mg|kg|km|hrs?|h|x|lbs?|f|y|yr|cm|g|ml|w|p|min|hz|gb|mb)?|[a-z]{1,4}\d+|\d+(?:[a-z]\d+)+"
)


def _unleet(match: re.Match[str]) -> str:
    word = match[0]
    if _NUMERIC.fullmatch(word) or not re.search(r"[a-z]", word):
        return word
    trailing = "!" if word.endswith("!") else ""
    return word.rstrip("!").translate(_LEET) + trailing
