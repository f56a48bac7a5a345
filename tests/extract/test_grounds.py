"""The check on names lets honest gems pass."""

import json
from pathlib import Path

from neuralstream.extract.grounds import Grounds
from neuralstream.types import Turn

WORKDAYS = Path(__file__).parents[2] / "datasets" / "workdays"


def lines(folder, user):
    """The rows of a user's file."""
    return [json.loads(line) for line in (WORKDAYS / folder / f"{user}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_reference_gems_are_hardly_ever_refused():
    """Of the 315 reference gems of `workdays@dev`, 5 name what the batch and 20 turns before it do not."""
    refused, total = [], 0
    for user in json.loads((WORKDAYS / "dataset.json").read_text(encoding="utf-8"))["splits"]["dev"]:
        turns = [Turn.from_dict(row) for row in lines("conversations", user)]
        place = {turn.turn_id: number for number, turn in enumerate(turns)}
        for row in lines("gems", user):
            first = place[row["batch"][0]]
            before = range(max(0, first - 20), first)
            history = {n: turns[n] for n in before if turns[n].session_id == turns[first].session_id}
            grounds = Grounds({place[turn_id]: turns[place[turn_id]] for turn_id in row["batch"]}, history)
            for gem in row["gems"]:
                total += 1
                cited = [place[turn_id] for turn_id in gem["source_turns"] if turn_id in row["batch"]]
                if reason := grounds.objection(gem["content"], cited):
                    refused.append((reason, gem["content"]))
    assert total == 315
    assert len(refused) == 5, refused
