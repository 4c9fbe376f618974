"""The endpoint against a real llama.cpp server on loopback: a small model made here, or RAISE_TEST_GGUF."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from pydantic import BaseModel

from bot.models import openai_api
from bot.models.openai_api import Endpoint, Failure, ModelFailure
from bot.models.remote import AssessAnswer, ReadAnswer, RiskAnswer, WordAnswer, messages_for
from bot.models.usage import Budget, Role

xllamacpp: Any = pytest.importorskip("xllamacpp", reason="xllamacpp, a llama.cpp server, is not installed")
gguf: Any = pytest.importorskip("gguf", reason="gguf, which writes the model, is not installed")

GIVEN = os.environ.get("RAISE_TEST_GGUF", "")
"""Read here: the fixtures of each test clear the environment."""
KEY = "a-key"
SECONDS = 120.0 if GIVEN else 20.0
SAYS = (
    "That is a lot to carry at once. Tell one person whom you trust about it today, "
    "and sleep before deciding anything big."
)
"""What the small model says, a word a token, so no word comes twice."""
ENDLESS = "Count to a million, one number a line. Do not stop: this list is endless."
WIDTH, HEADS, LAYERS, HIDDEN, CONTEXT = 64, 4, 2, 96, 16_384
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}"
    "{% if 'endless' in messages[-1]['content'] %}<|loop|>{% else %}<|say|>{% endif %}{% endif %}"
)


def _write_gguf(path: Path, *, seed: int = 7) -> None:
    """A llama whose next token follows from the last: the words of SAYS, or `a` for ever after <|loop|>.

    Its layers are random and faint. What ends a string, a number or a list is likelier than other letters,
    and white space is unlikely, so that JSON under a grammar comes to an end.
    """
    kinds = gguf.TokenType
    words = [("\u2581" if i else "") + word for i, word in enumerate(SAYS.split())]
    vocabulary: dict[str, int] = {"<unk>": kinds.UNKNOWN}
    vocabulary |= dict.fromkeys(("<s>", "</s>", "<|say|>", "<|loop|>"), kinds.CONTROL)
    vocabulary |= {f"<0x{byte:02X}>": kinds.BYTE for byte in range(256)}
    vocabulary |= {"\u2581" if letter == " " else letter: kinds.NORMAL for letter in map(chr, range(32, 127))}
    vocabulary |= dict.fromkeys(words, kinds.NORMAL)
    at = {token: i for i, token in enumerate(vocabulary)}

    rng = np.random.default_rng(seed)
    said = rng.standard_normal((len(at), WIDTH)).astype(np.float32)
    said[:, 0] = 4.0  # the same for every token: what `next_` has here makes a token likelier after any
    next_ = (0.01 * rng.standard_normal((len(at), WIDTH))).astype(np.float32)
    for before, after in [*itertools.pairwise(["<|say|>", *words, "</s>"]), ("<|loop|>", "a"), ("a", "a")]:
        next_[at[after], 1:] += said[at[before], 1:]
    for token, by in {'"': 8, "}": 8, "]": 8, ",": 7, "1": 1}.items():
        next_[at[token], 0] += by
    next_[[at[token] for token in ("\u2581", "<0x20>", "<0x09>", "<0x0A>", "<0x0D>")], 0] -= 8

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(list(at))
    writer.add_token_scores([0.0] * len(at))
    writer.add_token_types([int(kind) for kind in vocabulary.values()])
    writer.add_bos_token_id(at["<s>"])
    writer.add_eos_token_id(at["</s>"])
    writer.add_unk_token_id(at["<unk>"])
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)
    tensors = {"token_embd": said, "output": next_, "output_norm": np.ones(WIDTH, np.float32)}
    shapes = dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
    shapes |= {"ffn_gate": (HIDDEN, WIDTH), "ffn_up": (HIDDEN, WIDTH), "ffn_down": (WIDTH, HIDDEN)}
    for layer in range(LAYERS):
        tensors |= {f"blk.{layer}.{name}": np.ones(WIDTH, np.float32) for name in ("attn_norm", "ffn_norm")}
        for name, shape in shapes.items():
            tensors[f"blk.{layer}.{name}"] = (0.02 * rng.standard_normal(shape)).astype(np.float32)
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class LlamaServer:
    """On a free port of 127.0.0.1, with one slot: an answer that goes on holds up the next."""

    def __init__(self, model: Path) -> None:
        params = xllamacpp.CommonParams()
        params.model.path = str(model)
        params.model_alias = {"tested"}
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [KEY]
        params.n_ctx, params.n_parallel = CONTEXT, 1
        params.embedding, params.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.offline, params.ui, params.endpoint_metrics = True, False, True
        params.verbosity = 0
        if not GIVEN:
            params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        self._server: Any = xllamacpp.Server(params)
        self.busy()  # answered by its loop: a server closed before its loop has begun hangs for ever
        self.url = f"{self._server.listening_address}/v1"

    def metric(self, name: str) -> float:
        found = re.search(rf"^llamacpp:{name} (\S+)$", self._server.handle_metrics(), re.MULTILINE)
        assert found, "no such metric"
        return float(found[1])

    def busy(self) -> bool:
        return self.metric("requests_processing") > 0

    async def becomes(self, *, busy: bool) -> None:
        async with asyncio.timeout(SECONDS):
            while self.busy() is not busy:
                await asyncio.sleep(0.005)

    def close(self) -> None:
        self._server = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    model = Path(GIVEN) if GIVEN else tmp_path_factory.mktemp("model") / "tiny.gguf"
    if not GIVEN:
        _write_gguf(model)
    made = LlamaServer(model)
    yield made
    made.close()


@pytest.fixture
async def endpoint(server: LlamaServer) -> AsyncIterator[Endpoint]:
    made = Endpoint(base_url=server.url, api_key=KEY, models=dict.fromkeys(Role, "tested"))
    yield made
    await made.close()


@pytest.fixture
async def client(server: LlamaServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=server.url, api_key=KEY, max_retries=0) as made:
        yield made


def _risk(text: str = "I miss her so much. 😞") -> list[dict[str, str]]:
    return messages_for("risk", {"message": text})


def _speak(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": "Answer in one sentence."}, {"role": "user", "content": text}]


async def _is_usable(server: LlamaServer, endpoint: Endpoint) -> None:
    """The slot comes free before its context is full, as nobody listens, and the next answer is whole."""
    await server.becomes(busy=False)
    assert server.metric("n_tokens_max") < CONTEXT - 1
    await endpoint.structured(Role.RISK, _risk(), RiskAnswer, Budget(seconds=SECONDS, is_ours=True))


async def test_models_are_listed(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["tested"]


@pytest.mark.parametrize(
    ("role", "name", "shape"),
    [
        (Role.RISK, "risk", RiskAnswer),
        (Role.ASSESS, "assess", AssessAnswer),
        (Role.INTERVIEW, "read", ReadAnswer),
        (Role.INTERVIEW, "word", WordAnswer),
    ],
)
async def test_an_answer_has_its_shape(
    endpoint: Endpoint, role: Role, name: str, shape: type[BaseModel]
) -> None:
    asked = messages_for(name, {"message": 'He said "no" {and} left. é 😞'})
    answer = await endpoint.structured(role, asked, shape, Budget(seconds=SECONDS, is_ours=True))
    assert isinstance(answer, shape)
    usage = endpoint.usage[role]
    assert (usage.calls, usage.failures, endpoint.degraded(role)) == (1, 0, False)
    assert usage.prompt_tokens > 0 < usage.completion_tokens


async def test_words_come_in_pieces_with_their_usage_at_the_end(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="tested",
        messages=[{"role": "user", "content": "Say something."}],
        temperature=0,
        max_tokens=200,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    pieces = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.delta.content]
    assert len(pieces) > 3
    assert GIVEN or "".join(pieces) == SAYS
    assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.prompt_tokens > 0
    assert usage.completion_tokens >= len(pieces)


async def test_words_are_read_whole(endpoint: Endpoint) -> None:
    said = await endpoint.spoken(
        Role.ANSWER, _speak("I cannot sleep."), Budget(seconds=SECONDS, is_ours=True)
    )
    assert said == SAYS or (GIVEN and said)
    assert endpoint.usage[Role.ANSWER].completion_tokens > 3


async def test_words_are_passed_on_as_they_come(endpoint: Endpoint) -> None:
    stream = endpoint.streamed(Role.ANSWER, _speak("I cannot sleep."), Budget(seconds=SECONDS, is_ours=True))
    pieces = [piece async for piece in stream]
    assert len(pieces) > 3
    assert GIVEN or "".join(pieces) == SAYS
    assert endpoint.usage[Role.ANSWER].completion_tokens >= len(pieces)


async def test_texts_become_vectors(endpoint: Endpoint) -> None:
    texts = ["I cannot sleep.", "My job ended.", "I cannot sleep."]
    first, second, third = await endpoint.embedded(texts, Budget(seconds=SECONDS, is_ours=True))
    assert len(first) == WIDTH or GIVEN
    assert np.dot(first, third) > 0.999 > np.dot(first, second)
    assert endpoint.usage[Role.EMBED].prompt_tokens > 3


async def test_a_cancelled_call_leaves_the_server_usable(server: LlamaServer, endpoint: Endpoint) -> None:
    call = asyncio.create_task(
        endpoint.spoken(Role.ANSWER, _speak(ENDLESS), Budget(seconds=SECONDS, is_ours=True))
    )
    await server.becomes(busy=True)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _is_usable(server, endpoint)


async def test_a_spent_budget_leaves_the_server_usable(server: LlamaServer, endpoint: Endpoint) -> None:
    with pytest.raises(ModelFailure) as failed:
        await endpoint.spoken(Role.ANSWER, _speak(ENDLESS), Budget(seconds=0.3, is_ours=True))
    assert failed.value.kind is Failure.TIMEOUT
    await _is_usable(server, endpoint)


async def test_a_stream_that_is_left_leaves_the_server_usable(
    server: LlamaServer, endpoint: Endpoint
) -> None:
    stream = endpoint.streamed(Role.ANSWER, _speak(ENDLESS), Budget(seconds=SECONDS, is_ours=True))
    async with contextlib.aclosing(stream):
        async for _ in stream:
            break
        assert server.busy()
    await _is_usable(server, endpoint)


async def test_a_closed_connection_leaves_the_server_usable(
    server: LlamaServer, endpoint: Endpoint, client: openai.AsyncOpenAI
) -> None:
    stream = await client.chat.completions.create(
        model="tested", messages=[{"role": "user", "content": ENDLESS}], stream=True
    )
    async for _ in stream:
        break
    assert server.busy()
    await stream.close()
    await _is_usable(server, endpoint)


async def test_an_endless_answer_is_cut_off(
    server: LlamaServer, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "LONGEST_ANSWER", 100)
    with pytest.raises(ModelFailure) as failed:
        await endpoint.spoken(Role.ANSWER, _speak(ENDLESS), Budget(seconds=SECONDS, is_ours=True))
    assert failed.value.kind is Failure.ENDLESS
    await _is_usable(server, endpoint)


async def test_calls_wait_for_each_other(endpoint: Endpoint) -> None:
    async with asyncio.TaskGroup() as calls:
        spoken = calls.create_task(
            endpoint.spoken(Role.ANSWER, _speak("I cannot sleep."), Budget(seconds=SECONDS, is_ours=True))
        )
        levels = [
            calls.create_task(
                endpoint.structured(Role.RISK, _risk(), RiskAnswer, Budget(seconds=SECONDS, is_ours=True))
            )
            for _ in range(4)
        ]
    assert spoken.result()
    assert len({level.result().level for level in levels}) == 1


async def test_a_wrong_key_is_told_as_such(server: LlamaServer) -> None:
    stranger = Endpoint(base_url=server.url, api_key="another", models=dict.fromkeys(Role, "tested"))
    with pytest.raises(ModelFailure) as failed:
        await stranger.structured(Role.RISK, _risk(), RiskAnswer, Budget(seconds=SECONDS, is_ours=True))
    await stranger.close()
    assert failed.value.kind is Failure.AUTH


async def test_a_question_beyond_the_context_is_rejected(server: LlamaServer, endpoint: Endpoint) -> None:
    with pytest.raises(ModelFailure) as failed:
        await endpoint.spoken(Role.ANSWER, _speak("long, " * CONTEXT), Budget(seconds=SECONDS, is_ours=True))
    assert failed.value.kind is Failure.REJECTED
    await _is_usable(server, endpoint)
