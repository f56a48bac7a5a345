import asyncio
import threading

from neuralstream.serve import lifecycle


def test_memory_is_given_back_again_and_again(monkeypatch):
    """While the service runs, and no more when it has ended."""
    given = threading.Semaphore(0)
    monkeypatch.setattr(lifecycle, "_GIVE_BACK_SECONDS", 0)
    monkeypatch.setattr(lifecycle, "give_back", given.release)

    async def run():
        async with lifecycle._giving_back():
            for _ in range(3):
                assert await asyncio.to_thread(given.acquire, timeout=60)
        return asyncio.all_tasks() - {asyncio.current_task()}

    left = asyncio.run(run())
    assert all(task.cancelling() for task in left)
