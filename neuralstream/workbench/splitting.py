"""Splitting a labelled set by conversation, so that what is tuned is never measured on its own data."""

from __future__ import annotations

import json
import math
import random
from typing import TYPE_CHECKING

from neuralstream.errors import DatasetError, InputError
from neuralstream.files import write_whole
from neuralstream.workbench import datasets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuralstream.logs.base import Conversation

__all__ = ["assign", "split"]


def split(spec: str, shares: Mapping[str, float], *, seed: int = 0, replace: bool = False) -> dict[str, list[str]]:
    """Give every conversation of a native set to one split, and write that into its `dataset.json`.

    Args:
        spec: a native set's folder.
        shares: by the split's name, of the conversations; together 1.
        seed: another one deals otherwise.
        replace: take the place of splits that are there already.

    Returns:
        By split, the names of its conversations, sorted.

    Raises:
        DatasetError: the set is not native, or has splits and they are not to be replaced.
        InputError: the shares are none, or there are fewer conversations than splits.
    """
    dataset = datasets.load(spec)
    if dataset.spec.format != "native" or not dataset.spec.path.is_dir():
        raise DatasetError(f"{spec} is a {dataset.spec.format} log; only the folder of a native set has splits")
    about = datasets.description(dataset.spec)
    if about.get("splits") and not replace:
        raise DatasetError(
            f"{dataset.name} has the splits {', '.join(about['splits'])} already, and figures may rest on them; "
            "pass --replace to deal anew"
        )
    splits = assign(dataset.conversations, shares, seed=seed)
    file = dataset.spec.path / "dataset.json"
    write_whole(file, [json.dumps(about | {"splits": splits}, ensure_ascii=False, indent=2).encode() + b"\n"])
    return splits


def assign(conversations: Sequence[Conversation], shares: Mapping[str, float], *, seed: int) -> dict[str, list[str]]:
    """Deal conversations from the one with most questions (then turns) down, each to the split furthest from its share.

    So every split gets its share of large and of small ones; who is dealt what among equals is drawn.

    Raises:
        InputError: see `split`.
    """
    if not shares or min(shares.values()) <= 0 or not math.isclose(sum(shares.values()), 1):
        raise InputError(f"the splits' shares are above 0 and make 1 together, got {dict(shares)}")
    if len(conversations) < len(shares):
        raise InputError(
            f"{len(conversations)} conversations cannot be dealt to {len(shares)} splits; label more people's logs, or "
            "take one conversation per log with `datasets label --by-file`"
        )
    draw = random.Random(seed)  # noqa: S311 - dealing, not secrecy
    order = sorted(conversations, key=lambda one: (-len(one.questions), -len(one.turns), draw.random()))
    splits: dict[str, list[str]] = {name: [] for name in shares}
    for dealt, conversation in enumerate(order, 1):
        behind = {name: share * dealt - len(splits[name]) for name, share in shares.items()}
        most = max(behind.values())
        chosen = draw.choice([name for name, by in behind.items() if math.isclose(by, most, abs_tol=1e-9)])
        splits[chosen].append(conversation.name)
    return {name: sorted(members) for name, members in splits.items()}
