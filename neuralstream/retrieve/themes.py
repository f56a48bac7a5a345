"""Themes: what conversations keep returning to, over the whole memory rather than for one query.

`theme_groups` says which turns belong together, `theme_names` what they are called; here they are read, given their
most central turns, and joined by the gems that were distilled from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralstream.retrieve.theme_groups import Groups, directions, group_turns
from neuralstream.retrieve.theme_names import Names, content_tokens
from neuralstream.store.base import Where
from neuralstream.store.schema import GEMS, TURNS, VECTOR_TEXT
from neuralstream.types import Gem, Theme, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from neuralstream.embed.base import Vectors
    from neuralstream.store.base import MemoryStore

__all__ = ["find_themes"]

_LEAST_TERMS = 3
"""Distinctive words of a turn that can belong to a theme: greetings and thanks have fewer."""

_NAME_TERMS, _TERMS, _EXEMPLARS = 3, 8, 3

_TOO_ALIKE = 0.95
"""Cosine from which an exemplar says nothing new."""


class _Said(NamedTuple):
    """A turn, its tokens without stop words, and its vector."""

    turn: Turn
    tokens: list[str]
    vector: Vectors


class _Distilled(NamedTuple):
    """A gem and its vector."""

    gem: Gem
    vector: Vectors


def find_themes(
    store: MemoryStore, user_id: str, *, since: datetime | None, until: datetime | None, limit: int
) -> list[Theme]:
    """Recurring subjects of a user's turns and gems.

    A turn belongs to one theme or, standing alone, to none; an active gem belongs to the theme of most of its source
    turns. Turns that are not in the store yet do not count.

    Args:
        store: where the turns are.
        user_id: whose.
        since, until: only turns and gems of this closed range.
        limit: most themes.

    Returns:
        Largest first; the same turns always give the same themes.
    """
    everything = _read_turns(store, Where(user_id, kind="turn", since=since, until=until))
    names = Names([{*one.tokens} for one in everything])
    said = [one for one in everything if len(names.distinctive({*one.tokens})) >= _LEAST_TERMS]
    if len(said) < 2:
        return []
    groups = group_turns(
        np.array([one.vector for one in said]),
        [one.tokens for one in said],
        [one.turn.session_id for one in said],
    )
    gems = _gems_of(groups, said, _read_gems(store, Where(user_id, "gem", since=since, until=until, status="active")))
    themes = [_theme(groups, number, said, gems[number], names) for number in range(len(groups.rows))]
    return sorted(themes, key=lambda theme: (-theme.size, theme.first_at, theme.turn_ids))[:limit]


def _read_turns(store: MemoryStore, where: Where) -> list[_Said]:
    """The turns that say something, oldest first."""
    found = []
    for record in store.scroll(TURNS, where, with_vectors=True):
        if VECTOR_TEXT in record.vectors:
            turn = Turn.from_dict(record.payload["data"])
            found.append(_Said(turn, content_tokens(turn.text), record.vectors[VECTOR_TEXT]))
    return sorted(found, key=lambda one: (one.turn.at(), one.turn.session_id, one.turn.index or 0, one.turn.turn_id))


def _read_gems(store: MemoryStore, where: Where) -> list[_Distilled]:
    """The gems that say something, oldest first."""
    found = [
        _Distilled(Gem.from_dict(record.payload["data"]), record.vectors[VECTOR_TEXT])
        for record in store.scroll(GEMS, where, with_vectors=True)
        if VECTOR_TEXT in record.vectors
    ]
    return sorted(found, key=lambda one: (one.gem.created_at, one.gem.gem_id))


def _gems_of(groups: Groups, said: Sequence[_Said], gems: Sequence[_Distilled]) -> Mapping[int, list[_Distilled]]:
    """The gems of each group, by the group's number: those with more source turns in it than in any other."""
    group_of = {said[row].turn.turn_id: number for number, rows in enumerate(groups.rows) for row in rows}
    found: dict[int, list[_Distilled]] = defaultdict(list)
    for one in gems:
        cited = Counter(group_of[turn_id] for turn_id in one.gem.source_turns if turn_id in group_of)
        if cited:
            found[min(cited, key=lambda number: (-cited[number], number))].append(one)
    return found


def _theme(groups: Groups, number: int, said: Sequence[_Said], gems: Sequence[_Distilled], names: Names) -> Theme:
    rows = groups.rows[number]
    members = [said[row] for row in rows]
    terms = names.terms([{*one.tokens} for one in members], [one.turn.text for one in members], _TERMS)
    vectors = np.array([one.vector for one in members])
    centrality = groups.features[rows] @ groups.features[rows].sum(axis=0)
    central = _differing(centrality, vectors)
    telling = _differing(_closeness(gems, vectors), np.array([one.vector for one in gems]))
    return Theme(
        name=", ".join(terms[:_NAME_TERMS]),
        terms=terms,
        size=len(members),
        first_at=members[0].turn.at(),
        last_at=members[-1].turn.at(),
        exemplars=tuple(members[row].turn for row in central),
        turn_ids=tuple(one.turn.turn_id for one in members),
        gems=tuple(gems[row].gem for row in telling),
        gem_ids=tuple(one.gem.gem_id for one in gems),
    )


def _closeness(gems: Sequence[_Distilled], vectors: Vectors) -> Vectors:
    """How near each gem is to the middle of a theme's turns."""
    return np.array([one.vector @ vectors.mean(axis=0) for one in gems], np.float32)


def _differing(closeness: Vectors, vectors: Vectors) -> list[int]:
    """The rows nearest to the centre, none of which repeats another."""
    alike = directions(vectors) if len(vectors) else vectors
    chosen: list[int] = []
    for row in np.argsort(-closeness, kind="stable"):
        if len(chosen) < _EXEMPLARS and not (chosen and (alike[chosen] @ alike[row]).max() >= _TOO_ALIKE):
            chosen.append(int(row))
    return chosen
