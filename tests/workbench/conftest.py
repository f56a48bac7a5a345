"""A labelled set small enough to evaluate in a second, and questions made to be fitted."""

import json

import numpy as np
import pytest

from neuralstream.config import Settings
from neuralstream.testing import FakeEmbedder
from neuralstream.types import Turn
from neuralstream.workbench.evaluate import evaluate
from neuralstream.workbench.fitting import Asked

PEOPLE = {
    "ada": [
        ("Move redis to port 6381 please", "Done, redis listens on 6381 and staging keeps 6379."),
        ("The invoice template needs a new logo", "I replaced the logo in invoice.html."),
        ("Who maintains the billing cluster?", "Marta from the Lisbon office does."),
        ("We chose postgres for the ledger", "Noted, the ledger will use postgres instead of mysql."),
        ("My flight leaves on Friday", "Then let us finish the migration on Thursday."),
        ("The ledger migration takes four hours", "I blocked the calendar from ten to two."),
    ],
    "bo": [
        ("The oven in studio two runs too hot", "Lower it by ten degrees until the technician comes."),
        ("Glaze batch seven came out green", "That is the copper, try less of it in batch eight."),
        ("I prefer matte finishes for bowls", "Understood, matte for every bowl."),
        ("The fair in Ghent is on the ninth of May", "I reserved the van for the eighth."),
        ("Van rental costs 140 euros", "I added 140 euros to the fair budget."),
        ("Lotte takes the Saturday class", "I moved Saturday to Lotte in the schedule."),
    ],
    "cy": [
        ("The choir rehearses on Mondays now", "I changed the reminder to Monday evening."),
        ("Sheet music for the requiem is missing", "The library in Delft has twelve copies."),
        ("Nora sings alto this season", "I updated the voice list, Nora is alto."),
        ("Concert tickets cost 18 euros", "The ticket page shows 18 euros."),
        ("Our conductor hates long emails", "I will keep every email under five lines."),
        ("The church has no heating in March", "I told the singers to bring coats."),
    ],
}
QUERIES = {
    "ada": [
        ("ada-1", "which port does redis use", "identifier", ["ada-0"]),
        ("ada-2", "how long is the ledger migration", "multi-hop", ["ada-3", "ada-5"]),
        ("ada-3", "what is the name of her dog", "unanswerable", []),
    ],
    "bo": [
        ("bo-1", "what does the van cost", "identifier", ["bo-4"]),
        ("bo-2", "why was the glaze green", "paraphrase", ["bo-1"]),
    ],
    "cy": [
        ("cy-1", "which voice does Nora sing", "identifier", ["cy-2"]),
        ("cy-2", "how should messages to the boss be written", "paraphrase", ["cy-4"]),
    ],
}


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A native set: three people, 18 exchanges in six sessions, seven questions of which one has no answer."""
    root = tmp_path_factory.mktemp("sets") / "tiny"
    for folder in ("conversations", "queries", "gems"):
        (root / folder).mkdir(parents=True)
    about = {"name": "tiny", "description": "three people", "licence": "Apache-2.0", "languages": ["en"]}
    (root / "dataset.json").write_text(json.dumps(about | {"splits": {"dev": ["ada", "bo"], "test": ["cy"]}}))
    for user, exchanges in PEOPLE.items():
        turns = [
            Turn.exchange(
                said,
                answered,
                session_id=f"{user}-s{n // 3}",
                turn_id=f"{user}-{n}",
                user_id=user,
                index=n % 3,
                created_at=f"2026-03-{1 + n // 3:02d}T10:{n:02d}:00Z",
            ).to_dict()
            for n, (said, answered) in enumerate(exchanges)
        ]
        _write_lines(root / "conversations" / f"{user}.jsonl", turns)
        keys = ("query_id", "text", "category", "evidence")
        _write_lines(root / "queries" / f"{user}.jsonl", [dict(zip(keys, row, strict=True)) for row in QUERIES[user]])
    _write_lines(root / "second_labels.jsonl", [{"query_id": "ada-2", "evidence": ["ada-5"]}])
    gem = {"content": "Redis listens on port 6381.", "tags": ["fact"], "source_turns": ["ada-0"]}
    _write_lines(root / "gems" / "ada.jsonl", [{"batch": ["ada-0", "ada-1", "ada-2"], "gems": [gem]}])
    return root


def _write_lines(file, rows):
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="session")
def planted():
    """Make questions whose gold candidates are drawn by known weights."""

    def make(
        weights, *, dataset="set", kind="people", conversations=6, each=25, candidates=40, seed=0, scale=2.0, gold=1
    ):
        random = np.random.default_rng(seed)
        made = []
        for number in range(conversations * each):
            values = random.normal(size=(candidates, len(weights)))
            values = ((values - values.mean(axis=0)) / values.std(axis=0)).astype(np.float32)
            scores = scale * (values @ np.array(weights)) + random.gumbel(size=candidates)
            ids = tuple(f"p{n:03d}" for n in range(candidates))
            made.append(
                Asked(
                    dataset=dataset,
                    conversation=f"c{number // each}",
                    query_id=f"q{number}",
                    category=("odd", "even")[number % 2],
                    kind=kind,
                    ids=ids,
                    values=values,
                    gold=frozenset(ids[n] for n in np.argsort(-scores)[:gold]),
                )
            )
        return made

    return make


@pytest.fixture(scope="session")
def crew(tmp_path_factory):
    """A native set of eight people, enough for a verdict: each told two things, and is asked for both."""
    root = tmp_path_factory.mktemp("sets") / "crew"
    for folder in ("conversations", "queries"):
        (root / folder).mkdir(parents=True)
    names = ("ada", "bo", "cy", "di", "ed", "flo", "gus", "hal")
    (root / "dataset.json").write_text(json.dumps({"name": "crew", "splits": {"few": ["ada", "bo"]}}))
    for name in names:
        said = (f"The anchor of {name} weighs 40 kilos", "Rain all week", f"The mast of {name} is spruce", "Good night")
        turns = [
            Turn.exchange(
                text,
                "Noted.",
                session_id=f"{name}-s",
                turn_id=f"{name}-{n}",
                user_id=name,
                index=n,
                created_at=f"2026-03-01T10:{n:02d}:00Z",
            ).to_dict()
            for n, text in enumerate(said)
        ]
        asked = [("how heavy is the anchor", "identifier", 0), ("what wood is the mast", "paraphrase", 2)]
        queries = [
            {"query_id": f"q{n}", "text": text, "category": category, "evidence": [f"{name}-{turn}"]}
            for n, (text, category, turn) in enumerate(asked)
        ]
        _write_lines(root / "conversations" / f"{name}.jsonl", turns)
        _write_lines(root / "queries" / f"{name}.jsonl", queries)
    return root


@pytest.fixture(scope="session")
def measured(crew, tmp_path_factory):
    """Measure settings on the eight people, each only once: `measured(mode="bm25")` is a run."""
    made = {}

    def measure(split="", **retrieval):
        key = json.dumps([split, retrieval], sort_keys=True)
        if key not in made:
            settings = Settings(retrieval=retrieval, cache_dir=tmp_path_factory.mktemp("cache"))
            out = tmp_path_factory.mktemp("runs") / f"run{len(made)}"
            spec = f"native:{crew}{split}"
            modes = (settings.retrieval.mode,)
            made[key] = evaluate(spec, settings, modes=modes, out=out, embedder=FakeEmbedder())
        return made[key]

    return measure


OWN_SESSIONS = [
    [
        ("We decided to keep Grafana on port 3105.", "Noted, Grafana stays on 3105."),
        ("The password is hunter2hunter2, api_key=sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD", "Thanks."),
        ("I prefer short answers without bullet lists.", "Understood."),
    ],
    [
        ("Remind me to renew the Velden certificate before June.", "I will."),
        ("Which port did we put Grafana on?", "3105."),
    ],
]


@pytest.fixture
def own_logs(tmp_path):
    """A folder of two people's logs as OpenAI messages, a session a line."""
    folder = tmp_path / "logs"
    folder.mkdir()
    for person in ("ada", "eve"):
        with (folder / f"{person}.jsonl").open("w") as out:
            for number, session in enumerate(OWN_SESSIONS):
                messages = [
                    {"role": role, "content": text, "timestamp": f"2026-01-0{number + 1}T10:0{n}:00Z"}
                    for n, exchange in enumerate(session)
                    for role, text in zip(("user", "assistant"), exchange, strict=True)
                ]
                out.write(json.dumps({"id": f"{person}-{number}", "messages": messages}) + "\n")
    return folder
