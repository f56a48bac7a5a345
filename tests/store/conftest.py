"""Stores to test, one per engine, and points to put into them."""

from __future__ import annotations

import os
from contextlib import ExitStack
from itertools import count
from uuid import NAMESPACE_URL, uuid4, uuid5

import numpy as np
import pytest

from neuralstream.config import Settings
from neuralstream.store import open_store
from neuralstream.store.base import Fingerprint, Point
from neuralstream.store.schema import MULTIVECTORS

DIM = 8
FINGERPRINT = Fingerprint("tiny", "0123456789abcdef", DIM, "english-1")
SERVER = "NEURALSTREAM_TEST_QDRANT_URL"

_users = count()


@pytest.fixture
def home(tmp_path):
    """A data folder of its own."""
    return tmp_path / "data"


@pytest.fixture(scope="session", params=["edge", "memory", "server"])
def store(request, tmp_path_factory):
    """An open store of each engine. Tests share it, so each works under a user of its own."""
    with ExitStack() as stack:
        if request.param == "edge":
            settings = Settings(home=tmp_path_factory.mktemp("shared"))
        elif request.param == "memory":
            settings = Settings(qdrant_url=":memory:")
        elif SERVER in os.environ:
            settings = Settings(qdrant_url=os.environ[SERVER], collection=f"test-{uuid4().hex}")
            stack.callback(_delete_collections, settings)
        else:
            pytest.skip(f"{SERVER} names no Qdrant server")
        opened = open_store(settings, FINGERPRINT)
        stack.callback(opened.close)
        yield opened


@pytest.fixture
def user():
    """A user nobody else is; another name that begins with it is free too."""
    return f"user-{next(_users)}-"


def _delete_collections(settings):
    from qdrant_client import QdrantClient

    client = QdrantClient(url=settings.qdrant_url.get_secret_value(), check_compatibility=False)
    for collection in client.get_collections().collections:
        if collection.name.startswith(settings.collection):
            client.delete_collection(collection.name)
    client.close()


@pytest.fixture(scope="session")
def make():
    """Makes a point: `make(user, "7", terms="redis port")`; vectors are drawn from its id."""
    return _make_point


def _make_point(user, name, *, kind="turn", vectors=("text", "near"), **payload):
    point_id = str(uuid5(NAMESPACE_URL, f"{user}/{name}"))
    random = np.random.default_rng(uuid5(NAMESPACE_URL, point_id).int % 2**32)
    drawn = {
        vector: random.normal(size=(3, DIM) if vector in MULTIVECTORS else DIM).astype(np.float32) for vector in vectors
    }
    return Point(point_id, {"user_id": user, "kind": kind, **payload}, drawn)
