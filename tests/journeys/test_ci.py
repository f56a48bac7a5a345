"""A CI engineer's way: the recipe of docs/ci, copied into a small repository and run step by step as GitHub would."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from neuralstream.types import Turn

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "docs" / "ci"
PULL_REQUEST = "7"

GH = """#!/bin/sh
# GitHub's command line, as far as the recipe uses it: one comment, kept in a file; none from a fork.
echo "$@" >> "$GH_FOLDER/calls"
case "$*" in
*--jq*) test ! -f "$GH_FOLDER/comment" || echo 41 ;;
*) if test -n "$GH_FORK"; then echo "HTTP 403: Resource not accessible by integration" >&2; exit 1; fi
   cp ci/out/comment.md "$GH_FOLDER/comment" ;;
esac
"""


class Checked(NamedTuple):
    """What a pull request gets to see: how the job ended, each step's output, the summary, the comment."""

    code: int
    said: dict[str, str]
    summary: str
    comment: str


class Repository:
    """A team's own repository, with the recipe in it."""

    def __init__(self, folder: Path, outside: Path) -> None:
        self.folder, self.outside = folder, outside
        (outside / "bin").mkdir(parents=True)
        gh = outside / "bin" / "gh"
        gh.write_text(GH)
        gh.chmod(0o755)
        folder.mkdir()
        write_questions(folder / "ci" / "questions")
        self.serve("bm25")

    def serve(self, mode: str) -> None:
        """The change of a pull request."""
        (self.folder / "neuralstream.toml").write_text(f'[retrieval]\nmode = "{mode}"\n')

    def shell(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """A script as GitHub's `shell: bash` runs it; nothing can be downloaded."""
        path = os.pathsep.join([str(self.outside / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        offline = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "OMP_NUM_THREADS": "1"}
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        env = os.environ | offline | {"PATH": path} | env
        return subprocess.run(bash, cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=300)

    def check(self, workflow: dict[str, Any], *, fork: bool = False) -> Checked:
        """Every `run:` step of the workflow, in order; after a failure only those that run all the same."""
        job = workflow["jobs"]["gate"]
        summary = self.outside / "summary.md"
        summary.write_text("")
        github = {
            "GITHUB_REPOSITORY": "team/memory", "GITHUB_STEP_SUMMARY": str(summary), "GH_FOLDER": str(self.outside),
            "GH_FORK": "1" if fork else "",
        }  # fmt: skip
        code, said = 0, {}
        for step in job["steps"]:
            if "run" not in step or (code and "cancelled()" not in step.get("if", "")):
                continue
            env = {name: _filled(value) for name, value in {**job["env"], **step.get("env", {})}.items()}
            ran = self.shell(step["run"], **github, **env)
            said[step["name"]] = ran.stdout + ran.stderr
            code = code or ran.returncode
        comment = self.outside / "comment"
        return Checked(code, said, summary.read_text(), comment.read_text() if comment.exists() else "")

    def calls(self) -> list[str]:
        """What GitHub's command line was asked."""
        return (self.outside / "calls").read_text().splitlines()

    def clean(self) -> None:
        """As a fresh checkout: what a job made is not there."""
        self.shell("rm -rf ci/out")


def _filled(value: str) -> str:
    known = {"${{ github.token }}": "token", "${{ github.event.pull_request.number }}": PULL_REQUEST}
    filled = known.get(value, value)
    assert "${{" not in filled
    return filled


def write_questions(folder: Path) -> None:
    """The team's labelled logs, in the native format as datasets/README.md has it."""
    for name in ("conversations", "queries"):
        (folder / name).mkdir(parents=True)
    (folder / "dataset.json").write_text(json.dumps({"name": folder.name, "licence": "CC0-1.0", "languages": ["en"]}))
    with (Path(__file__).parent / "team.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    for user in {row["who"] for row in rows}:
        turns, queries = [], []
        for n, row in enumerate(row for row in rows if row["who"] == user):
            named = {"session_id": f"{user}-{n // 4}", "turn_id": f"{user}-{n:02}", "user_id": user, "index": n % 4}
            moment = f"2026-03-{2 + n // 4:02}T09:{n:02}:00Z"
            turns.append(Turn.exchange(row["said"], row["answered"], **named, created_at=moment).to_dict())
            if row["asked"]:
                label = {"category": "fact", "evidence": [named["turn_id"]]}
                queries.append({"query_id": f"{user}-q{n:02}", "text": row["asked"], **label})
        for name, lines in (("conversations", turns), ("queries", queries)):
            (folder / name / f"{user}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def scripts(heading: str) -> list[str]:
    """The shell blocks under a heading of the recipe's page."""
    _, _, section = (RECIPE / "README.md").read_text().partition(f"## {heading}\n")
    return re.findall(r"```sh\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)


@pytest.fixture(scope="module")
def workflow():
    """The workflow that users copy."""
    return yaml.safe_load((RECIPE / "github-actions.yml").read_text())


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The team's repository, in which what BM25 finds was accepted as the page says."""
    place = tmp_path_factory.mktemp("ci")
    repository = Repository(place / "memory", place / "github")
    once = scripts("Once: accept what is served now")[0]
    ran = repository.shell(f"git init --quiet\n{once}", NEURALSTREAM_CACHE_DIR="ci/cache")
    assert ran.returncode == 0, ran.stderr
    assert "baseline written to ci/baseline.json" in ran.stderr
    repository.shell("git -c user.name=ada -c user.email=ada@example.org commit --quiet --message 'Gate retrieval'")
    return repository


@pytest.fixture(autouse=True)
def _fresh(repository):
    repository.clean()
    for name in ("comment", "calls"):
        (repository.outside / name).unlink(missing_ok=True)
    repository.shell("git reset --quiet --hard")


def test_a_better_one_passes_and_the_baseline_is_renewed_and_then_the_old_one_fails(repository, workflow):
    """The whole way, by the recipe's own steps and the commands that its comments name."""
    repository.serve("hybrid")
    better = repository.check(workflow)
    assert better.code == 0, better.said
    assert better.comment == better.summary
    assert better.comment.startswith("### Retrieval gate: passed on questions\n\n- turns: nDCG@10 rose from 0.")
    (renew,) = re.findall(r"renew the baseline: `(neuralstream gate .*?)`", better.comment)
    renewed = repository.shell(f"{renew}\ngit add ci/baseline.json")
    assert re.search(r"turns/hybrid: nDCG@10 0\.9\d\d, was 0\.[678]\d\d;", renewed.stderr)

    repository.clean()
    repository.serve("bm25")
    worse = repository.check(workflow)
    assert worse.code == 4
    assert worse.comment.startswith("### Retrieval gate: refused on questions\n\n- **regression**: turns: nDCG@10 fell")
    assert "not by chance (p " in worse.comment
    assert "3 users are too few" in worse.comment
    assert "| bm25, was hybrid | nDCG@10 |" in worse.comment
    assert re.search(r"\| `mira/mira-q04` \| lost \| 1\.000 \| 0\.000 \| `why does the power go out", worse.comment)
    (explain,) = re.findall(r"`(neuralstream explain .*?)`", worse.comment)
    assert repository.shell(explain).returncode == 0
    (accept,) = re.findall(r"accept it in this change: `(neuralstream gate .*?)`", worse.comment)
    assert repository.shell(accept).returncode == 0
    first, second = [line for line in repository.calls() if "--jq" not in line]
    assert first == "pr comment 7 --body-file ci/out/comment.md"
    assert "-X PATCH repos/team/memory/issues/comments/41" in second


def test_a_setting_with_a_typo_is_told_on_the_pull_request(repository, workflow):
    """The step that measures fails, the gate is not reached, and the comment has the reason."""
    (repository.folder / "neuralstream.toml").write_text('[retrieval]\nmoed = "bm25"\n')
    checked = repository.check(workflow)
    assert checked.code == 2
    assert set(checked.said) == {"Install", "Measure", "Comment"}
    assert "unknown setting 'retrieval.moed'" in checked.comment
    assert checked.comment.startswith("### Retrieval gate: nothing to judge")


def test_questions_that_were_added_ask_for_a_baseline_of_their_own(repository, workflow):
    """Exit 2: which are new, and the commands that accept them."""
    with (repository.folder / "ci" / "questions" / "queries" / "mira.jsonl").open("a") as file:
        file.write('{"query_id": "mira-q99", "text": "allergies?", "category": "fact", "evidence": ["mira-07"]}\n')
    checked = repository.check(workflow)
    assert checked.code == 2
    assert "31 questions, where the baseline has 30: 1 new (mira/mira-q99), 0 gone" in checked.comment
    accept = [line.replace("FILE", "ci/baseline.json").replace("ACCEPTED", "ci/out/new")
              for line in re.findall(r"`(neuralstream .*?)`", checked.comment)]  # fmt: skip
    repository.clean()
    assert repository.shell("\n".join(accept)).returncode == 0


def test_a_baseline_that_is_missing_says_how_to_make_one(repository):
    """By the recipe for any other CI: exit 2, and the comment says why."""
    (repository.folder / "ci" / "baseline.json").unlink()
    ran = repository.shell(scripts("On every pull request")[0], NEURALSTREAM_CACHE_DIR="ci/cache")
    assert ran.returncode == 2
    said = "there is no baseline ci/baseline.json; make one"
    assert said in ran.stderr
    assert said in (repository.folder / "ci" / "out" / "comment.md").read_text()


def test_a_pull_request_from_a_fork_is_checked_without_a_comment(repository, workflow):
    """Its token may not write: the check passes or fails as any other, and the summary has the text."""
    checked = repository.check(workflow, fork=True)
    assert checked.code == 0
    assert checked.comment == ""
    assert checked.summary.startswith("### Retrieval gate: passed")
    assert "::notice::No comment was written" in checked.said["Comment"]


def test_the_notebook_measures_the_same_and_leaves_a_page(repository):
    """The gate holds papermill's run against the same baseline, and sees no difference."""
    (repository.folder / "ci" / "02_compare_retrievers.ipynb").write_bytes(
        (ROOT / "notebooks" / "02_compare_retrievers.ipynb").read_bytes()
    )
    _, papermill = scripts("With a page to read")
    ran = repository.shell(papermill, NEURALSTREAM_CACHE_DIR="ci/cache")
    assert ran.returncode == 0, ran.stderr
    assert (repository.folder / "ci" / "out" / "run" / "report.html").is_file()
    gated = repository.shell("neuralstream gate ci/out/run --baseline ci/baseline.json --json")
    assert {one["difference"] for one in json.loads(gated.stdout)["measures"]} == {0}


def test_what_the_recipe_installs_is_what_the_project_pins():
    """PyTorch is named there by hand."""
    pinned = re.search(r"^torch==.*$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned
    assert f"pip install {pinned[0]} " in (RECIPE / "github-actions.yml").read_text()
