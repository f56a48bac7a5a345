"""How fast and how exactly texts become vectors by other ways of running one model: `python -m benchmarks.encoding`.

Every way gets the same texts, in turns, several rounds. Counted is the processor's time, all threads together, so that
what else the machine does matters little; the ratio is the median over rounds of what the shipped way takes to what a
way takes. Ways whose package is missing are named and left out: `pip install openvino onnx onnxruntime` brings them.
Nothing is downloaded; models are converted here.

    python -m benchmarks.encoding --rounds 3 --dataset locomo:FILE --out reports/encoding.md

With data sets, each way's vectors also rank their questions' conversations by cosine alone.
"""

from __future__ import annotations

import argparse
import copy
import logging
import platform
import random
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from neuralstream.embed.sentence_transformer import SentenceTransformerEmbedder
from neuralstream.retrieve.documents import embedded_text
from neuralstream.workbench import datasets
from neuralstream.workbench.metrics import ndcg_at, recall_at

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from neuralstream.embed.base import Vectors

__all__ = ["main"]

SHIPPED = "torch, batches of one length (ships)"
WINDOW = 256
"""Tokens the model reads at once; the library cuts what is longer, so texts are cut to it for every way alike."""

BATCH = 32
WORKERS = 2
"""Threads that encode at the same time, each computing alone, as the embedder that ships does on two cores."""

UTTERANCES = "utterances"
REPLIES = "long replies"
ALONE = "one by one"
"""Kinds of texts: some of the utterances are encoded each by itself as well, as questions are."""

Features = dict[str, "NDArray[np.int64]"]
Encode = Callable[[Sequence[str]], "Vectors"]


class Way(NamedTuple):
    """A way of encoding texts of at most WINDOW tokens."""

    name: str
    encode: Encode


class Result(NamedTuple):
    """What was measured of a way.

    Attributes:
        speed: tokens per second of a processor's time by kind of text, median over rounds.
        ratio: the same over the shipped way's, median over rounds.
        worst, mean: 1 - cosine with the shipped way's vectors.
        apart: largest difference of a component between a text alone and among others.
    """

    name: str
    speed: dict[str, float]
    ratio: dict[str, float]
    worst: float
    mean: float
    apart: float


def main() -> None:
    """Measure, and print a table of Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="how often each way gets the texts")
    parser.add_argument("--dataset", action="append", default=[], help="SPEC of a set to rank; may be repeated")
    parser.add_argument("--out", type=Path, help="file to write the table to as well")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)  # Of converting a model: none is about what is measured.
    warnings.simplefilter("ignore")
    embedder = SentenceTransformerEmbedder()
    embedder.embed_query("load")
    with tempfile.TemporaryDirectory() as folder:
        ways, missing = _ways(embedder, Path(folder))
        results = _measure(ways, embedder, arguments.rounds)
        sets = [datasets.load(spec) for spec in arguments.dataset]
        ranked = {one.name: {way.name: _ranked(one, way.encode) for way in ways} for one in sets}
    page = "\n".join(_page(results, missing, ranked, arguments.rounds)) + "\n"
    sys.stdout.write(page)
    if arguments.out:
        arguments.out.write_text(page, encoding="utf-8")


def _ways(embedder: SentenceTransformerEmbedder, folder: Path) -> tuple[list[Way], list[str]]:
    """What can be measured here, the shipped way first, and the packages that the others need."""
    model = embedder._encoder._model  # noqa: SLF001 - the very model that ships, run otherwise
    ways = [Way(SHIPPED, lambda texts: np.concatenate([rows[:1] for rows in embedder.embed_chunks(texts)]))]
    tokenize = _tokenizer(model.tokenizer)
    example = {name: torch.tensor(value) for name, value in _padded(tokenize(["an example", "of two texts"])).items()}
    plain = _Flat(model)
    with torch.inference_mode():
        frozen = torch.jit.freeze(torch.jit.trace(plain.module, tuple(example.values()), strict=False))  # type: ignore[no-untyped-call]
    quantised = torch.ao.quantization.quantize_dynamic(  # type: ignore[no-untyped-call]
        copy.deepcopy(model), {torch.nn.Linear}, dtype=torch.qint8
    )
    ways += [
        Way("torch, padded batches sorted by length", _batched(tokenize, plain, padded=True)),
        Way("sentence-transformers' encode()", _library(model)),
        Way("torch, traced and frozen", _batched(tokenize, _Flat(model, frozen))),
        Way("torch, int8 weights and activations", _batched(tokenize, _Flat(quantised))),
    ]
    missing = []
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001 - there is no public question
        ways.append(Way("torch, bfloat16", _batched(tokenize, _Flat(copy.deepcopy(model).bfloat16()))))
    else:
        missing.append("a processor that computes in bfloat16")
    if find_spec("openvino"):
        ways.append(Way("OpenVINO", _batched(tokenize, _openvino(plain.module, example))))
    else:
        missing.append("openvino")
    if find_spec("onnxruntime") and find_spec("onnx"):
        quantization = import_module("onnxruntime.quantization")
        file, small = folder / "model.onnx", folder / "int8.onnx"
        _export(plain.module, example, file)
        quantization.quantize_dynamic(file, small, weight_type=quantization.QuantType.QInt8, per_channel=True)
        ways.append(Way("ONNX Runtime", _batched(tokenize, _onnx(file))))
        ways.append(Way("ONNX Runtime, int8", _batched(tokenize, _onnx(small))))
    else:
        missing.append("onnx, onnxruntime")
    return ways, missing


class _Flat:
    """A sentence-transformers model as a function of arrays, computing on one thread."""

    def __init__(self, model: Any, run: Any = None) -> None:
        class Positional(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
                features = {"input_ids": input_ids, "attention_mask": attention_mask, "token_type_ids": token_type_ids}
                return self.model(features)["sentence_embedding"]

        self.module = Positional().eval()
        self._run = run or self.module

    def __call__(self, features: Features) -> Vectors:
        with torch.inference_mode():
            answer: Vectors = self._run(*map(torch.tensor, features.values())).float().numpy()
        return answer


def _openvino(module: Any, example: dict[str, Any]) -> Callable[[Features], Vectors]:
    openvino = import_module("openvino")
    # Left to itself, OpenVINO computes in bfloat16 where the processor can.
    settings = {"INFERENCE_NUM_THREADS": WORKERS, "NUM_STREAMS": WORKERS, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(openvino.convert_model(module, example_input=example), "CPU", settings)
    names = [value.any_name for value in compiled.inputs]

    def run(features: Features) -> Vectors:
        answer = compiled.create_infer_request().infer([features[name] for name in names])
        vectors: Vectors = answer[0].copy()
        return vectors

    return run


def _export(module: Any, example: dict[str, Any], file: Path) -> None:
    axes = {name: {0: "texts", 1: "tokens"} for name in example}
    torch.onnx.export(
        module, tuple(example.values()), str(file), input_names=list(example), dynamic_axes=axes, dynamo=False
    )


def _onnx(file: Path) -> Callable[[Features], Vectors]:
    onnxruntime = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])

    def run(features: Features) -> Vectors:
        vectors: Vectors = session.run(None, features)[0]
        return vectors

    return run


def _library(model: Any) -> Encode:
    def encode(texts: Sequence[str]) -> Vectors:
        vectors: Vectors = model.encode(list(texts), batch_size=BATCH, show_progress_bar=False)
        return vectors

    return encode


def _tokenizer(tokenizer: Any) -> Callable[[Sequence[str]], list[list[int]]]:
    def tokenize(texts: Sequence[str]) -> list[list[int]]:
        found: list[list[int]] = tokenizer(list(texts), truncation=True, max_length=WINDOW, padding=False)["input_ids"]
        return found

    return tokenize


def _batched(
    tokenize: Callable[[Sequence[str]], list[list[int]]], run: Callable[[Features], Vectors], *, padded: bool = False
) -> Encode:
    """Batches of texts of one length, or of neighbouring lengths and padded, on as many threads as ship."""
    pool = ThreadPoolExecutor(WORKERS, initializer=_compute_alone)

    def encode(texts: Sequence[str]) -> Vectors:
        tokens = tokenize(texts)
        order = sorted(range(len(tokens)), key=lambda row: -len(tokens[row]))
        batches: list[list[int]] = []
        for row in order:
            fits = batches and len(batches[-1]) < BATCH and (padded or len(tokens[batches[-1][0]]) == len(tokens[row]))
            if fits:
                batches[-1].append(row)
            else:
                batches.append([row])
        answers = list(pool.map(lambda rows: run(_padded([tokens[row] for row in rows])), batches))
        vectors = np.empty((len(tokens), answers[0].shape[1]), dtype=np.float32)
        for rows, answer in zip(batches, answers, strict=True):
            vectors[rows] = answer / np.linalg.norm(answer, axis=1, keepdims=True)
        return vectors

    return encode


def _compute_alone() -> None:
    torch.get_num_threads()  # A thread adopts the process's number at its first look; from then on its own one lasts.
    torch.set_num_threads(1)


def _padded(tokens: Sequence[Sequence[int]]) -> Features:
    longest = max(map(len, tokens))
    ids = np.array([[*row, *[0] * (longest - len(row))] for row in tokens], dtype=np.int64)
    mask = np.array([[1] * len(row) + [0] * (longest - len(row)) for row in tokens], dtype=np.int64)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def _measure(ways: Sequence[Way], embedder: SentenceTransformerEmbedder, rounds: int) -> list[Result]:
    kinds = _texts()
    tokenize = _tokenizer(embedder._encoder._model.tokenizer)  # noqa: SLF001 - the very tokenizer that ships
    sizes = {kind: sum(map(len, tokenize(texts))) for kind, texts in kinds.items()}
    seconds: dict[tuple[str, str], list[float]] = {(way.name, kind): [] for way in ways for kind in kinds}
    vectors = {}
    for turn in range(rounds + 1):  # The first round warms up: kernels are chosen, memory is taken.
        for kind, texts in kinds.items():
            for way in ways:
                start = time.process_time()
                answer = np.concatenate([way.encode([text]) for text in texts]) if kind == ALONE else way.encode(texts)
                if turn:
                    seconds[way.name, kind].append(time.process_time() - start)
                vectors[way.name, kind] = answer
    results = []
    for way in ways:
        differences = np.concatenate(
            [1 - np.einsum("ij,ij->i", vectors[way.name, kind], vectors[SHIPPED, kind]) for kind in kinds]
        )
        together = vectors[way.name, UTTERANCES][: len(kinds[ALONE])]
        results.append(
            Result(
                way.name,
                {kind: sizes[kind] / statistics.median(seconds[way.name, kind]) for kind in kinds},
                {kind: _ratio(seconds[SHIPPED, kind], seconds[way.name, kind]) for kind in kinds},
                float(differences.max()),
                float(differences.mean()),
                float(np.abs(together - vectors[way.name, ALONE]).max()),
            )
        )
    return results


def _ratio(shipped: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(one / two for one, two in zip(shipped, other, strict=True))


def _texts() -> dict[str, list[str]]:
    """Texts written for this benchmark: what people say in a line or two, and replies that fill the window."""
    draw = random.Random(5)  # noqa: S311 - texts that are the same everywhere
    who = ("Anna", "Jon", "Melanie", "the new intern", "my sister", "our landlord", "Dr Okafor", "the staging server")
    did = ("moved", "asked about", "cancelled", "painted", "finally fixed", "forgot", "sent me", "wrote a test for")
    what = ("the redis port", "the trip to Lisbon", "a sunrise over the lake", "the invoice of March",
            "her driving test", "that flaky migration", "the pottery class", "two tickets for Saturday",
            "the retry policy")  # fmt: skip
    when = ("yesterday", "on 7 May", "last week after lunch", "in 2021", "before anybody noticed", "twice", "again")
    why = ("because nobody else would", "and I am so proud", "so we have to change the plan", "which took three hours",
           "and it still times out at 40 ms", "as you suggested", "but the deposit is gone")  # fmt: skip

    def sentence() -> str:
        return f"{draw.choice(who)} {draw.choice(did)} {draw.choice(what)} {draw.choice(when)}, {draw.choice(why)}."

    utterances = [" ".join(sentence() for _ in range(draw.choice((1, 1, 1, 2, 2, 3)))) for _ in range(96)]
    replies = [" ".join(sentence() for _ in range(draw.randint(6, 11))) for _ in range(8)]
    return {UTTERANCES: utterances, REPLIES: replies, ALONE: utterances[:24]}


def _ranked(dataset: datasets.Dataset, encode: Encode) -> tuple[float, float]:
    """R@5 and nDCG@10 of turns by cosine alone, averaged over questions; of a long turn, its beginning."""
    scores = []
    for conversation in dataset.conversations:
        ids = [turn.turn_id for turn in conversation.turns]
        turns = encode([embedded_text(turn) for turn in conversation.turns])
        questions = [question for question in conversation.questions if question.evidence]
        asked = encode([question.text for question in questions])
        for question, cosines in zip(questions, asked @ turns.T, strict=True):
            ranking = [ids[row] for row in np.argsort(-cosines, kind="stable")]
            gold = frozenset(question.evidence)
            scores.append((recall_at(ranking, gold, 5), ndcg_at(ranking, gold, 10)))
    recall, ndcg = np.mean(scores, axis=0)
    return float(recall), float(ndcg)


def _page(
    results: Sequence[Result],
    missing: Sequence[str],
    ranked: Mapping[str, Mapping[str, tuple[float, float]]],
    rounds: int,
) -> Iterator[str]:
    kinds = (UTTERANCES, REPLIES, ALONE)
    yield "# Encoding"
    yield ""
    yield "Printed by `python -m benchmarks.encoding`, whose docstring says what is compared and how."
    yield ""
    packages = [name for name in ("torch", "sentence-transformers", "openvino", "onnxruntime") if _installed(name)]
    yield f"all-MiniLM-L6-v2, {WORKERS} threads, {rounds} rounds; {platform.processor() or platform.machine()},"
    yield f"Python {platform.python_version()}, " + ", ".join(f"{name} {version(name)}" for name in packages) + "."
    if missing:
        yield f"Not here, and so not measured: {', '.join(missing)}."
    yield ""
    yield "Speed as a multiple of the shipped way's, in parentheses tokens per second of processor time."
    yield ""
    sets = [f"{name}: {measure}" for name in ranked for measure in ("R@5", "nDCG@10")]
    yield _row("way", *kinds, "1 - cosine, worst", "mean", "alone or together", *sets)
    yield _row(*["---"] * (7 + len(sets)))
    for one in results:
        speeds = [f"{one.ratio[kind]:.2f} ({one.speed[kind]:.0f}/s)" for kind in kinds]
        scores = [f"{value:.4f}" for by_way in ranked.values() for value in by_way[one.name]]
        yield _row(one.name, *speeds, *(f"{value:.1e}" for value in (one.worst, one.mean, one.apart)), *scores)
    yield ""
    yield "*Alone or together*: how much a component differs at most between a text encoded by itself and among others."


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _installed(package: str) -> bool:
    return find_spec(package.replace("-", "_")) is not None


if __name__ == "__main__":
    main()
