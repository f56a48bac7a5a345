"""The kinds of value a setting has, and the tables of the configuration but for the outermost.

`neuralstream.config` joins them, reads them and says what was wrong with them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    field_validator,
    model_validator,
)

from neuralstream.ranking import (
    AssistantRankingSettings,
    ExchangeRankingSettings,
    Kind,
    RankingSettings,
    TunedSettings,
)
from neuralstream.types import Lane, Mode

__all__ = [
    "BufferSettings",
    "Duration",
    "EmbedSettings",
    "ExtractSettings",
    "Folder",
    "LlmSettings",
    "RetrievalSettings",
    "ServeSettings",
    "Table",
    "address",
    "check_tokens",
    "seconds",
]

SHORTEST_TOKEN = 16
"""Characters of a bearer token: fewer could be guessed."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", value)
    if match is None:
        raise ValueError("write a duration as 15m, 900s, 1h, 30d or seconds")
    try:
        return timedelta(seconds=float(match[1]) * _UNITS[match[2] or "s"])
    except OverflowError:
        raise ValueError("a duration is shorter than 2,700 million years") from None


def address(*schemes: str) -> Callable[[SecretStr | None], SecretStr | None]:
    """A check that an address begins as one of these; the address itself, which may hold a password, is not shown."""

    def check(value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(schemes):
            raise ValueError(f"an address begins with {' or '.join(schemes)}")
        return value

    return check


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        raise ValueError("a duration is longer than 0 seconds")
    return value


def seconds(value: timedelta | None) -> str | None:
    """A duration as it is written in a file."""
    return None if value is None else f"{value.total_seconds():.15g}s"


Duration = Annotated[timedelta, BeforeValidator(_duration), AfterValidator(_positive), PlainSerializer(seconds)]

Folder = Annotated[Path, AfterValidator(Path.expanduser)]


class Table(BaseModel):
    """Settings that belong together: they do not change, and a name that is none of them is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class RetrievalSettings(Table):
    """How memory is searched."""

    mode: Mode = Field("hybrid", description="ranking used where a call names none")
    lane: Lane = Field("all", description="what is searched where a call names none: turns, gems or all")
    k: int = Field(5, ge=1, le=1000, description="hits returned where a call names no number")
    candidates: int = Field(200, ge=10, le=10_000, description="hits each signal contributes to hybrid's candidates")
    shortlist: int = Field(100, ge=10, le=10_000, description="candidates that all features are computed for")
    exact_below: int = Field(10_000, ge=0, description="points per user under which dense search is exact")
    kind: Literal["auto", "people", "assistant", "exchange"] = Field(
        "auto",
        description="kind of conversation: people talking, or a user and an assistant whose turns are messages "
        "or exchanges; auto tells from the turns",
    )
    people: RankingSettings = Field(default_factory=RankingSettings)
    assistant: AssistantRankingSettings = Field(default_factory=AssistantRankingSettings)
    exchange: ExchangeRankingSettings = Field(default_factory=ExchangeRankingSettings)
    reranker: Folder | None = Field(
        None, description="folder of a sentence-transformers cross-encoder that orders hybrid's best anew; unset: off"
    )
    rerank_depth: int = Field(50, ge=1, le=1000, description="hits the reranker reads")
    tuned: TunedSettings | None = Field(
        None, description="where the weights come from; written by `neuralstream tune`, refused by another embedder"
    )
    graph_restart: float = Field(
        0.3, gt=0, lt=1, description="restart probability of the graph's personalised PageRank"
    )

    def ranking(self, kind: Kind) -> RankingSettings:
        """How a kind of conversation is ranked."""
        return {"people": self.people, "assistant": self.assistant, "exchange": self.exchange}[kind]


class ExtractSettings(Table):
    """How turns become gems."""

    extractor: Literal["auto", "extractive", "llm"] = Field(
        "auto",
        description="what distils turns into gems: rules, or gem_model; auto: the model where ollama_url or openai_url "
        "is set, or recorded answers are replayed",
    )
    prompt: str = Field("curator", min_length=1, description="prompt that gem_model distils with, by its name")
    prompts: Folder | None = Field(
        None, description="folder with prompts of your own; they win over shipped ones of the same name"
    )
    history_turns: int = Field(20, ge=0, le=1000, description="earlier turns an extractor sees, for understanding")
    max_gems_per_turn: float = Field(0.8, gt=0, le=5, description="extractive: most gems per turn of a batch")
    duplicate_similarity: float = Field(
        0.9, ge=0.5, le=1, description="cosine from which two gems may say the same and be merged"
    )
    duplicate_overlap: float = Field(
        1.0, ge=0.5, le=1, description="share of the shorter gem's words that the longer one has, if they say the same"
    )
    update_similarity: float = Field(
        0.5, ge=0, le=1, description="cosine from which a newer gem may replace one that says otherwise"
    )
    update_overlap: float = Field(
        0.2, ge=0, le=1, description="share of the older gem's words that the newer one has, if it replaces it"
    )
    judge: bool = Field(
        False, description="ask gem_model whether gems that are near say the same, where rules cannot tell"
    )


class EmbedSettings(Table):
    """How texts become vectors."""

    batch_size: int = Field(32, ge=1, le=1024, description="texts per encoder call")
    chunk_tokens: int = Field(
        0, ge=0, description="longest chunk, in the model's tokens; 0: its limit, with Ollama 512"
    )
    chunk_overlap: int = Field(32, ge=0, le=512, description="tokens that neighbouring chunks share")
    query_prefix: str | None = Field(None, description="put before queries; unset: what the model's card asks for")
    num_ctx: int = Field(8192, ge=256, description="context the Ollama server loads the embedder with, tokens")
    timeout: Duration = Field(timedelta(seconds=60), description="longest wait for one embedding call")
    cache: bool = Field(True, description="keep vectors on disk by model and text hash")


class LlmSettings(Table):
    """The language model, where one is configured."""

    num_ctx: int = Field(8192, ge=2048, description="tokens of the model's context, prompt and answer together")
    max_tokens: int = Field(1536, ge=64, description="longest answer when gems are distilled, tokens")
    temperature: float = Field(0, ge=0, le=2, description="0: the likeliest answer")
    seed: int = Field(0, ge=0, description="of the model's choices")
    timeout: Duration = Field(timedelta(minutes=5), description="longest wait for one answer of `gem_model`")
    tries: int = Field(3, ge=1, le=10, description="calls before a transport fault counts as the server being down")
    keep_alive: Duration = Field(timedelta(minutes=30), description="how long Ollama keeps the model loaded")
    mode: Literal["live", "record", "replay"] = Field(
        "live", description="ask the model; ask and record what the cassette lacks; or replay the cassette alone"
    )
    cassette: Folder | None = Field(None, description="file of recorded answers, for llm.mode record and replay")

    @model_validator(mode="after")
    def _recorded_answers_have_a_file(self) -> Self:
        if self.mode != "live" and self.cassette is None:
            raise ValueError(f"mode = {self.mode!r} needs cassette, the file of recorded answers")
        return self


class BufferSettings(Table):
    """The Redis buffer."""

    prefix: str = Field("ns", pattern=r"^[A-Za-z0-9_.-]+$", description="first part of every key")
    timeout: Duration = Field(timedelta(seconds=5), description="longest wait for one Redis command")
    lease: Duration = Field(
        timedelta(seconds=60), description="how long a worker owns a batch before others may take it"
    )
    max_attempts: int = Field(3, ge=1, le=100, description="tries before a batch goes to the dead letters")
    fsync: Literal["always", "everysec"] = Field("everysec", description="embedded Valkey's append-only-file policy")


class ServeSettings(Table):
    """The HTTP service, `neuralstream serve`."""

    host: str = Field(
        "127.0.0.1", min_length=1, description="address to listen on; beyond this machine it needs tokens"
    )
    port: int = Field(7711, ge=0, le=65_535, description="port to listen on; 0: any that is free")
    tokens: dict[str, SecretStr] = Field(
        default_factory=dict, description="each user's bearer token; none at all: no token is asked for"
    )
    token_file: Folder | None = Field(
        None, description='TOML file of more tokens, a line user = "token" each; a user may have one here and one there'
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), description="further names in the Host header that are answered where no token is asked for"
    )
    timeout: Duration = Field(timedelta(seconds=30), description="longest wait for one answer")
    max_request_mb: float = Field(8, gt=0, le=1024, description="largest request")
    threads: int = Field(16, ge=1, le=256, description="questions answered at the same time; captures have their own")

    @field_validator("tokens")
    @classmethod
    def _tokens_cannot_be_guessed(cls, tokens: dict[str, SecretStr]) -> dict[str, SecretStr]:
        check_tokens([(user, token.get_secret_value()) for user, token in tokens.items()])
        return tokens


def check_tokens(tokens: Sequence[tuple[str, str]]) -> None:
    """Refuse tokens that could be guessed, cannot be sent, or stand for more than one user.

    Raises:
        ValueError: the message names the user, not the token.
    """
    owner: dict[str, str] = {}
    for user, token in tokens:
        if len(token) < SHORTEST_TOKEN or not re.fullmatch(r"[!-~]+", token):
            raise ValueError(
                f"the token of {user!r} is not {SHORTEST_TOKEN} or more printable ASCII characters without spaces; "
                "`openssl rand -hex 32` makes one"
            )
        if owner.setdefault(token, user) != user:
            raise ValueError(f"{owner[token]!r} and {user!r} have the same token; give each their own")
