"""The collections of a server, tried on the client's local mode, which has collections, aliases and metadata too."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import product
from uuid import uuid4

import pytest
from qdrant_client import QdrantClient, models

from neuralstream.config import Settings
from neuralstream.errors import StoreMismatchError
from neuralstream.store import catalogue, open_store, qdrant, rebuilding, scroll_earlier
from neuralstream.store.base import Fingerprint, Where
from neuralstream.store.schema import GEMS, TURNS

FINGERPRINT = Fingerprint("tiny", "0123456789abcdef", 8, "english-1")
OTHER = replace(FINGERPRINT, embedder="large", embedder_digest="fedcba9876543210")
EVERYTHING = Where(None)
SERVER = "NEURALSTREAM_TEST_QDRANT_URL"

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")


@pytest.fixture(params=["memory", "server"])
def client(request, monkeypatch):
    """A client, behind every store that is opened under `settings`."""
    if request.param == "memory":
        made = QdrantClient(":memory:")
    elif SERVER in os.environ:
        made = QdrantClient(url=os.environ[SERVER], check_compatibility=False)
    else:
        pytest.skip(f"{SERVER} names no Qdrant server")
    close = made.close
    monkeypatch.setattr(made, "close", lambda: None)
    monkeypatch.setattr(qdrant, "_connect", lambda _: (made, "the test's server"))
    yield made
    close()


@pytest.fixture
def settings(client):
    """Settings of a store with collections of its own."""
    settings = Settings(qdrant_url="http://qdrant.test", collection=f"test-{uuid4().hex}")
    yield settings
    for name in _collections(client, settings):
        client.delete_collection(name)


def test_collections_are_made_and_found_again(client, settings, make):
    """Gems lie under the collection's name, turns beside it, and both are there at the next open."""
    store = open_store(settings, FINGERPRINT)
    store.upsert(TURNS, [make("ann", 0)])
    assert _collections(client, settings) == [settings.collection, f"{settings.collection}_turns"]
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 1


def test_another_fingerprint_is_refused(settings):
    """The message names both embedders and the way out."""
    open_store(settings, FINGERPRINT)
    with pytest.raises(StoreMismatchError, match=r"tiny.*large.*neuralstream reindex"):
        open_store(settings, OTHER)
    assert open_store(settings, OTHER, check=False).fingerprint == FINGERPRINT


def test_an_earlier_schema_is_filled_anew(settings, make, monkeypatch):
    """Collections of an earlier version are refused by a message that names reindex, which can read them."""
    with monkeypatch.context() as patch:
        patch.setattr(catalogue, "SCHEMA_VERSION", 1)
        open_store(settings, FINGERPRINT, check=False).upsert(TURNS, [make("ann", 0)])
    with pytest.raises(StoreMismatchError, match=r"schema version 1.*neuralstream reindex"):
        open_store(settings, FINGERPRINT)
    with rebuilding(settings, FINGERPRINT) as (old, new):
        new.upsert(TURNS, [make("ann", 1), *(make("ann", 0) for _ in old.scroll(TURNS, EVERYTHING))])
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 2


def test_an_earlier_collection_is_left_alone(client, settings):
    """A collection with one unnamed vector is recognised, and nothing is made, changed or deleted."""
    _fill_earlier(client, settings)
    for check in (True, False):
        with pytest.raises(StoreMismatchError, match=r"earlier NeuralStream.*neuralstream reindex"):
            open_store(settings, FINGERPRINT, check=check)
    assert _collections(client, settings) == [settings.collection]
    assert client.count(settings.collection).count == 300


def test_a_foreign_collection_is_left_alone(client, settings):
    """A collection that records no fingerprint is somebody else's."""
    vector = models.VectorParams(size=8, distance=models.Distance.COSINE)
    client.create_collection(settings.collection, vectors_config={"text": vector})
    with pytest.raises(StoreMismatchError, match="not made by NeuralStream"):
        open_store(settings, FINGERPRINT)
    assert _collections(client, settings) == [settings.collection]


def test_an_earlier_collection_is_migrated(client, settings, make):
    """Its payloads are read, and once the new store is filled it takes over the name."""
    _fill_earlier(client, settings)
    with rebuilding(settings, FINGERPRINT) as (old, new):
        assert old is None
        earlier = list(scroll_earlier(settings))
        assert sorted(record.payload["content"] for record in earlier) == sorted(f"gem {n}" for n in range(300))
        new.upsert(GEMS, [make("ann", record.id, kind="gem", data=record.payload) for record in earlier])
    assert open_store(settings, FINGERPRINT).count(GEMS, Where("ann")) == 300
    assert list(scroll_earlier(settings)) == []


def test_rebuilding_replaces_both_collections_again_and_again(client, settings, make):
    """Each rebuild ends with its own points under the old names, and leaves no other collection behind."""
    open_store(settings, FINGERPRINT).upsert(TURNS, [make("ann", "old")])
    for n, fingerprint in enumerate((OTHER, FINGERPRINT, OTHER)):
        with rebuilding(settings, fingerprint) as (old, new):
            assert old.count(TURNS, EVERYTHING) == 1
            assert new.count(TURNS, EVERYTHING) == 0
            new.upsert(TURNS, [make("ann", n)])
        [record] = open_store(settings, fingerprint).scroll(TURNS, EVERYTHING)
        assert record.id == make("ann", n).id
        assert len(_collections(client, settings)) == 2


def test_a_failed_rebuild_leaves_the_old_collections(client, settings, make):
    """A block that fails changes nothing and leaves nothing behind."""
    open_store(settings, FINGERPRINT).upsert(TURNS, [make("ann", 0)])
    before = _collections(client, settings)
    with pytest.raises(KeyError), rebuilding(settings, OTHER):
        raise KeyError
    assert _collections(client, settings) == before
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 1


def test_an_abandoned_rebuild_is_tidied_up_by_the_next(client, settings, make):
    """Collections of a rebuild that died unfinished are not taken for memory."""
    open_store(settings, FINGERPRINT).upsert(TURNS, [make("ann", 0)])
    catalogue.begin_rebuild(client, settings.collection, OTHER)
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 1
    with rebuilding(settings, OTHER):
        pass
    assert len(_collections(client, settings)) == 2


@pytest.mark.parametrize("rebuilt_before", [False, True])
@pytest.mark.parametrize("crash", [*product(["delete_collection", "update_collection_aliases"], [0, 1])])
def test_a_crash_while_replacing_is_completed(client, settings, monkeypatch, rebuilt_before, crash):
    """Once the new collections are ready, the next open finishes what a crash interrupted."""
    open_store(settings, FINGERPRINT)
    if rebuilt_before:
        with rebuilding(settings, FINGERPRINT):
            pass
    fresh = catalogue.begin_rebuild(client, settings.collection, OTHER)
    client.upsert(fresh[TURNS], [models.PointStruct(id=str(uuid4()), vector={}, payload={"user_id": "ann"})])
    step, calls = crash
    with monkeypatch.context() as patch:
        patch.setattr(client, step, _crashing(getattr(client, step), calls))
        with pytest.raises(Crash):
            catalogue.finish_rebuild(client, settings.collection, fresh, OTHER)
    store = open_store(settings, OTHER)
    assert store.count(TURNS, EVERYTHING) == 1
    with rebuilding(settings, OTHER):
        pass
    assert len(_collections(client, settings)) == 2


def test_a_crash_before_the_new_collections_are_ready_changes_nothing(client, settings, make, monkeypatch):
    """A rebuild that was not finished is as if it had not begun."""
    open_store(settings, FINGERPRINT).upsert(TURNS, [make("ann", 0)])
    fresh = catalogue.begin_rebuild(client, settings.collection, OTHER)
    with monkeypatch.context() as patch:
        patch.setattr(client, "update_collection", _crashing(client.update_collection, 0))
        with pytest.raises(Crash):
            catalogue.finish_rebuild(client, settings.collection, fresh, OTHER)
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 1


def test_a_crash_while_making_the_collections_is_made_good(client, settings, monkeypatch):
    """Where only the gems' collection was made, the turns' follows under the same fingerprint."""
    with monkeypatch.context() as patch:
        patch.setattr(client, "create_collection", _crashing(client.create_collection, 1))
        with pytest.raises(Crash):
            open_store(settings, FINGERPRINT)
    assert open_store(settings, OTHER, check=False).fingerprint == FINGERPRINT
    assert open_store(settings, FINGERPRINT).count(TURNS, EVERYTHING) == 0


class Crash(BaseException):
    pass


def _crashing(call, times):
    """`call`, which works so many times and then crashes."""
    left = iter(range(times))

    def wrapped(*arguments, **named):
        if next(left, None) is None:
            raise Crash
        return call(*arguments, **named)

    return wrapped


def _collections(client, settings):
    return sorted(c.name for c in client.get_collections().collections if c.name.startswith(settings.collection))


def _fill_earlier(client, settings):
    client.create_collection(
        settings.collection, vectors_config=models.VectorParams(size=1024, distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(id=n, vector=[1.0] * 1024, payload={"gem_id": str(n), "content": f"gem {n}"})
        for n in range(300)
    ]
    client.upsert(settings.collection, points)
