"""Reading what a person says: intent, facts, corrections.

A lexicon reads what is said plainly; small classifiers on the sentence encoder read the rest. Everything here is
deterministic and works without a network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bot.understanding import Intent
from policies import classifiers, lexicon
from policies.attributes import Answer, Attribute, Profile, Standing
from policies.classifiers import Linear, Trained
from policies.encoder import Encoder, Vectors
from policies.questions import Question

SURE = 0.55
"""Probability above which a tag or an intent read by a classifier is believed."""
MOST_PIECES = 2.2
"""Word pieces a word, on average, of a text that is still made of words."""
_LONGEST_NOTE = 160
"""Characters of a person's own words kept as an answer's text."""

_AGE = re.compile(
    r"\b(?:i am|im|i will be|ill be|i turned|i turn|just turned|turning|turned|aged?|age is|age)\s*(?:only |just |already |about |around |nearly |almost |like )*(?:is )?(\d{1,2}|1[01]\d)\b(?! ?(?:weeks?|wks?|months?|days?|minutes?|hours?|%|k\b|kg|lbs?|miles?|percent|pounds|dollars|euros|years? (?:in|into|of|sober|clean|at|with|as)|th\b|st\b|nd\b|rd\b|stone|cm|in debt))"
    r"|\bi(?:'?m| am) a (\d{1,2}) ?(?:yo|y/o|year old|yr old)|\b(\d{2}) ?(?:yo|y/o)\b(?! (?:son|daughter|kid|boy|girl|brother|sister))|\b(\d{2}) ?[mf]\b|\b[mf] ?(\d{2})\b|\b(?:i am|im|as) an? (\d{1,2}) year old\b"
)
_AGE_ANSWER = re.compile(r"(?<![\d.])(\d{1,3})(?![\d.%])")
_AGE_WORDS = {
    "child": re.compile(r"\b(?:im|i am) (?:a )?(?:kid|child|in (?:primary|elementary) school)\b"),
    "teen": re.compile(
        r"\b(?:im|i am) (?:a |still a )?(?:teen|teenager|minor|underage|high ?schooler)\b|\bteen(?:ager)?$|^(?:im )?(?:a )?(?:minor|under 18|under ?age)\b|\bmy (?:gcses?|sixth form)\b|\bin (?:9th|10th|11th|year (?:8|9|10|11)) ?grade?\b|\bim in (?:year (?:7|8|9|10|11|12)|middle school|high school)\b"
    ),
    "young_adult": re.compile(r"\b(?:early twenties|in my (?:early )?(?:twenties|20s))\b"),
    "adult": re.compile(
        r"\b(?:(?:mid|late) ?(?:twenties|20s)|thirties|30s|forties|40s|fifties|50s|middle aged)\b"
    ),
    "older": re.compile(
        r"\b(?:(?:late )?sixties|60s|seventies|70s|eighties|80s|nineties|90s|pensioner|retired and old|old lady|old man)\b"
    ),
}
_NUMBER_WORDS = {
    word: number
    for number, word in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fourty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_WRITTEN = re.compile(
    rf"\b({'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})(?:[ -]({'|'.join(w for w in _NUMBER_WORDS if _NUMBER_WORDS[w] < 10)}))?\b"
)

_OF_ONESELF = re.compile(r"\b(?:i|im|me|my|we|us|cant|cannot|quiet\w*|loud|whisper\w*|speak|talk|call)\b")
_UNSAFE = re.compile(
    r"^(?:\w+ ){0,3}?(?:(?:im|i am|we are|were) (?:\w+ )?(?:not|un ?)(?: \w+)? ?safe|(?:i )?(?:dont|do not) feel (?:\w+ )?safe|not safe|im unsafe)(?: (?:here|now|right now|tonight|at all|anymore|please come|alone|at home|with (?:him|her|them|myself)))*$"
)
_NOT_SAFE = re.compile(
    r"\b(?:not|dont|do not|never|isnt|arent|wasnt|cant|cannot|wont|no longer|hardly|nowhere|unless|until|if)\b(?: \w+){0,4} (?:safe|ok|okay|here|with me)\b"
    r"|^(?:but |so |and )?(?:am i|are we|is (?:it|he|she|here|this)|will i|how (?:do|can|could) i)\b|\b(?:ill|will|going to|gonna|want to|wish i|would|could) (?:be |feel |only be |only feel )?safe\b"
    r"|\b(?:called|rang|phoned|texted|told) (?:no ?one|nobody|noone)\b|\b(?:no ?one|nobody) (?:is|came|has|answered)\b|\bno estoy|\bpas en securite|\bnicht (?:in sicherheit|sicher)|\bnon sono|\bnie jestem|\binte (?:trygg|saker)"
    r"|\bun ?safe\b|\b(?:kept?|keep(?:s|ing)?|better|more|most) safe\b(?! now)"
)
"""What makes a sentence about safety no statement that the person is safe."""
_SKIPS = re.compile(
    r"^(?:skip|next|pass|leave)(?: (?:this|that|it|the))?(?: (?:step|one|question|part))?(?: out)?(?: please)?$"
)
_NOBODY = re.compile(
    r"\b(?:no ?one|nobody|noone|nowhere|none|no (?:friends?|family|people|place))\b|\b(?:dont|do not|havent|have not|havent got|aint got|not) (?:\w+ ){0,3}(?:any ?one|any ?body|any ?where|any (?:friends?|family|people))\b"
)
_STOPS = re.compile(
    r"^(?:stop|enough|quit|finish|done|cancel|no more|stop here|thats (?:it|all|enough)|(?:stop|finish|end|close|cancel|leave) (?:the |this |my |it )?(?:safety )?(?:plan|now|here))$"
)
_RULES: tuple[tuple[Intent, re.Pattern[str]], ...] = (
    (
        Intent.SHOW_PLAN,
        re.compile(
            r"^(?:can you |please |could you )*(?:show (?:me )?|see |what(?: i|)s (?:in )?)?my (?:safety )?plan(?: again| please| now)*\??$"
        ),
    ),
    (
        Intent.SAFETY_PLAN,
        re.compile(
            r"^(?:the |a |my |our )?safety plan(?: please| again)*$|\b(?:make|write|build|do|start|begin|continue|go on with|help (?:me )?(?:with|make|write)|try|finish)(?: \w+){0,3} (?:safety|crisis) plan\b|^(?:yes|ok|okay|sure)(?: please| lets)* (?:the |a )?(?:safety )?plan$"
        ),
    ),
    (
        Intent.CANNOT_TALK,
        re.compile(
            r"\b(?:cant|cannot|can not|not able to) (?:talk|speak|call)(?: \w+){0,3}(?: right now| now| out ?loud| here|$)|(?:in the room|listening|hear me|next to me)$"
        ),
    ),
    (
        Intent.NO_PICKUP,
        re.compile(
            r"\b(?:didnt|did not|dont|not|isnt|wont|nobody|no one|never) (?:\w+ )?(?:pick(?:ed|ing)? up|answer(?:ed|ing)?)\b|\b(?:line (?:is|was) (?:busy|engaged)|on hold|voice ?mail|number doesnt work|couldnt get through|cant get through|no answer)\b"
        ),
    ),
    (
        Intent.WONT_CALL,
        re.compile(
            r"\b(?:dont want to|wont|not going to|im not|refuse to|hate|cant face) (?:call|calling|phone|phoning|ring|ringing|talk to (?:them|a stranger|strangers|anyone))\b|no (?:calls|hotlines?|helplines?|phone calls?|police)\b"
        ),
    ),
    (
        Intent.CAN_YOU_CALL,
        re.compile(
            r"^(?:please |but |ok |so |then )*(?:can|could|will|would|do|are) (?:you|u)(?: going to)? (?:please |also |actually )?(?:call|phone|ring|alert|contact|notify|track|report|send|tell)\b(?: \w+){0,3}? ?(?:someone|somebody|help|police|the police|ambulance|an ambulance|anyone|my (?:mum|mom|dad|parents|family|doctor|school|boss|husband|wife)|911|999|112|emergency|for me|to me|me\b|where i)"
        ),
    ),
    (
        Intent.SAFE,
        re.compile(
            r"\b(?:im|i am|we are|were|feel(?:ing)?|feel a bit|hes|shes) (?:\w+ ){0,2}safe\b(?! ?(?:to|if|from him yet))|\b(?:ambulance|police|paramedics?|doctor|nurse|my (?:mum|mom|dad|sister|brother|friend|partner|wife|husband|neighbou?r|roommate|flatmate)) (?:is|are|has|have|just|came|arrived)(?: \w+){0,2} (?:here|with me|arrived|coming|on (?:the|their|his|her) way|come over|sitting with me|taken (?:them|it|the))|\b(?:i|ive|i have|we) (?:called|rang|phoned|texted|spoke (?:to|with)|am talking to|put (?:them|it|the \w+) away|gave (?:them|it|the \w+) to|gave (?:her|him|them|my \w+) (?:the|my|all)|handed|flushed|locked (?:them|it) away)\b(?! (?:him|her) names)|not alone (?:now|anymore)|(?:im|i am) (?:at|in) (?:the )?(?:hospital|a&e|er|emergency)\b|^(?:ok |okay |yes |im |i am |we are |were )*(?:ringing|calling|phoning|dialling|dialing|on the phone (?:to|with))(?: (?:them|now|999|911|112|an ambulance|the ambulance|my \w+|her|him|samaritans|right now))+"
            r"|^(?:yes |yeah |yep |ok )*safe(?: now| here| thanks)*$"
            r"|\b(?:estoy (?:a salvo|segur[oa]|bien ahora)|je suis en securite|(?:ich )?bin (?:jetzt )?(?:in sicherheit|sicher)|estou (?:segur[oa]|a salvo|bem agora)|sono al sicuro|ik ben (?:nu )?veilig|jestem (?:juz )?bezpieczn[yea]|jag ar (?:nu )?(?:trygg|saker|i sakerhet)|guvendeyim|(?:main )?(?:ab )?safe h(?:u|oo)n?|(?:aku|saya) (?:sudah |udah )?aman|ligtas na ako)"
        ),
    ),
    (
        Intent.JOKE,
        re.compile(
            r"\b(?:(?:just|only|was|am|is|im) (?:a )?(?:jok\w+|kidding|messing|trolling|sarcas\w+|test(?:ing)? you)|jk\b|j k\b|it was a joke|didnt mean (?:it|that)|not serious|was being dramatic|misunderstood me|you misunderstood|lol relax|chill (?:out|lol))"
        ),
    ),
    (
        Intent.THERAPIST,
        re.compile(
            r"\b(?:are you|you) (?:a |an |my |like a |some kind of )?(?:\w+ )?(?:therapist|doctor|psychologist|psychiatrist|counsell?or|nurse|lawyer|professional|qualified|licen[cs]ed|medically|expert|trained)\b|\b(?:can|could|do) you (?:diagnose|prescribe)\b"
        ),
    ),
    (
        Intent.HUMAN,
        re.compile(
            r"\b(?:are you|is this|am i (?:talking|speaking|chatting) (?:to|with)|r you) (?:\w+ ){0,3}(?:human|bot|robot|ai|real|machine|person|computer|chat ?gpt|program|someone)\b|\b(?:real person|actual person|a real human)\b(?: \w+){0,3}$|do you have feelings|can you feel"
        ),
    ),
    (
        Intent.ABOUT,
        re.compile(
            r"\b(?:what (?:do|will) you do with (?:this|it|that|these|my (?:data|answers?|messages?|words|information|info)|what i|all this|the (?:data|answers?|information))|what happens (?:to|with) (?:this chat|my (?:data|answers?|messages?|words|info\w*)|what i (?:say|write|type|tell))|(?:is|does) (?:anyone|anybody|someone|somebody) (?:else )?(?:reading|watching|listening|see|read|seeing|monitor\w*)|who (?:can |else )?(?:reads?|sees?|has access to) (?:this|these|my (?:messages|answers)|what i)|do you (?:store|save|keep|record|share|sell|remember) (?:this|these|any|my|what|everything|it|anything|our)|is (?:this|it|the chat|our chat|this chat) (?:private|confidential|anonymous|recorded|being recorded|safe to (?:say|tell|talk|write|type|share))|where does (?:this|my data|what i)|how do you work|how does this work|what (?:is|are) (?:this|you)(?: for)?$|what can you do|who made you|^(?:privacy|my data)|privacy policy)\b"
        ),
    ),
    (
        Intent.MY_PROFILE,
        re.compile(
            r"\bwhat (?:do|have) you (?:know|written|noted|got|understood|remember\w*|have)(?: \w+){0,3} (?:about me|down|so far|on me)|\bshow (?:me )?(?:my profile|what you(?:ve| have)? (?:know|understood|noted))|what i(?:ve| have)? told you"
        ),
    ),
    (
        Intent.HELP,
        re.compile(
            r"^/?help(?: me)?(?: please| now| pls)?$|\b(?:i need (?:help|a person|someone|to talk to (?:someone|a person|a human))(?: right)? now|get me (?:a person|help|someone)|crisis (?:line|number)|help ?line|hotline|emergency number|who can i call|number (?:to call|i can call)|talk to a (?:real )?(?:human|person))\b"
        ),
    ),
    (
        Intent.DISPUTE,
        re.compile(
            r"\b(?:thats|that is|thats|its) (?:not (?:what i (?:said|meant)|right|true|correct|it)|wrong|incorrect)|\byou (?:got|have|understood|heard|read) (?:that|it|me) wrong|\bi (?:didnt|never) (?:say|said) that\b|^(?:no,? )?wrong$|not what i meant"
        ),
    ),
    (
        Intent.WHY,
        re.compile(
            r"^(?:but |and |um |wait |ok )?(?:why|what for|how come|for what|y)\b(?: (?:do|does|are|would|is|did|should|should i|does it|do you|you|need|that|this|it|the|matter|ask|asking|know|want|tell|relevant|important|on earth|tho|though|though)){0,9}\??$|\bwhy (?:do|are|would|did) you (?:ask|asking|need|want|care)|what(?:s| has| does) (?:that|this|it|my \w+) (?:got )?(?:to do with|have to do|matter)|(?:is|how is) (?:that|this|it) relevant|why does (?:that|this|it|my \w+) matter|whats it to you"
        ),
    ),
    (
        Intent.JUST_ANSWER,
        re.compile(
            r"\b(?:just|please|can you|cant you|could you|would you)(?: \w+){0,3} (?:answer|tell me|give me (?:the|an) (?:answer|advice))\b(?! (?:about|how|what|if|why))|\b(?:stop|enough|no more|too many|quit|skip|cut)(?: \w+){0,3} questions?|^(?:answer|just answer)(?: me| it| now| the question| please)*$|get to the point|just (?:say|tell) it|stop asking(?! (?:me )?(?:that|this|about))"
        ),
    ),
    (
        Intent.DECLINE,
        re.compile(
            r"\b(?:rather not|prefer not|stop asking (?:me )?(?:that|this|about)|dont (?:want|wish|feel like|like|care)(?: to)? (?:to )?(?:say|answer|tell|share|talk about (?:it|that|this)|discuss|go into|saying|answering|sharing)|not comfortable|none of your|no comment|not (?:saying|telling|answering|going to (?:say|answer|tell|share))|wont (?:say|answer|tell|share)|id like to skip|too personal|thats private|thats personal|keep (?:that|it) (?:private|to myself)|not your business|no thanks|no thank you|cant (?:share|say) that)\b|^(?:skip|pass|next|nope next|private|decline|skip (?:it|this|that|this one)|next (?:question|one|please)|no answer|mind your (?:own )?business|n/a|na)\b[.! ]*(?:please)?$"
        ),
    ),
    (
        Intent.DONT_KNOW,
        re.compile(
            r"^(?:honestly |tbh |um |uh |hmm |well )*(?:i )?(?:really |honestly )?(?:dont(?! want| need| like| care| have| drink| smoke| feel| eat| sleep| trust)|do not(?! want| need| like| have| feel)|dunno|donno|idk|no idea|not sure|unsure|hard to say|cant (?:say|tell)|couldnt say|who knows|no clue|wish i knew|difficult to say)(?: \w+){0,3}(?: tbh| honestly| really| sorry| idk)*[.! ]*$"
        ),
    ),
    (
        Intent.THANKS,
        re.compile(
            r"^(?:ok(?:ay)?,? |great,? |oh,? |alright,? |wow,? |perfect,? )*(?:thanks?|thank you|ty|thx|tysm|cheers|much appreciated|appreciate (?:it|that|you|this)|that (?:helps|helped|was helpful)|very helpful|that makes sense)\b(?! (?:card|note|you card|you note|giving))(?:[^?]{0,60})$"
        ),
    ),
    (
        Intent.GOODBYE,
        re.compile(
            r"^(?:ok(?:ay)?,? |thanks?,? |alright,? |well,? )*(?:bye|goodbye|good ?night|see (?:you|ya)|cya|gtg|got to go|talk later|ttyl|thats all|im done here|have a good (?:one|day|night)|take care)\b(?: \w+){0,4}[.! ]*$"
        ),
    ),
    (
        Intent.RUDE,
        re.compile(
            r"^(?:oh |just |you |ur |u )*(?:fuck (?:off|you|this|u)|f off|piss off|shut up|go away|screw you|get lost|(?:you |ur )?(?:are )?(?:useless|stupid|an idiot|dumb|a joke)|stupid bot|useless bot|bullshit|this is (?:stupid|useless|bullshit))[.! ]*$"
        ),
    ),
    (
        Intent.GREETING,
        re.compile(
            r"^(?:hi+|hello+|hey+|hiya|good (?:morning|evening|afternoon|day)|yo|hola|greetings|howdy|sup|hallo|salut|bonjour|ciao|namaste|g ?day|morning|evening)\b(?: (?:there|again|all|everyone|bot|chat|raise|you|friend|mate|folks|to you)){0,3}[.! ?]*$"
        ),
    ),
    (
        Intent.SMALL_TALK,
        re.compile(
            r"^(?:how(?:s| is| are) (?:you|it going|things|your day|life)(?: \w+){0,3}|whats up|what(?:s| is) your name|who are you|tell me (?:a joke|something funny)|do you like \w+|nice weather(?: \w+){0,3}|how old are you|where are you from|whats your favou?rite \w+|can you hear me|are you there|anyone there|test(?:ing)?)[.! ?]*$"
        ),
    ),
)
_CORRECTION = re.compile(
    r"\b(?:actually|correction|i meant|i mean\b|sorry,? (?:i|its|im|not)|wait,? (?:no|i|im|actually|thats)|let me correct|that should be|no,? (?:im|i am|its|i)|not \d+|i misspoke|typo|i said|rather,? )\b"
)
_NOT_BUT = re.compile(r"\bnot (?:\w+ ){0,3}?(\w+)(?=[,.]|$| but)")
_QUESTION_MARKS = re.compile(
    r"\?|^(?:how|what|when|where|who|which|should|can|could|is it|do i|does|will|would|am i|are there|whats)\b|\b(?:any (?:advice|tips|ideas|thoughts)|what (?:do|should|can) i|how (?:do|can|should) i|should i|is it ok|do i)\b"
)
_NEW_TOPIC = re.compile(
    r"\b(?:different (?:thing|question|topic)|another (?:thing|question|topic)|something else|new question|on another note|unrelated|separate(?:ly)?|change of subject|also,? (?:i|my|should|how|what)|by the way|btw|forget (?:that|it|all that)|never ?mind (?:that|my)|other thing|anyway)\b"
)
_FOLLOW_UP = re.compile(
    r"^(?:and |but |so |ok |okay |what if|and if|how (?:do|would|should) i (?:start|do that|say|tell|begin)|can you (?:explain|say more|expand)|what (?:about|else)|which (?:one|first)|is there anything|tell me more|more (?:about|on)|why (?:not|that)|what does that|the (?:first|second|third|last))\b|\b(?:point|step|you said|you mentioned|that advice|your advice)\b"
)


def plain(text: str) -> str:
    """Lower case, apostrophes dropped, spaces folded: what the lexicon and the rules are written for."""
    lowered = text.lower().replace("’", "'").replace("'", "").replace("-", " ").replace("/", " ")
    return " ".join(re.sub(r"[\"“”()\[\]*_]", " ", lowered).split())


def age_band(years: int) -> str:
    """The tag for an age in years."""
    if years < 13:
        return "child"
    if years < 18:
        return "teen"
    if years <= 25:
        return "young_adult"
    return "adult" if years < 65 else "older"


@dataclass(frozen=True, slots=True)
class Read:
    """What a message holds, before the dialogue decides what to do with it."""

    intent: Intent
    facts: Mapping[Attribute, Answer]
    age_years: int | None
    intent_confidence: float


class Reader:
    """Reads answers, intents and volunteered facts. Holds only trained arrays; safe to share."""

    def __init__(self, encoder: Encoder, trained: Trained | None = None) -> None:
        trained = trained or classifiers.shipped()
        self._encoder = encoder
        self._lexicon = lexicon.shipped()
        self._intents: Linear = trained.linear("intent")
        self._tags: dict[Attribute, Linear] = {a: trained.linear(f"tags.{a.value}") for a in Attribute}

    def read(
        self,
        text: str,
        vector: Vectors,
        *,
        at: datetime,
        pending: Attribute | None,
        profile: Profile,
        question: Question | None = None,
        chosen: bool = False,
    ) -> Read:
        """Read one message.

        Args:
            text: what was said.
            vector: its unit vector.
            at: when.
            pending: the attribute whose question is open.
            profile: what is known, to tell a correction from a repetition.
            question: the open question, for its quick replies.
            chosen: the text is a quick reply that was tapped.
        """
        said = plain(text)
        if question is not None and pending is not None:
            picked = self._choice(said, question)
            if picked is not None:
                return Read(
                    Intent.ANSWER, {pending: picked_answer(picked, text, at)}, _years(said, pending), 1.0
                )
        if chosen and pending is not None:
            standing = _tapped_standing(said)
            if standing is not None:
                return Read(Intent.DECLINE, {pending: Answer(standing=standing, at=at)}, None, 1.0)
        intent, confidence = self._intent(said, vector, pending)
        facts = self._volunteered(said, at)
        age = _volunteered_age(said)
        is_correction = bool(_CORRECTION.search(said)) and any(profile.get(a) for a in facts)
        if pending is None:
            refusal = intent is Intent.DECLINE and len(said.split()) <= 9 and "?" not in said
            wonders = intent is Intent.WHY and len(said.split()) <= 7
            if intent in _ONLY_WITH_A_QUESTION and not refusal and not wonders:
                intent = Intent.OTHER
            if is_correction:
                intent = Intent.CORRECTION
            return Read(intent, facts, age, confidence)
        if intent is Intent.DECLINE:
            facts = {**facts, pending: Answer(standing=Standing.DECLINED, at=at)}
            return Read(intent, facts, age, confidence)
        if intent is Intent.DONT_KNOW:
            facts = {**facts, pending: Answer(standing=Standing.UNKNOWN, at=at)}
            return Read(intent, facts, age, confidence)
        if is_correction and pending not in facts and any(a is not pending for a in facts):
            return Read(Intent.CORRECTION, facts, age, confidence)
        if intent not in (
            Intent.ANSWER,
            Intent.OTHER,
            Intent.CORRECTION,
            Intent.QUESTION,
            Intent.SMALL_TALK,
            Intent.NONSENSE,
        ):
            return Read(intent, facts, age, confidence)
        bare = re.fullmatch(
            r"(?:im |i am )?(\d{2})(?: next \w+| soon| now| years old| yo)?", said.strip(" .!")
        )
        if bare and pending is not Attribute.AGE:
            told_years = int(bare[1])
            told = Answer(
                standing=Standing.KNOWN,
                at=at,
                text=bare[1],
                tags=frozenset({age_band(told_years)}),
                volunteered=True,
            )
            return Read(Intent.ANSWER, {**facts, Attribute.AGE: told}, told_years, confidence)
        answer, strength = self._answer(text, said, vector, pending, at)
        if answer is not None and not answer.tags and (facts or pending is Attribute.SELF_HARM_HISTORY):
            return Read(Intent.ANSWER if facts else Intent.NONSENSE, facts, age, confidence)
        asks = bool(_QUESTION_MARKS.search(said))
        mash = intent is Intent.NONSENSE and confidence >= 1.0
        if asks and not mash and strength < 0.9 and (len(said.split()) > 3 or "?" in said):
            return Read(Intent.QUESTION, facts, age, confidence)
        if answer is None or (intent is Intent.NONSENSE and strength < SURE):
            return Read(
                Intent.NONSENSE if intent is not Intent.SMALL_TALK else Intent.SMALL_TALK,
                facts,
                age,
                confidence,
            )
        for attribute, also in self._fragments(said, pending, at, profile).items():
            facts = {attribute: also, **facts}
        years = _years(said, pending) if pending is Attribute.AGE else age
        return Read(
            Intent.CORRECTION if is_correction else Intent.ANSWER,
            {**facts, pending: answer},
            years,
            confidence,
        )

    @staticmethod
    def skips(text: str) -> bool:
        """Whether it leaves out the open step of a safety plan."""
        return bool(_SKIPS.match(plain(text).strip(" .!")))

    @staticmethod
    def has_nobody(text: str) -> bool:
        """Whether it says that there is nobody, or nowhere, to turn to."""
        return bool(_NOBODY.search(plain(text)))

    @staticmethod
    def stops(text: str) -> bool:
        """Whether it ends a safety plan that is open."""
        return bool(_STOPS.match(plain(text).strip(" .!")))

    def _intent(self, said: str, vector: Vectors, pending: Attribute | None) -> tuple[Intent, float]:
        if _UNSAFE.search(said):
            return Intent.NOT_SAFE, 1.0
        intent, confidence = self._guessed(said, vector, pending)
        if intent is Intent.SAFE and _NOT_SAFE.search(said):
            return Intent.OTHER, confidence
        return intent, confidence

    def _guessed(self, said: str, vector: Vectors, pending: Attribute | None) -> tuple[Intent, float]:
        bare = said.strip(" .!")
        for intent, pattern in _RULES:
            if intent is Intent.SMALL_TALK and pending is not None:
                continue
            if pattern.search(bare if intent is not Intent.WHY else said.strip(" .!")):
                long = len(said.split()) > 25
                if long and intent not in (Intent.SAFE, Intent.NO_PICKUP, Intent.CANNOT_TALK):
                    continue
                return intent, 1.0
        if not re.search(r"[a-z]{2}", said) and not re.search(r"\d", said):
            return Intent.NONSENSE, 1.0
        label, confidence = self._intents.best(vector)
        words = len(said.split())
        believed = _BELIEVED_PENDING if pending is not None else _BELIEVED
        if words > (14 if pending is None else 25):
            return Intent.OTHER, confidence
        if label in believed and confidence >= believed[label]:
            if label == Intent.CANNOT_TALK and not _OF_ONESELF.search(said):
                return Intent.OTHER, confidence
            return Intent(label), confidence
        return Intent.OTHER, confidence

    @staticmethod
    def _choice(said: str, question: Question) -> Any:
        bare = said.strip(" .!")
        return next((choice for choice in question.choices if plain(choice.label).strip(" .!") == bare), None)

    def _answer(
        self, text: str, said: str, vector: Vectors, pending: Attribute, at: datetime
    ) -> tuple[Answer | None, float]:
        """The answer to the open question and how plainly it was one, 0 to 1; None where nothing could be read."""
        note = " ".join(text.split())[:_LONGEST_NOTE]
        if pending is Attribute.AGE:
            years = _years(said, pending)
            tags = {age_band(years)} if years is not None else _age_words(said)
            if tags:
                return Answer(standing=Standing.KNOWN, at=at, text=note, tags=frozenset(tags)), 1.0
        heard = _without_denied(said)
        tags = {
            tag for tag, pattern in self._lexicon.answers.get(pending, {}).items() if pattern.search(heard)
        }
        plainly = bool(tags)
        probabilities = self._tags[pending].probabilities(vector)
        words = self._lexicon.answers.get(pending, {})
        for label, p in zip(self._tags[pending].labels, probabilities, strict=True):
            denied = label in words and words[label].search(said) and not words[label].search(heard)
            if p >= (0.5 if not plainly else 0.7) and not denied:
                tags.add(label)
        strongest = float(probabilities.max()) if len(probabilities) else 0.0
        tags = _settle(pending, tags, said)
        if tags:
            return Answer(
                standing=Standing.KNOWN, at=at, text=note, tags=frozenset(tags)
            ), 1.0 if plainly else strongest
        if pending is not Attribute.AGE and self._readable(said):
            return Answer(standing=Standing.KNOWN, at=at, text=note, tags=frozenset()), 0.4
        return None, 0.0

    def _readable(self, said: str) -> bool:
        """Whether it is made of words: a keyboard mash falls into many pieces a word."""
        words = re.findall(r"[a-z]{2,}", said)
        if not words:
            return False
        if len(set(words)) == 1 and len(words) > 2:
            return False
        return self._encoder.pieces(" ".join(words[:40])) / min(len(words), 40) <= MOST_PIECES

    def _volunteered(self, said: str, at: datetime) -> dict[Attribute, Answer]:
        facts: dict[Attribute, Answer] = {}
        said = _spelt_out(said)
        heard = _without_denied(said)
        for attribute, patterns in self._lexicon.volunteered.items():
            found: dict[str, str] = {}
            for tag, pattern in patterns.items():
                match = pattern.search(heard)
                if match:
                    said_plainly = match.groupdict()
                    found[tag] = said_plainly.get("fact") or said_plainly.get("own") or ""
            tags = _settle(attribute, set(found) - _NOT_VOLUNTEERED.get(attribute, frozenset()), heard)
            if tags:
                words = max((found[t] for t in tags if t in found), key=len, default="")
                facts[attribute] = Answer(
                    standing=Standing.KNOWN,
                    at=at,
                    text=words[:_LONGEST_NOTE],
                    tags=frozenset(tags),
                    volunteered=True,
                )
        years = _volunteered_age(said)
        tags = {age_band(years)} if years is not None else _age_words(said)
        if tags:
            text = f"{years}" if years is not None else ""
            facts[Attribute.AGE] = Answer(
                standing=Standing.KNOWN, at=at, text=text, tags=frozenset(tags), volunteered=True
            )
        return facts

    def _fragments(
        self, said: str, pending: Attribute, at: datetime, profile: Profile
    ) -> dict[Attribute, Answer]:
        """Several facts at once: "34, nurse, divorced" answers more than was asked."""
        facts: dict[Attribute, Answer] = {}
        clauses = [c.strip() for c in re.split(r"[,;.]|\band\b", said) if c.strip()]
        if len(clauses) < 2:
            return facts
        for clause in clauses:
            if len(clause.split()) > 5:
                continue
            heard = _without_denied(clause)
            if any(p.search(heard) for p in self._lexicon.answers.get(pending, {}).values()):
                continue
            for attribute in (
                Attribute.MARITAL_STATUS,
                Attribute.PROFESSION,
                Attribute.ECONOMIC_STATUS,
                Attribute.HEALTH,
            ):
                if attribute is pending or profile.get(attribute) is not None:
                    continue
                tags = {t for t, p in self._lexicon.answers[attribute].items() if p.search(heard)}
                tags -= {"good", "stable", "employed", "man", "woman"} | _NOT_VOLUNTEERED.get(
                    attribute, frozenset()
                )
                if tags:
                    before = facts.get(attribute)
                    facts[attribute] = Answer(
                        standing=Standing.KNOWN,
                        at=at,
                        text=clause,
                        tags=frozenset(tags) | (before.tags if before else frozenset()),
                        volunteered=True,
                    )
            if pending is not Attribute.AGE and re.fullmatch(
                r"(?:im )?\d{2}(?: ?(?:yo|years old|m|f))?", clause
            ):
                years = int(re.sub(r"\D", "", clause))
                facts[Attribute.AGE] = Answer(
                    standing=Standing.KNOWN,
                    at=at,
                    text=str(years),
                    tags=frozenset({age_band(years)}),
                    volunteered=True,
                )
        return facts


_BELIEVED = {
    "decline": 0.6, "dont_know": 0.6, "why": 0.6, "just_answer": 0.6, "greeting": 0.6, "thanks": 0.65, "goodbye": 0.7,
    "human": 0.6, "therapist": 0.6, "can_you_call": 0.65, "about": 0.6, "help": 0.7, "small_talk": 0.6, "joke": 0.6,
    "safe": 0.7, "no_pickup": 0.75, "cannot_talk": 0.8, "wont_call": 0.75, "my_profile": 0.6, "dispute": 0.6,
    "nonsense": 0.6, "answer": 0.5, "question": 0.5, "correction": 0.6,
}  # fmt: skip
"""How sure the intent classifier must be, by intent."""

_BELIEVED_PENDING = {
    "decline": 0.75, "dont_know": 0.6, "why": 0.6, "just_answer": 0.6, "nonsense": 0.75, "answer": 0.5, "question": 0.5,
    "correction": 0.7, "dispute": 0.75, "my_profile": 0.75, "about": 0.8, "human": 0.8,
}  # fmt: skip
"""The same while a question is open: one word such as "grateful" is an answer then, not thanks."""

_NOT_VOLUNTEERED: Mapping[Attribute, frozenset[str]] = {
    Attribute.HEALTH: frozenset({"good", "pain", "medication", "chronic", "substance_use"}),
    Attribute.MENTAL_STATE: frozenset({"well", "low", "stressed", "untreated"}),
    Attribute.EMOTION: frozenset({"calm", "happy", "numb", "confused", "guilty"}),
    Attribute.SELF_HARM_HISTORY: frozenset({"none", "current_thoughts", "plan"}),
    Attribute.ECONOMIC_STATUS: frozenset({"stable", "comfortable"}),
    Attribute.EDUCATION: frozenset({"school", "college", "university", "postgraduate"}),
    Attribute.GENDER: frozenset({"woman", "man"}),
    Attribute.PROFESSION: frozenset({"employed", "manager", "safety_critical"}),
}
"""Bands too weak to take from a passing remark: a remark that one is fine is not an answer to the question."""


_ONLY_WITH_A_QUESTION = frozenset({Intent.DECLINE, Intent.DONT_KNOW, Intent.WHY, Intent.ANSWER})
"""What these mean depends on an open question; without one the message is read as what it tells."""


def picked_answer(choice: Any, text: str, at: datetime) -> Answer:
    """The answer a quick reply stands for."""
    return Answer(standing=Standing.KNOWN, at=at, text=text.strip()[:_LONGEST_NOTE], tags=choice.tags)


def _tapped_standing(said: str) -> Standing | None:
    return {"prefer not to say": Standing.DECLINED, "i dont know": Standing.UNKNOWN}.get(said.strip(" .!"))


_MEASURES = re.compile(
    r"\b\d+(?:\.\d+)? ?(?:ft|foot|feet|\'|st|stone|lbs?|pounds?|kg|kilos?|cm|metres?|meters?|m|mg|ml|units?|pints?|am|pm|%|k)\b(?: ?\d+)?(?: and a half)?(?: stone)?|\b\d+ and a half stone|\b\d+ ?ft ?\d+"
)
"""Heights, weights, doses and times are no ages."""


def _years(said: str, pending: Attribute | None) -> int | None:
    volunteered = _volunteered_age(said)
    if volunteered is not None or pending is not Attribute.AGE:
        return volunteered
    found = [
        int(n)
        for n in _AGE_ANSWER.findall(_digits(_without_denied(_MEASURES.sub(" ", said))))
        if 5 <= int(n) <= 115
    ]
    return found[0] if found else None


def _volunteered_age(said: str) -> int | None:
    match = _AGE.search(_digits(_without_denied(_spelt_out(said))))
    if not match:
        return None
    years = int(next(group for group in match.groups() if group))
    return years if 5 <= years <= 115 else None


def _digits(said: str) -> str:
    """Numbers in words as digits: "forty-two" is 42."""

    def number(match: re.Match[str]) -> str:
        return str(_NUMBER_WORDS[match[1]] + (_NUMBER_WORDS[match[2]] if match[2] else 0))

    return _WRITTEN.sub(number, said)


def _age_words(said: str) -> set[str]:
    return {tag for tag, pattern in _AGE_WORDS.items() if pattern.search(said)}


def _without_denied(said: str) -> str:
    """The message without what it denies: "not 43", "no diabetes", "isn't married"."""
    said = re.sub(
        r"\bnot (?:only|just|sure|much|great|good|well|safe|sleep\w*|eat\w*|enough|working|married|licen[cs]ed|allowed|slept|eaten|comfortable|recognised)\b",
        lambda m: m[0].replace("not ", "not_"),
        said,
    )
    said = re.sub(
        r"\b(?:not|isnt|im not|am not|arent|wasnt|never been|no longer|without any|without)\b(?: (?:an?|the|really|diagnosed|with|been|my|any|in|to))* (?:\w+)",
        " ",
        said,
    )
    said = re.sub(
        r"\bno (?!savings|job|one|work|idea|help|treatment|therapy|wish|point|way|sleep|money|income|account|partner|formal|qualifications|and\b|but\b|never|history|problems?|issues?|conditions?|worries|health|self|attempts?|hope|thoughts?|complaints?)(?:\w+)",
        " ",
        said,
    )
    return said.replace("not_", "not ")


_OPENS_WITH_I = re.compile(r"^(?:hi|hello|hey|so|well|ok|basically|also)?,? ?(?:im|i am|as an?)\b")
_OWN_SUBJECT = re.compile(
    r"^(?:\w+ )?(?:i|im|ive|my|he|she|they|we|you|it|the|this|that|there|what|how|should|do|does|can|is|are|will|would|who|when|where|why|but|because|so|if)\b"
)


def _spelt_out(said: str) -> str:
    """Give each of several facts behind one "i'm" its own: "i'm a divorced woman, a bus driver with asthma"."""
    sentences = []
    for sentence in re.split(r"(?<=[.!?])\s+", said):
        if not _OPENS_WITH_I.match(sentence):
            sentences.append(sentence)
            continue
        first, *rest = re.split(
            r",| and (?=\d|an? |pregnant|disabled|single|divorced|retired|unemployed|broke|in debt|on )| with ",
            sentence,
        )
        clauses = [
            first,
            *(
                c
                if _OWN_SUBJECT.match(c.strip().removeprefix("and "))
                else "im " + c.strip().removeprefix("and ")
                for c in rest
            ),
        ]
        sentences.append(" , ".join(clauses))
    return " ".join(sentences)


_SAYS_NONE = re.compile(
    r"\b(?:none|no(?! ?(?:one|body|more|longer|idea|way|point|hope|reason)\b)|never|nope|nah|not (?:at all|ever|me|that i|really|once|in|since|for|now|any)|nothing|havent|have not|hasnt|didnt|dont|doesnt|isnt|wasnt|wouldnt|not been|zero|n/?a|clean|long past|fine)\b"
)
"""A history of self-harm is only taken as none where the words say so: loneliness is no denial."""


def _settle(attribute: Attribute, tags: set[str], said: str) -> set[str]:
    """Of tags that exclude each other, the weightier ones."""
    if attribute is Attribute.HEALTH and len(tags) > 1:
        tags.discard("good")
    elif attribute is Attribute.MENTAL_STATE and len(tags - {"in_treatment"}) > 1:
        tags.discard("well")
    elif attribute is Attribute.SELF_HARM_HISTORY:
        if "none" in tags and not _SAYS_NONE.search(said):
            tags.discard("none")
        denied = tags and re.match(
            r"^(?:\w+ ){0,2}?(?:none|no(?! ?one\b)|never|nope|nothing|not at all)\b", said
        )
        if denied and not re.search(
            r"\b(?:but|though|until|except|although)\b|\bthinks?\b|\bthoughts? (?:of|now)|plan forming|admitted",
            said,
        ):
            return {"none"}
        if len(tags) > 1:
            tags.discard("none")
        if "plan" in tags and re.search(r"\b(?:no|without a?|never had a) plans?\b", said):
            tags.discard("plan")
    elif attribute is Attribute.EMOTION and len(tags) > 1:
        tags.discard("calm")
    elif attribute is Attribute.ECONOMIC_STATUS and tags & {
        "no_savings",
        "debt",
        "low_income",
        "hidden_debt",
    }:
        tags -= {"stable", "comfortable"}
    elif attribute is Attribute.MARITAL_STATUS:
        if tags & {"separated", "divorced", "widowed"}:
            tags -= {"married", "single"}
        if tags & {"dating", "married", "cohabiting"}:
            tags.discard("single")
    return tags


def looks_like_question(text: str) -> bool:
    """Whether the message asks something."""
    return bool(_QUESTION_MARKS.search(plain(text)))


def opens_new_topic(text: str) -> bool:
    """Whether the message says that it changes the subject."""
    return bool(_NEW_TOPIC.search(plain(text)))


def follows_up(text: str) -> bool:
    """Whether the message leans on the answer before it."""
    return bool(_FOLLOW_UP.search(plain(text)))
