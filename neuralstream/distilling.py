"""From a leased batch to stored gems, so that a crash at any point leaves one set of gems and no turn undistilled.

The order is what makes it so: the answer is written down under the batch's id before any gem is stored, gems have ids
made of their content, and the batch is acknowledged last. A batch done again reuses the answer and stores the same
gems.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from neuralstream.errors import ContextOverflowError, ExtractionError, MissingPartError, SettingsError
from neuralstream.extract.base import Batch
from neuralstream.extract.consolidate import consolidate
from neuralstream.store.base import MemoryStore, Where
from neuralstream.store.schema import GEMS, TURNS, VECTOR_TEXT
from neuralstream.types import Gem, Turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuralstream.capture.buffer import Buffer
    from neuralstream.capture.records import LeasedBatch
    from neuralstream.config import Settings
    from neuralstream.embed.base import Embedder, Vectors
    from neuralstream.extract.base import Extractor
    from neuralstream.extract.judge import Judge
    from neuralstream.indexing import Indexer

__all__ = ["Distiller"]

_log = logging.getLogger(__name__)

_RETRY_SECONDS = 5.0
_SIMILAR = 10
"""Stored gems that a new one is compared with, those that were replaced included."""


class Distiller:
    """Takes batches from the buffer and stores their gems."""

    def __init__(
        self,
        settings: Settings,
        *,
        buffer: Buffer,
        store: MemoryStore,
        embedder: Embedder,
        indexer: Indexer,
        extractor: Extractor,
        judge: Judge | None = None,
    ) -> None:
        self._settings = settings
        self._buffer = buffer
        self._store = store
        self._embedder = embedder
        self._indexer = indexer
        self._extractor = extractor
        self._judge = judge
        # Consolidation reads what is stored and then decides.
        self._one_at_a_time = threading.Lock()

    def distil_one(self, *, patient: bool) -> bool:
        """Distil the oldest batch that nobody works on; False where there is none.

        A batch that cannot be distilled is tried `buffer.max_attempts` times, then it is a dead letter; at once where
        it does not fit, or the model's answer could not be used, not even the second one.

        Args:
            patient: wait a little between tries of one batch, leaving it to whoever comes then.

        Raises:
            MissingPartError: a part is down; the batch goes back untouched and the try does not count.
            SettingsError: the settings cannot distil any batch; this one goes back untouched too.
        """
        batch = self._buffer.lease()
        if batch is None:
            return False
        try:
            with self._holding(batch):
                gems = self._answer(batch)
                if gems is not None:
                    self.store(gems, batch.turns)
        except (MissingPartError, SettingsError):
            self._buffer.give_back(batch, retry_in=_RETRY_SECONDS if patient else 0)
            raise
        except ExtractionError as error:
            final = error.answer is not None or isinstance(error, ContextOverflowError)
            self._fail(batch, str(error), patient=patient, answer=error.answer, final=final)
        except Exception as error:  # noqa: BLE001 - an extractor is foreign code: one bad batch must not stop the others
            self._fail(batch, f"{type(error).__name__}: {error}", patient=patient)
        else:
            if not self._buffer.done(batch):
                _log.warning("batch %s was taken over, or forgotten, while it was distilled", batch.batch_id)
        return True

    def store(self, gems: Sequence[Gem], turns: Sequence[Turn] = ()) -> tuple[Gem, ...]:
        """Store gems, each new, merged into one that says the same, or left out because it is there already.

        What a new one replaces is marked so; see `extract.consolidate`.

        Args:
            gems: what to store, all of one user.
            turns: the turns they cite, which are made searchable first where they are not yet.

        Returns:
            For each gem the one that now says it: itself, or another with its evidence.
        """
        if turns:
            self._indexer.index_missing(turns)
        if not gems:
            return ()
        vectors = self._embedder.embed_documents([gem.content for gem in gems])
        vector_of = {gem.gem_id: vector for gem, vector in zip(gems, vectors, strict=True)}
        # Other processes may distil sessions of the same user.
        with self._one_at_a_time, self._buffer.alone(f"gems:{gems[0].user_id}"):
            return self._consolidate(gems, vector_of)

    def _consolidate(self, gems: Sequence[Gem], vector_of: Mapping[str, Vectors]) -> tuple[Gem, ...]:
        def similar(gem: Gem) -> list[tuple[Gem, float]]:
            where = Where(gem.user_id, kind="gem")
            ranked = self._store.dense(GEMS, vector_of[gem.gem_id], VECTOR_TEXT, where, _SIMILAR, exact=True)
            score_of = dict(ranked)
            records = self._store.retrieve(GEMS, list(score_of))
            return [(Gem.from_dict(record.payload["data"]), score_of[record.id]) for record in records]

        def cosine(one: Gem, other: Gem) -> float:
            return float(vector_of[one.gem_id] @ vector_of[other.gem_id])

        outcome = consolidate(gems, similar, self._settings.extract, cosine=cosine, judge=self._judge)
        for gone, kept_as in outcome.merged.items():
            _log.info("gem %s says what gem %s says; its turns are that one's evidence now", gone, kept_as)
        for gone, by in outcome.superseded.items():
            _log.info("gem %s holds no more; gem %s replaces it", gone, by)
        self._indexer.index_gems(outcome.store)
        stored = {gem.gem_id: gem for gem in outcome.store}
        kept = [outcome.merged.get(gem.gem_id, gem.gem_id) for gem in gems]
        unread = [gem_id for gem_id in kept if gem_id not in stored]
        stored |= {record.id: Gem.from_dict(record.payload["data"]) for record in self._store.retrieve(GEMS, unread)}
        return tuple(stored[gem_id] for gem_id in kept if gem_id in stored)

    def _fail(
        self, batch: LeasedBatch, reason: str, *, patient: bool, answer: str | None = None, final: bool = False
    ) -> None:
        wait = _RETRY_SECONDS * 2 ** (batch.attempts - 1) if patient else 0
        if self._buffer.fail(batch, reason, retry_in=wait, answer=answer, final=final):
            _log.error("batch %s of session %s is a dead letter: %s", batch.batch_id, batch.session, reason)

    def _answer(self, batch: LeasedBatch) -> tuple[Gem, ...] | None:
        """The gems of a batch: those an earlier try wrote down, or the extractor's, written down now.

        None where the batch was taken over or forgotten meanwhile, or has no turn left.
        """
        if not batch.turns:
            return None
        answer = batch.answer
        if answer is None:
            extraction = self._extractor.extract(
                Batch(batch.batch_id, batch.turns, self._history(batch), batch.trigger)
            )
            gems = [replace(gem, embedder=self._embedder.name) for gem in extraction.gems]
            _check(gems, batch)
            answer = json.dumps([gem.to_dict() for gem in gems], ensure_ascii=False)
            answer = self._buffer.record_answer(batch.batch_id, answer)
            if answer is None:
                return None
        return tuple(Gem.from_dict(data) for data in json.loads(answer))

    def _history(self, batch: LeasedBatch) -> tuple[Turn, ...]:
        """The session's turns before the batch, oldest first."""
        first = batch.turns[0].index or 0
        if first == 0 or not self._settings.extract.history_turns:
            return ()
        where = Where(
            batch.session.user_id, kind="turn", session_ids=(batch.session.session_id,), session_index_to=first - 1
        )
        records = self._store.newest(TURNS, where, self._settings.extract.history_turns)
        return tuple(Turn.from_dict(record.payload["data"]) for record in reversed(records))

    @contextmanager
    def _holding(self, batch: LeasedBatch) -> Iterator[None]:
        """Renew the lease while a slow extraction goes on."""
        finished = threading.Event()
        every = self._settings.buffer.lease.total_seconds() / 3

        def renew() -> None:
            while not finished.wait(every):
                with suppress(MissingPartError):  # the server may be back before the lease ends
                    self._buffer.renew(batch.batch_id)

        thread = threading.Thread(target=renew, name="neuralstream-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            finished.set()
            thread.join()


def _check(gems: Sequence[Gem], batch: LeasedBatch) -> None:
    """Refuse gems that cite what the batch does not hold."""
    known = {turn.turn_id for turn in batch.turns}
    for gem in gems:
        outside = [turn_id for turn_id in gem.source_turns if turn_id not in known]
        if outside or not gem.source_turns:
            raise ExtractionError(
                f"gem {gem.content[:60]!r} cites {outside or 'no turn'}, not turns of its batch; let the extractor "
                "cite those alone"
            )
        if (gem.user_id, gem.source.session_id) != tuple(batch.session):
            raise ExtractionError(
                f"gem {gem.content[:60]!r} belongs to another user or session than its batch; give it theirs"
            )
