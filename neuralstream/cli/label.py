"""`datasets label`: a person judges questions about their own logs, in the terminal."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from neuralstream.cli.options import Call, FormatOption, JsonOption, UnitOption, command
from neuralstream.cli.output import note, print_json, print_text, progress, show_time
from neuralstream.text import excerpt

if TYPE_CHECKING:
    from neuralstream.workbench.labelling import Card

__all__ = ["add_to"]

commands = typer.Typer()

_SHOWN_CHARS = 320

_KEYS = """\
  Enter    right, and answered by the turns marked *
  1 3      right, and answered by these turns
  0        right, and answered by none: the conversation does not say
  e TEXT   ask it in these words instead
  c NAME   call it another kind of question
  f N      show turn N in full
  s        no good question, never show it again
  q        stop; the same command goes on later"""


class Verdict(NamedTuple):
    """What a person says of a card. No evidence is a question that the conversation does not answer."""

    kind: Literal["accept", "reject", "stop"]
    text: str | None = None
    category: str | None = None
    evidence: tuple[str, ...] = ()


def add_to(app: typer.Typer) -> None:
    """Add the command to a group."""
    app.add_typer(commands)


@command(commands, "label")
def label(
    call: Call,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG...", help="Files or folders of your own logs.")],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the labelled set.", file_okay=False)],
    questions: Annotated[
        int, typer.Option("--questions", metavar="N", min=1, help="Questions to judge, in all sessions together.")
    ] = 60,
    by_file: Annotated[
        bool, typer.Option("--by-file", help="Each file is another person's; comparisons want eight or more.")
    ] = False,
    log_format: FormatOption = "auto",
    unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a labelled set of your own logs: judge proposed questions, and choose the turns that answer them.

    Every decision is on disk at once, and the same command goes on where it stopped. The set is one that `eval`,
    `sweep` and `tune` take.
    """
    from neuralstream.workbench.labelling import open_labelling

    with (
        progress() as report,
        open_labelling(
            logs, out, call.settings(), log_format=log_format, unit=unit, by_file=by_file, most=questions,
            progress=report,
        ) as labelling,
    ):  # fmt: skip
        cards = list(labelling.cards(report))
    if cards:
        note(_KEYS)
    for card in cards:
        verdict = _ask(card)
        if verdict.kind == "stop":
            break
        if verdict.kind == "reject":
            labelling.reject(card)
        else:
            labelling.accept(card, evidence=verdict.evidence, text=verdict.text, category=verdict.category)
    done = {
        "spec": f"native:{out}",
        "accepted": len(labelling.accepted),
        "rejected": len(labelling.rejected),
    }
    note(f"{done['accepted']} questions kept, {done['rejected']} refused; neuralstream eval --dataset {done['spec']} …")
    if as_json:
        print_json(done)
    else:
        print_text(str(done["spec"]))


def _ask(card: "Card") -> Verdict:
    """Show a card until the person has judged it; the end of the input stops."""
    text, category = card.proposal.text, card.proposal.category
    _show(card, text, category)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)  # noqa: T201 - a prompt, not a result
        line = sys.stdin.readline()
        key, _, rest = line.strip().partition(" ")
        if not line or key == "q":
            return Verdict("stop")
        if key == "s":
            return Verdict("reject")
        if key == "e" and rest.strip():
            text = rest.strip()
            note(f"asked as: {text}")
        elif key == "c" and rest.strip():
            category = rest.strip()
            note(f"kind: {category}")
        elif key == "f" and (chosen := _chosen(card, rest)):
            note(next(turn.transcript for turn in card.candidates if turn.turn_id == chosen[0]))
        elif line.strip() == "0":
            return Verdict("accept", text, "unanswerable")
        elif evidence := _chosen(card, line) if line.strip() else card.marked:
            return Verdict("accept", text, category, evidence)
        else:
            note(_KEYS if line.strip() else "no turn is marked: name those that answer it, or 0, s or q")


def _chosen(card: "Card", numbers: str) -> tuple[str, ...]:
    """Ids of the turns that the numbers name; none where one is no number of a turn."""
    words = numbers.replace(",", " ").split()
    if not all(word.isdecimal() and 0 < int(word) <= len(card.candidates) for word in words):
        return ()
    return tuple(dict.fromkeys(card.candidates[int(word) - 1].turn_id for word in words))


def _show(card: "Card", text: str, category: str) -> None:
    note(f"\n── {card.number} of {card.total} · {card.proposal.user_id} · {category}\n{text}")
    if card.proposal.asked_at:
        note(f"asked {show_time(card.proposal.asked_at)}, so answered before then")
    if card.proposal.statement:
        note(f"made from: {excerpt(card.proposal.statement, _SHOWN_CHARS)}")
    for number, turn in enumerate(card.candidates, 1):
        mark = "*" if turn.turn_id in card.marked else " "
        note(f"{mark}{number:>3}  {show_time(turn.created_at)}  {excerpt(turn.transcript, _SHOWN_CHARS)}")
