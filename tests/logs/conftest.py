"""Small logs, written for these tests."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file of JSON lines (objects) or of the given text or bytes, and return its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list):
            content = "".join(json.dumps(value) + "\n" for value in content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
