"""The collections: what a point's payload, vectors and indexes are called.

`turns` holds a point per turn (`kind` "turn") and one per stretch of a session (`kind` "session"), whose token field
lets a turn be ranked by what was said around it. `gems` holds a point per gem (`kind` "gem").
"""

from __future__ import annotations

__all__ = [
    "DATETIME_FIELDS",
    "GEMS",
    "INTEGER_FIELDS",
    "KEYWORD_FIELDS",
    "MULTIVECTORS",
    "SCHEMA_VERSION",
    "TERMS",
    "TERMS_DATED",
    "TERMS_NEAR",
    "TERMS_REPLY",
    "TERMS_SESSION",
    "TERMS_USER",
    "TEXT_FIELDS",
    "TURNS",
    "VECTORS",
    "VECTOR_CHUNKS",
    "VECTOR_NEAR",
    "VECTOR_TEXT",
    "VECTOR_USER",
]

SCHEMA_VERSION = 2
"""What a store records. Version 1 had no vectors of chunks and parts; `neuralstream reindex` reads it and fills the
store anew."""

GEMS = "gems"
TURNS = "turns"

VECTOR_TEXT = "text"
VECTOR_NEAR = "near"
VECTOR_CHUNKS = "chunks"
VECTOR_USER = "user"
VECTORS = (VECTOR_TEXT, VECTOR_NEAR, VECTOR_CHUNKS, VECTOR_USER)
"""Named dense vectors, Cosine: the text alone; the text with its neighbours; its chunks; the user's part of an
exchange. A point may lack any."""

MULTIVECTORS = (VECTOR_CHUNKS,)
"""Vectors of several rows, of which the best counts: a row per overlapping chunk of a text longer than the embedder's
window."""

TERMS = "terms"
TERMS_DATED = "terms_dated"
TERMS_NEAR = "terms_near"
TERMS_USER = "terms_user"
TERMS_REPLY = "terms_reply"
TERMS_SESSION = "terms_session"
TEXT_FIELDS = (TERMS, TERMS_DATED, TERMS_NEAR, TERMS_USER, TERMS_REPLY, TERMS_SESSION)
"""Space-joined analysed tokens, BM25-scored: of the text; of date, speaker and text; of the text with neighbours; of
the user's part of an exchange; of the reply; of a stretch of a session. A field of its own for each keeps the engine
from looking at points that cannot match: only exchanges have parts, only stretches the last."""

KEYWORD_FIELDS = ("user_id", "kind", "session_id", "tags", "topics", "entities", "speakers", "status")
DATETIME_FIELDS = ("created_at", "covered_at")
INTEGER_FIELDS = ("index",)
"""Indexed payload fields. `user_id` is the tenant. `covered_at` is when the first active gem that cites a turn was
made; an uncovered turn has none. A turn's or gem's own data lies under `data` and is not indexed."""
