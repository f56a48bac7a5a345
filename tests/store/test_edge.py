from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import numpy as np
import pytest

from neuralstream.config import Settings
from neuralstream.errors import StoreError, StoreLockedError, StoreMismatchError
from neuralstream.store import edge, folder, open_store, rebuilding, scroll_earlier
from neuralstream.store.base import Bm25, Fingerprint, Nearest, Where
from neuralstream.store.schema import GEMS, SCHEMA_VERSION, TURNS, VECTORS

FINGERPRINT = Fingerprint("tiny", "0123456789abcdef", 8, "english-1")
OTHER = Fingerprint("large", "fedcba9876543210", 16, "english-2")
EVERYTHING = Where(None)
MARK = "xylophonequartz"


@pytest.fixture
def settings(home):
    """Settings of an embedded store in a folder of its own."""
    return Settings(home=home)


def test_what_was_written_is_there_after_reopening(settings, make):
    """Points of both collections survive closing, under the fingerprint they were written with."""
    turn, gem = make("ann", 0, terms="redis"), make("ann", 1, kind="gem")
    with _opened(settings) as store:
        store.upsert(TURNS, [turn])
        store.upsert(GEMS, [gem])
    with _opened(settings) as store:
        assert store.fingerprint == FINGERPRINT
        assert [record.id for record in store.scroll(TURNS, EVERYTHING)] == [turn.id]
        assert [record.id for record in store.scroll(GEMS, EVERYTHING)] == [gem.id]
        assert store.text(TURNS, ["redis"], "terms", Where("ann", kind="turn"), 5, k1=1, b=1)[0].id == turn.id


def test_a_closed_store_says_so(settings):
    """Closing twice is fine; using the store afterwards is not."""
    store = open_store(settings, FINGERPRINT)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.count(TURNS, EVERYTHING)


def test_text_that_is_not_unicode_is_refused(settings, make):
    """A lone surrogate, which no file can hold, is a StoreError and stores nothing."""
    with _opened(settings) as store:
        with pytest.raises(StoreError):
            store.upsert(TURNS, [make("ann", 0), make("ann", 1, data={"text": "a\ud800b"})])
        assert store.count(TURNS, EVERYTHING) == 0


def test_threads_may_share_a_store(settings, make):
    """Writers and readers in several threads lose nothing and see no half-written state."""
    failures = []

    def work(number):
        user = f"user-{number}-"
        try:
            for n in range(30):
                store.upsert(TURNS, [make(user, n, terms="redis", created_at="2026-05-01T12:00:00Z", index=n)])
                assert len(store.newest(TURNS, Where(user), 100)) == n + 1
                assert len(store.text(TURNS, ["redis"], "terms", Where(user, kind="turn"), 100, k1=1, b=1)) == n + 1
        except Exception as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    with _opened(settings) as store:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.count(TURNS, EVERYTHING) == 120


class TestFingerprint:
    def test_another_one_is_refused(self, settings):
        """The message names both embedders and the way out; the store stays usable as it was."""
        open_store(settings, FINGERPRINT).close()
        with pytest.raises(StoreMismatchError, match=r"tiny.*large.*neuralstream reindex"):
            open_store(settings, OTHER)
        open_store(settings, FINGERPRINT).close()

    @pytest.mark.parametrize("changed", [{"analyser": "english-2"}, {"embedder_digest": "f" * 16}])
    def test_the_same_length_is_not_enough(self, settings, changed):
        """Another analyser, or other weights of the same length, are another store."""
        open_store(settings, FINGERPRINT).close()
        with pytest.raises(StoreMismatchError):
            open_store(settings, replace(FINGERPRINT, **changed))

    def test_unchecked_it_opens_under_its_own(self, settings, make):
        """With check=False the store is read by what it was filled by."""
        with _opened(settings) as store:
            store.upsert(TURNS, [make("ann", 0)])
        with _opened(settings, OTHER, check=False) as store:
            assert store.fingerprint == FINGERPRINT
            assert store.count(TURNS, EVERYTHING) == 1

    def test_a_later_schema_is_refused(self, settings):
        """A store of a later version is left alone."""
        open_store(settings, FINGERPRINT).close()
        _record_schema(settings, SCHEMA_VERSION + 1)
        with pytest.raises(StoreMismatchError, match=f"schema version {SCHEMA_VERSION + 1}.*the version that wrote it"):
            open_store(settings, FINGERPRINT)

    def test_an_earlier_schema_is_filled_anew(self, settings, make):
        """A store of an earlier version is refused by a message that names reindex, which can read it."""
        with _opened(settings) as store:
            store.upsert(TURNS, [make("ann", 0)])
        _record_schema(settings, SCHEMA_VERSION - 1)
        with pytest.raises(StoreMismatchError, match=f"schema version {SCHEMA_VERSION - 1}.*neuralstream reindex"):
            open_store(settings, FINGERPRINT)
        with rebuilding(settings, FINGERPRINT) as (old, new):
            assert old.count(TURNS, EVERYTHING) == 1
            new.upsert(TURNS, [make("ann", 0)])
        with _opened(settings) as store:
            assert store.count(TURNS, EVERYTHING) == 1

    def test_a_damaged_manifest_is_reported(self, settings):
        """An unreadable store.json is an error that names it, never an empty store."""
        open_store(settings, FINGERPRINT).close()
        (settings.home / "store" / "store.json").write_text("{")
        with pytest.raises(StoreError, match=r"store\.json"):
            open_store(settings, FINGERPRINT)

    def test_damaged_files_are_reported(self, settings):
        """Files that the engine cannot read are an error that names the folder, never an empty store."""
        open_store(settings, FINGERPRINT).close()
        [damaged] = (settings.home / "store").glob("generation-*/turns/edge_config.json")
        damaged.write_text("{")
        with pytest.raises(StoreError, match="turns cannot be opened"):
            open_store(settings, FINGERPRINT)


class TestLock:
    def test_a_second_opener_learns_who_holds_it(self, settings):
        """In one process too, the error names the holder and the way to share."""
        with _opened(settings), pytest.raises(StoreLockedError, match=rf"process {os.getpid()} .* since .*qdrant_url"):
            open_store(settings, FINGERPRINT)
        open_store(settings, FINGERPRINT).close()

    def test_a_killed_process_frees_it(self, settings):
        """While another process holds the store its pid is named; once it is killed the store opens."""
        holder = _start(
            "print('open', flush=True); sys.stdin.read()", settings, "neuralstream", "replay", "my secret.log"
        )
        try:
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(StoreLockedError, match=rf"process {holder.pid} \(`neuralstream replay …`\)") as caught:
                open_store(settings, FINGERPRINT)
            assert "secret" not in str(caught.value)
        finally:
            _kill(holder)
            holder.stdout.close()
        open_store(settings, FINGERPRINT).close()


@pytest.mark.slow
@pytest.mark.parametrize("sealed", [edge._SEALED, 50])
def test_acknowledged_points_survive_kill_9(settings, monkeypatch, sealed):
    """Every point whose upsert returned is there after the process was killed in the middle of writing or sealing."""
    monkeypatch.setattr(edge, "_SEALED", sealed)
    body = (
        "for n in range(100000):\n"
        "    ids = [str(uuid.uuid5(uuid.NAMESPACE_URL, f'{n}-{m}')) for m in range(3)]\n"
        "    payload = {'user_id': 'ann', 'kind': 'turn', 'terms': 'redis'}\n"
        "    store.upsert('turns', [Point(i, payload, {'text': numpy.ones(8, numpy.float32)}) for i in ids])\n"
        "    print(n, flush=True)\n"
    )
    for wanted in (20, 300):
        with _opened(settings) as store:
            store.delete(TURNS, Where("ann"))
        writer = _start(body, settings, "writer")
        for _ in range(wanted):
            writer.stdout.readline()
        _kill(writer)
        last = max([wanted - 1, *map(int, writer.stdout.read().splitlines())])
        writer.stdout.close()
        acknowledged = {str(uuid5(NAMESPACE_URL, f"{n}-{m}")) for n in range(last + 1) for m in range(3)}
        with _opened(settings) as store:
            written = {record.id for record in store.scroll(TURNS, EVERYTHING)}
            found = store.text(TURNS, ["redis"], "terms", Where("ann", kind="turn"), 10**6, k1=1, b=1)
        assert acknowledged <= written
        assert acknowledged <= {hit.id for hit in found}


class TestSealing:
    @pytest.fixture
    def sealed(self, settings, make, monkeypatch):
        """A store whose files hold few points each, with 300 turns in them, every second of them written twice."""
        monkeypatch.setattr(edge, "_SEALED", 50)
        store = open_store(settings, FINGERPRINT)
        for start in range(0, 300, 20):
            store.upsert(TURNS, [_numbered(make, n, "before") for n in range(start, start + 20)])
        store.upsert(TURNS, [_numbered(make, n, "after") for n in range(0, 300, 2)])
        yield store
        store.close()

    def test_every_search_finds_what_was_sealed(self, settings, sealed):
        """What lies in several files is one memory: found, counted and replaced as before, after reopening too."""
        assert sealed._shards[TURNS].info().segments_count > 2
        words, before = _words(sealed), _contents(sealed)
        assert words == {"before": 150, "after": 150, "redis": 300}
        sealed.close()
        with _opened(settings) as store:
            assert _words(store) == words
            assert _contents(store) == before

    @pytest.mark.parametrize("using", ["text", "near"])
    def test_an_inexact_search_has_exact_scores(self, sealed, using):
        """The nearest are found by compressed vectors and scored by the whole ones."""
        query = np.random.default_rng(5).normal(size=8).astype(np.float32)
        exact, found = (
            sealed.dense(TURNS, query, using, Where("ann", kind="turn"), 20, exact=e) for e in (True, False)
        )
        scores = {
            hit.id: hit.score for hit in sealed.dense(TURNS, query, using, Where("ann", kind="turn"), 300, exact=True)
        }
        assert [hit.score for hit in found] == pytest.approx([scores[hit.id] for hit in found], abs=1e-6)
        assert len({hit.id for hit in exact} & {hit.id for hit in found}) >= 19

    def test_deleted_text_is_nowhere_in_the_folder(self, settings, sealed, make):
        """Purging rewrites sealed files too."""
        sealed.upsert(TURNS, [make("bob", n, terms=MARK, data={"text": MARK}) for n in range(200)])
        sealed.delete(TURNS, Where("bob"))
        before = _contents(sealed)
        sealed.purge()
        assert not _holds(settings.home, MARK)
        assert _contents(sealed) == before


class TestScope:
    def test_what_is_left_out_of_a_query_changes_no_answer(self, settings, make):
        """However users, kinds and times come and go, rankings equal those of a store that leaves no condition out."""
        random = np.random.default_rng(7)
        with _opened(settings) as store, closing(open_store(Settings(qdrant_url=":memory:"), FINGERPRINT)) as other:
            for step in range(60):
                # One user with one kind for long stretches, so that conditions can be left out and have to come back.
                users = ("ann", "bob") if step % 20 > 12 else ("ann",)
                _change([store, other], make, random, users, step)
                where = Where(
                    str(random.choice(["ann", "bob"])),
                    kind=str(random.choice(["turn", "session"])),
                    until=[None, _minute(step), _minute(step - 5)][step % 3],
                )
                query = random.normal(size=8).astype(np.float32)
                rankings = [
                    Nearest(query, "text", where, 100, exact=True),
                    Bm25(["redis", "port"], "terms", where, 100, 0.9, 0.4),
                    Bm25(["redis", "port"], "terms_near", where, 100, 0.9, 0.4),
                ]
                for mine, theirs in zip(*(s.rank_many(TURNS, rankings) for s in (store, other)), strict=True):
                    assert dict(mine) == pytest.approx(dict(theirs), abs=1e-4)

    def test_it_is_asked_again_after_reopening(self, settings, make):
        """A store that held one user when it was closed holds two after another process wrote to it."""
        for user in ("ann", "bob"):
            with _opened(settings) as store:
                store.upsert(TURNS, [make(user, n, terms="redis") for n in range(3)])
                found = store.text(TURNS, ["redis"], "terms", Where(user, kind="turn"), 10, k1=1, b=1)
                assert {hit.id for hit in found} == {make(user, n).id for n in range(3)}

    def test_a_covered_turn_depends_on_the_time_asked_about(self, settings, make):
        """A gem made after `until` covers nothing, even where every turn was said before."""
        with _opened(settings) as store:
            turn = make("ann", 0, terms="redis", created_at=_minute(0).isoformat(), covered_at=_minute(9).isoformat())
            store.upsert(TURNS, [turn])
            for minute, covered in ((5, False), (9, True)):
                where = Where("ann", kind="turn", until=_minute(minute), covered=covered)
                assert len(store.text(TURNS, ["redis"], "terms", where, 5, k1=1, b=1)) == 1


class TestPurge:
    @pytest.mark.slow
    def test_purging_keeps_no_memory(self, settings, make):
        """Threads that purge one after the other do not each hold on to what a rewrite takes."""
        status = Path("/proc/self/status")
        if not status.exists():
            pytest.skip("needs Linux's /proc")

        def own_mb():
            lines = status.read_text().splitlines()
            return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

        words = [f"word{n}" for n in range(3000)]
        together = threading.Barrier(4)
        with _opened(settings) as store, ThreadPoolExecutor(4) as pool:
            store.upsert(TURNS, [make("ann", n, terms=" ".join(words[n : n + 100])) for n in range(1000)])
            list(pool.map(lambda _: together.wait(), range(4)))
            pool.submit(store.purge).result()
            before = own_mb()
            for _ in range(4):
                pool.submit(store.purge).result()
            assert own_mb() - before < 10

    def test_deleted_text_is_nowhere_in_the_folder(self, settings, make):
        """After delete and purge no file holds the text, and all else is as it was."""
        with _opened(settings) as store:
            _fill(store, make)
            before = _contents(store)
            assert _holds(settings.home, MARK)
            assert "1 turn points" in store.purge()
            assert not _holds(settings.home, MARK)
            assert _contents(store) == before
            store.upsert(TURNS, [make("ann", "later", terms="redis")])
        with _opened(settings) as store:
            assert store.count(TURNS, Where("ann")) == 2

    @pytest.mark.parametrize(
        ("step", "purged"),
        [
            ((edge, "_write"), False),
            ((folder.StoreFolder, "publish"), False),
            ((Path, "replace"), False),
            ((folder.StoreFolder, "sweep"), True),
        ],
        ids=["copying", "publishing", "renaming", "removing"],
    )
    def test_a_crash_loses_nothing(self, settings, make, monkeypatch, step, purged):
        """Whatever step a crash falls on, the next open finds every surviving point and tidies up."""
        store = open_store(settings, FINGERPRINT)
        _fill(store, make)
        before = _contents(store)
        with monkeypatch.context() as patch:
            patch.setattr(*step, _crash)
            with pytest.raises(Crash):
                store.purge()
            store.close()
        with _opened(settings) as store:
            assert _contents(store) == before
        assert len(list((settings.home / "store").glob("generation-*"))) == 1
        assert _holds(settings.home, MARK) is not purged


class TestRebuild:
    def test_the_new_store_takes_the_old_ones_place(self, settings, make):
        """What the block carries over is there afterwards, under the new fingerprint, and nothing else."""
        point = make("ann", 0, terms="redis")
        with _opened(settings) as store:
            _fill(store, make)
        with rebuilding(settings, replace(FINGERPRINT, analyser="english-2")) as (old, new):
            assert old.fingerprint == FINGERPRINT
            assert old.count(TURNS, EVERYTHING) == 1
            assert new.count(TURNS, EVERYTHING) == 0
            new.upsert(TURNS, [point])
        with _opened(settings, replace(FINGERPRINT, analyser="english-2")) as store:
            assert [record.id for record in store.scroll(TURNS, EVERYTHING)] == [point.id]
            assert store.count(GEMS, EVERYTHING) == 0
        assert sorted(path.name[:10] for path in (settings.home / "store").iterdir()) == [
            "generation",
            "lock",
            "store.json",
        ]

    def test_an_error_leaves_the_old_one(self, settings, make):
        """A block that fails changes nothing and leaves nothing behind."""
        with _opened(settings) as store:
            _fill(store, make)
            before = _contents(store)
        with pytest.raises(KeyError), rebuilding(settings, OTHER):
            raise KeyError
        assert not (settings.home / "store" / "next").exists()
        with _opened(settings) as store:
            assert _contents(store) == before

    @pytest.mark.parametrize(
        ("step", "swapped"),
        [((Path, "rename"), False), ((folder.StoreFolder, "sweep"), True)],
        ids=["moving", "removing"],
    )
    def test_a_crash_leaves_one_whole_store(self, settings, make, monkeypatch, step, swapped):
        """A crash while the new store takes over leaves the old or the new one, complete."""
        with _opened(settings) as store:
            _fill(store, make)
        with monkeypatch.context() as patch, pytest.raises(Crash), rebuilding(settings, OTHER):
            patch.setattr(*step, _crash)
        with _opened(settings, FINGERPRINT, check=False) as store:
            assert store.fingerprint == (OTHER if swapped else FINGERPRINT)
            assert store.count(TURNS, EVERYTHING) == (0 if swapped else 1)

    def test_nobody_else_opens_it_meanwhile(self, settings):
        """The folder stays locked until the rebuild is over."""
        with rebuilding(settings, FINGERPRINT), pytest.raises(StoreLockedError):
            open_store(settings, FINGERPRINT)
        open_store(settings, FINGERPRINT).close()


def test_the_embedded_store_has_no_earlier_form(settings):
    """Only servers hold collections of earlier versions."""
    assert list(scroll_earlier(settings)) == []


class Crash(BaseException):
    pass


def _crash(*_, **__):
    raise Crash


def _opened(settings, fingerprint=FINGERPRINT, *, check=True):
    return closing(open_store(settings, fingerprint, check=check))


def _minute(minute):
    return datetime(2026, 5, 1, 12, tzinfo=UTC) + timedelta(minutes=minute)


def _change(stores, make, random, users, step):
    """Write some points to each store, and delete some of a user's now and then."""
    points = []
    for n in range(3):
        kind = "session" if step % 15 == 14 else "turn"
        terms = " ".join(random.choice(["redis", "port", "nginx"], size=4))
        held = {"terms": terms} | ({"terms_near": terms * 2} if kind == "turn" else {})
        created_at = {"created_at": _minute(step + n).isoformat()} if step != 40 else {}
        vectors = ("text",) if kind == "turn" else ()
        points.append(make(str(random.choice(users)), f"{step}-{n}", kind=kind, vectors=vectors, **held, **created_at))
    for store in stores:
        store.upsert(TURNS, points)
        if step % 20 == 19:
            store.delete(TURNS, Where("bob"))


def _numbered(make, n, word):
    return make("ann", f"{n}", terms=f"redis {word}", created_at=f"2026-05-01T12:00:00.{n:06}Z", index=n)


def _words(store):
    """How many turns each word is found in."""
    where = Where("ann", kind="turn")
    return {
        word: len(store.text(TURNS, [word], "terms", where, 1000, k1=1, b=1)) for word in ("before", "after", "redis")
    }


def _record_schema(settings, version):
    manifest = settings.home / "store" / "store.json"
    recorded = f'"schema_version": {SCHEMA_VERSION}'
    assert recorded in manifest.read_text()
    manifest.write_text(manifest.read_text().replace(recorded, f'"schema_version": {version}'))


def _start(body, settings, *argv):
    """A process that has `store` open under `settings` and runs `body`."""
    script = (
        "import sys, uuid, numpy\n"
        "from pathlib import Path\n"
        "from neuralstream.config import Settings\n"
        "from neuralstream.store import open_store\n"
        "from neuralstream.store.base import Fingerprint, Point\n"
        f"sys.argv = {list(argv)!r}\n"
        f"store = open_store(Settings(home=Path({str(settings.home)!r})), {FINGERPRINT!r})\n" + body
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def _kill(process):
    process.kill()
    process.wait()
    process.stdin.close()


def _fill(store, make):
    """One turn and three gems that stay, and deleted ones whose text is MARK."""
    kept = make("ann", "kept", vectors=VECTORS, terms="redis port")
    store.upsert(TURNS, [kept, make("bob", "gone", terms=MARK, data={"text": MARK})])
    store.upsert(GEMS, [make("ann", n, kind="gem", vectors=("text",), topics=["redis"]) for n in range(3)])
    store.upsert(GEMS, [make("bob", "gem", kind="gem", data={"text": MARK})])
    store.delete(TURNS, Where("bob"))
    store.delete(GEMS, Where("bob"))


def _contents(store):
    return {
        record.id: (record.payload, {name: vector.tolist() for name, vector in record.vectors.items()})
        for collection in (TURNS, GEMS)
        for record in store.scroll(collection, EVERYTHING, with_vectors=True)
    }


def _holds(folder, text):
    return any(text.encode() in chunk for file in folder.rglob("*") if file.is_file() for chunk in _written(file))


def _written(file):
    """What was written of a file; the engine's files are long and mostly holes."""
    size = file.stat().st_size
    with file.open("rb") as data:
        position = 0
        while position < size:
            try:
                start = os.lseek(data.fileno(), position, os.SEEK_DATA)
            except OSError:
                return
            position = os.lseek(data.fileno(), start, os.SEEK_HOLE)
            data.seek(start)
            yield data.read(position - start)
