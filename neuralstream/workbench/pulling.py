"""Downloading public labelled sets, which are not ours to ship.

What was downloaded is trusted on first sight: its SHA-256 is written beside it, in the form that `sha256sum -c` reads,
and another download has to give the same bytes. The publishers' files have no checksum that this project could verify.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import httpx

from neuralstream.errors import DatasetError, MissingPartError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["PUBLIC_SETS", "PublicSet", "Pulled", "public_set", "pull"]

_TIMEOUT_SECONDS = 60.0
"""Longest silence of the server."""

_AS_IT_IS = {"accept-encoding": "identity"}
"""Unpacked, so that the length the server tells is the file's."""


class PublicSet(NamedTuple):
    """A set somebody else publishes: its name and format here, where it lies, and on what terms."""

    name: str
    format: str
    url: str
    licence: str
    terms: str
    cite: str

    @property
    def file(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


PUBLIC_SETS = (
    PublicSet(
        "locomo",
        "locomo",
        "https://raw.githubusercontent.com/snap-research/locomo/main/data/locomo10.json",
        "CC-BY-NC-4.0",
        "attribution; no commercial use",
        "Maharana et al., Evaluating Very Long-Term Conversational Memory of LLM Agents, ACL 2024",
    ),
    PublicSet(
        "longmemeval",
        "longmemeval",
        "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned/resolve/main/longmemeval_s_cleaned.json",
        "MIT",
        "the licence's notice goes with copies",
        "Wu et al., LongMemEval: Benchmarking Chat Assistants on Long-Term Interactive Memory, ICLR 2025",
    ),
)


class Pulled(NamedTuple):
    """A set that is here now: its SPEC, its digest, and whether this call downloaded it."""

    spec: str
    sha256: str
    downloaded: bool


def public_set(name: str) -> PublicSet:
    """The public set of a name.

    Raises:
        DatasetError: there is none.
    """
    for one in PUBLIC_SETS:
        if one.name == name:
            return one
    raise DatasetError(f"no public set is called {name!r}; there are {', '.join(one.name for one in PUBLIC_SETS)}")


def pull(
    public: PublicSet, folder: Path, progress: Callable[[str, int, int | None], object] = lambda *_: None
) -> Pulled:
    """Have a public set in a folder, downloading it where it is not there yet. Whoever calls has accepted its licence.

    Args:
        public: which.
        folder: gets the file, and its checksum beside it.
        progress: told the file's name, megabytes done, and megabytes in all where that is known.

    Raises:
        MissingPartError: it cannot be downloaded; what there was stays as it was.
        DatasetError: its bytes are not those of the first download.
    """
    file = folder / public.file
    record = folder / f"{public.file}.sha256"
    known = record.read_text(encoding="utf-8").split()[0] if record.is_file() else None
    downloaded = not file.is_file()
    if downloaded:
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{public.file}.part"
        digest = _download(public, part, progress)
    else:
        part = file
        digest = _sha256(file)
    if known and digest != known:
        raise DatasetError(
            f"{part} has the SHA-256 {digest}, and {known} when it was first downloaded: it was damaged, or its "
            f"publisher changed it. Figures measured on the two cannot be compared; remove {part} to download it "
            f"again, and {record} to accept another version"
        )
    if not known:
        record.write_text(f"{digest}  {public.file}\n", encoding="utf-8")
    if downloaded:
        part.replace(file)
    return Pulled(f"{public.format}:{file}", digest, downloaded)


def _download(public: PublicSet, part: Path, progress: Callable[[str, int, int | None], object]) -> str:
    """Stream the set into a file; returns its SHA-256."""
    digest = hashlib.sha256()
    done = 0
    try:
        with (
            httpx.stream(
                "GET", public.url, headers=_AS_IT_IS, follow_redirects=True, timeout=_TIMEOUT_SECONDS
            ) as answer,
            part.open("wb") as out,
        ):
            answer.raise_for_status()
            size = answer.headers.get("content-length")
            for piece in answer.iter_bytes():
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                progress(public.file, done // 1_000_000, int(size) // 1_000_000 if size else None)
    except httpx.HTTPError as error:
        part.unlink(missing_ok=True)
        raise MissingPartError(
            f"{public.name} cannot be downloaded from {public.url}: {error or type(error).__name__}. Try again with a "
            f"network, or put the file at {part.with_suffix('')} yourself"
        ) from error
    return digest.hexdigest()


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
