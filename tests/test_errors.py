"""The errors: one root, the tree that is drawn, the exit codes."""

import inspect
import re

import pytest

from neuralstream import errors
from neuralstream.errors import NeuralStreamError

CLASSES = [getattr(errors, name) for name in errors.__all__]


def test_there_is_one_root():
    """Whoever catches NeuralStreamError catches everything raised on purpose."""
    assert all(issubclass(error, NeuralStreamError) for error in CLASSES)


def test_every_error_is_public():
    """No error class is left out of `__all__`."""
    defined = {name for name, value in vars(errors).items() if inspect.isclass(value)}
    assert defined == set(errors.__all__)


def test_the_drawn_tree_is_the_real_one():
    """The tree on top of the module shows each class under its parent."""
    parents: list[tuple[int, str]] = [(-1, "")]
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        if match := re.match(r"^([ │├└─]*)(\w+Error)\b", line):
            depth, name = len(match[1]), match[2]
            while parents[-1][0] >= depth:
                parents.pop()
            drawn[name] = parents[-1][1]
            parents.append((depth, name))
    real = {error.__name__: error.__bases__[0].__name__ for error in CLASSES}
    assert drawn == real | {"NeuralStreamError": ""}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("NeuralStreamError", 1),
        ("StoreError", 1),
        ("StoreMismatchError", 1),
        ("EmbeddingError", 1),
        ("ExtractionError", 1),
        ("ContextOverflowError", 1),
        ("SettingsError", 2),
        ("InputError", 2),
        ("LogFormatError", 2),
        ("DatasetError", 2),
        ("NotFoundError", 2),
        ("MissingPartError", 3),
        ("CassetteMissError", 3),
        ("StoreLockedError", 3),
        ("RefusedError", 4),
    ],
)
def test_exit_codes(name, code):
    """1 failed, 2 wrong use, 3 a part is missing or down, 4 refused."""
    assert getattr(errors, name).exit_code == code


def test_exit_codes_are_complete():
    """The test above has every class."""
    assert len(CLASSES) == 15


def test_wrong_values_are_value_errors():
    """Code that knows only the standard library's errors can catch what a wrong value raises."""
    assert issubclass(errors.SettingsError, ValueError)
    assert issubclass(errors.InputError, ValueError)
    assert issubclass(errors.NotFoundError, LookupError)
