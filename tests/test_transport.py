"""Addresses of servers."""

import pytest

from neuralstream.transport import Address


@pytest.mark.parametrize(
    ("written", "shown", "auth"),
    [
        ("http://ann:s%2Fcret@host:11434/", "http://host:11434", ("ann", "s/cret")),
        ("host:11434", "http://host:11434", None),
        ("redis://:secret@host:6379/0", "redis://host:6379/0", None),
        ("redis://host:6379/0?password=secret", "redis://host:6379/0", None),
        ("unix:///run/valkey.sock?password=secret", "unix:///run/valkey.sock", None),
    ],
)
def test_an_address_is_shown_without_its_password(written, shown, auth):
    """Wherever it stands in it."""
    assert Address.parse(written) == (shown, auth)
