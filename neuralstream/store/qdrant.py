"""Memory on a Qdrant server or cluster, or with the URL `:memory:` in this process, for trials and tests."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from neuralstream.config import Settings
from neuralstream.embed.base import Vectors
from neuralstream.errors import MissingPartError, StoreError
from neuralstream.store import catalogue
from neuralstream.store.base import Bm25, Fingerprint, Nearest, Point, Ranked, Ranking, Record, Where
from neuralstream.store.places import MemoryPlaces, Places, ServerPlaces
from neuralstream.store.schema import DATETIME_FIELDS, MULTIVECTORS
from neuralstream.store.shared import (
    PAGE,
    AnyOf,
    Condition,
    Ids,
    Rebuild,
    Token,
    best,
    check_collection,
    check_deletion,
    check_points,
    check_ranking,
    check_user,
    conditions,
    corpus,
    known_ids,
    latest,
    query_text,
)
from neuralstream.transport import Address

__all__ = ["IN_MEMORY", "OLDEST_SERVER", "QdrantStore", "open_qdrant", "read_earlier", "rebuild_qdrant"]

IN_MEMORY = ":memory:"
OLDEST_SERVER = (1, 20)
"""The first server whose text index scores by BM25 over a corpus that the query names."""

T = TypeVar("T")


class QdrantStore:
    """A MemoryStore behind a Qdrant client; `open_qdrant` makes one. Its methods are described there.

    Args:
        client: talks to the server; closed with the store.
        places: which of the client's collections a point lies in.
        fingerprint: what they are filled by.
        address: names the server in messages, without secrets.
    """

    def __init__(self, client: QdrantClient, places: Places, fingerprint: Fingerprint, address: str) -> None:
        self._client = client
        self._places = places
        self._fingerprint = fingerprint
        self._address = address
        self._closed = False

    @property
    def fingerprint(self) -> Fingerprint:
        """What this store is filled by."""
        return self._fingerprint

    def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """See MemoryStore. The server has written the points when this returns."""
        check_points(points, self._fingerprint.dim)
        check_collection(collection)
        with self._asking():
            by_place: dict[str, list[models.PointStruct]] = {}
            for point in points:
                vectors: Any = {name: _floats(vector) for name, vector in point.vectors.items()}
                place = self._places.of_point(collection, point.payload)
                made = models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))
                by_place.setdefault(place, []).append(made)
            for place, batch in by_place.items():
                for start in range(0, len(batch), PAGE):
                    self._client.upsert(place, batch[start : start + PAGE], wait=True)

    def set_payload(self, collection: str, ids: Sequence[str], payload: Mapping[str, Any]) -> None:
        """See MemoryStore."""
        where = Where(user_id=None, ids=tuple(ids))
        change = dict(payload)
        self._ask(collection, where, lambda place: self._client.set_payload(place, change, _filter(where), wait=True))

    def retrieve(
        self, collection: str, ids: Sequence[str], *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> list[Record]:
        """See MemoryStore."""
        known, payload = known_ids(ids), list(keys) or True
        found = self._ask(
            collection,
            Where(user_id=None),
            lambda place: self._client.retrieve(place, known, with_payload=payload, with_vectors=with_vectors),
        )
        records = {str(point.id): _record(point) for points in found for point in points}
        return [records[point_id] for point_id in known if point_id in records]

    def dense(
        self, collection: str, vector: Vectors, using: str, where: Where, limit: int, *, exact: bool
    ) -> list[Ranked]:
        """See MemoryStore."""
        return self.rank_many(collection, [Nearest(vector, using, where, limit, exact)])[0]

    def text(
        self, collection: str, terms: Sequence[str], field: str, where: Where, limit: int, *, k1: float, b: float
    ) -> list[Ranked]:
        """See MemoryStore."""
        return self.rank_many(collection, [Bm25(terms, field, where, limit, k1, b)])[0]

    def rank_many(self, collection: str, rankings: Sequence[Ranking]) -> list[list[Ranked]]:
        """See MemoryStore."""
        check_collection(collection)
        for ranking in rankings:
            check_ranking(ranking, self._fingerprint.dim)

        def fetch(wanted: Sequence[Ranking]) -> list[list[Ranked]]:
            found: list[list[Ranked]] = [[] for _ in wanted]
            with self._asking():
                asked: dict[str, list[int]] = {}
                for number, ranking in enumerate(wanted):
                    for place in self._places.of(collection, ranking.where):
                        asked.setdefault(place, []).append(number)
                for place, numbers in asked.items():
                    requests = [_request(wanted[number], tunable=self._places.tunable) for number in numbers]
                    answers = self._client.query_batch_points(place, requests)
                    for number, answer in zip(numbers, answers, strict=True):
                        found[number] += [Ranked(str(point.id), point.score) for point in answer.points]
            return found

        return best(fetch, rankings)

    def newest(self, collection: str, where: Where, limit: int, *, keys: Sequence[str] = ()) -> list[Record]:
        """See MemoryStore."""
        check_user(where)
        order = models.OrderByQuery(order_by=models.OrderBy(key="created_at", direction=models.Direction.DESC))

        def fetch(size: int) -> list[Record]:
            found = self._ask(
                collection,
                where,
                lambda place: self._client.query_points(
                    place, query=order, query_filter=_filter(where), limit=size, with_payload=["created_at", "index"]
                ),
            )
            return [_record(point) for answer in found for point in answer.points]

        return self.retrieve(collection, [record.id for record in latest(fetch, limit)], keys=keys)

    def scroll(
        self, collection: str, where: Where, *, with_vectors: bool = False, keys: Sequence[str] = ()
    ) -> Iterator[Record]:
        """See MemoryStore."""
        check_collection(collection)
        for place in self._places.of(collection, where):
            offset: models.ExtendedPointId | None = None
            while True:
                with self._asking():
                    page, offset = self._client.scroll(
                        place,
                        _filter(where),
                        limit=PAGE,
                        offset=offset,
                        with_payload=list(keys) or True,
                        with_vectors=with_vectors,
                    )
                yield from map(_record, page)
                if offset is None:
                    break

    def count(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        found = self._ask(collection, where, lambda place: self._client.count(place, _filter(where), exact=True))
        return sum(answer.count for answer in found)

    def delete(self, collection: str, where: Where) -> int:
        """See MemoryStore."""
        check_deletion(where)
        doomed = self.count(collection, where)
        self._ask(collection, where, lambda place: self._client.delete(place, _filter(where), wait=True))
        return doomed

    def purge(self) -> str:
        """See MemoryStore. A server's disk is out of reach; the sentence says who cleans it."""
        return self._places.purged

    def close(self) -> None:
        """See MemoryStore."""
        self._closed = True
        self._client.close()

    def _ask(self, collection: str, where: Where, call: Callable[[str], T]) -> list[T]:
        """The answer of every place that may hold what `where` lets through."""
        check_collection(collection)
        with self._asking():
            return [call(place) for place in self._places.of(collection, where)]

    @contextmanager
    def _asking(self) -> Iterator[None]:
        if self._closed:
            raise StoreError("the store is closed; open it again")
        with self._places.guard, _explained(self._address):
            yield


def open_qdrant(settings: Settings, fingerprint: Fingerprint, *, check: bool = True) -> QdrantStore:
    """The store on the server that `settings.qdrant_url` names, its collections made where missing.

    Raises:
        MissingPartError: the server does not answer, or is older than `OLDEST_SERVER`.
        StoreMismatchError: a collection was filled by something else, or is none of ours.
    """
    with ExitStack() as on_error:
        client, address = _connect(settings)
        on_error.callback(client.close)
        if address == IN_MEMORY:
            store = QdrantStore(client, MemoryPlaces(client, fingerprint.dim), fingerprint, address)
        else:
            with _explained(address):
                stored = catalogue.open_collections(client, settings.collection, fingerprint, check=check)
            store = QdrantStore(client, ServerPlaces(catalogue.names(settings.collection)), stored, address)
        on_error.pop_all()
    return store


@contextmanager
def rebuild_qdrant(settings: Settings, fingerprint: Fingerprint) -> Iterator[Rebuild]:
    """See `neuralstream.store.rebuilding`."""
    base = settings.collection
    with ExitStack() as stack:
        client, address = _connect(settings)
        stack.callback(client.close)
        if address == IN_MEMORY:
            raise StoreError("a store in memory starts empty: there is nothing to rebuild; set qdrant_url to a server")
        old = None
        with _explained(address):
            if not catalogue.is_earlier(client, base):
                stored = catalogue.open_collections(client, base, fingerprint, check=False)
                old = QdrantStore(client, ServerPlaces(catalogue.names(base)), stored, address)
            fresh = catalogue.begin_rebuild(client, base, fingerprint)
        with ExitStack() as on_error:
            on_error.callback(_abandon, client, fresh)
            yield Rebuild(old, QdrantStore(client, ServerPlaces(fresh), fingerprint, address))
            on_error.pop_all()
        with _explained(address):
            catalogue.finish_rebuild(client, base, fresh, fingerprint)


def read_earlier(settings: Settings) -> Iterator[Record]:
    """See `neuralstream.store.scroll_earlier`."""
    with ExitStack() as stack:
        client, address = _connect(settings)
        stack.callback(client.close)
        with _explained(address):
            if catalogue.is_earlier(client, settings.collection):
                yield from catalogue.scroll_earlier(client, settings.collection)


def _abandon(client: QdrantClient, fresh: Mapping[str, str]) -> None:
    # A server that fails here failed before: that error is the one to report, and the next rebuild tidies up.
    with suppress(ApiException):
        catalogue.abandon_rebuild(client, fresh.values())


def _connect(settings: Settings) -> tuple[QdrantClient, str]:
    """A client of a server that is new enough, and how messages name it."""
    assert settings.qdrant_url is not None
    url = settings.qdrant_url.get_secret_value()
    if url == IN_MEMORY:
        return QdrantClient(IN_MEMORY), IN_MEMORY
    timeout = math.ceil(settings.store_timeout.total_seconds())
    address = f"{Address.parse(url).url} (timeout {timeout} s)"
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    # The client's own check of the version would only warn.
    client = QdrantClient(url=url, api_key=key, timeout=timeout, check_compatibility=False)
    with ExitStack() as on_error:
        on_error.callback(client.close)
        try:
            with _explained(address):
                found = client.info().version
        except ValueError as error:
            raise MissingPartError(f"what answers at {address} is no Qdrant server; check qdrant_url") from error
        if tuple(map(int, re.findall(r"\d+", found)[:2])) < OLDEST_SERVER:
            needed = ".".join(map(str, OLDEST_SERVER))
            raise MissingPartError(f"the Qdrant server at {address} is version {found}; {needed} or later is needed")
        on_error.pop_all()
    return client, address


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """The client's errors as ours."""
    try:
        yield
    except ResponseHandlingException as error:
        raise MissingPartError(
            f"no answer from the Qdrant server at {address}: {error.source}; start it, correct qdrant_url, or raise "
            "store_timeout"
        ) from error
    except (ApiException, QdrantException, UnicodeEncodeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise StoreError(f"the Qdrant server at {address} refused: {reason}; its log says more") from error


def _request(ranking: Ranking, *, tunable: bool) -> models.QueryRequest:
    query: Any
    if isinstance(ranking, Nearest):
        # The client's local mode looks for vectors of several rows only when asked with rows.
        several = ranking.using in MULTIVECTORS
        query, using = _floats(ranking.vector[np.newaxis] if several else ranking.vector), ranking.using
        params = models.SearchParams(exact=ranking.exact)
    else:
        scoring = models.Bm25Scoring(bm25=models.Bm25Params(k=ranking.k1, b=ranking.b))
        query = models.TextQuery(text=models.TextQueryInput(query=query_text(ranking.terms), scoring=scoring))
        using = ranking.field
        params = models.SearchParams(idf=models.IdfCorpusParams(corpus=_filter(corpus(ranking.where))))
    return models.QueryRequest(
        query=query,
        using=using,
        filter=_filter(ranking.where),
        limit=ranking.limit,
        params=params if tunable else None,
        with_payload=False,
    )


def _filter(where: Where) -> models.Filter:
    must, must_not = conditions(where)
    return models.Filter(must=list(map(_condition, must)), must_not=list(map(_condition, must_not)))


def _condition(condition: Condition) -> models.FieldCondition | models.HasIdCondition:
    if isinstance(condition, Ids):
        return models.HasIdCondition(has_id=list(condition.ids))
    if isinstance(condition, AnyOf):
        return models.FieldCondition(key=condition.field, match=models.MatchAny(any=list(condition.values)))
    if isinstance(condition, Token):
        return models.FieldCondition(key=condition.field, match=models.MatchText(text=condition.token))
    limits: Any = models.DatetimeRange if condition.field in DATETIME_FIELDS else models.Range
    return models.FieldCondition(key=condition.field, range=limits(gte=condition.low, lte=condition.high))


def _floats(vector: Vectors) -> list[float]:
    floats: list[float] = np.asarray(vector, np.float32).tolist()
    return floats


def _record(point: Any) -> Record:
    vectors = {name: np.asarray(values, np.float32) for name, values in point.vector.items()} if point.vector else {}
    return Record(str(point.id), point.payload or {}, vectors)
