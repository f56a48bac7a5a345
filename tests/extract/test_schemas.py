"""What an answer may look like, for each version."""

import jsonschema
import pytest

from neuralstream.extract.schemas import KIND_KEYS, SCHEMAS

GEM = {
    "source_turns": [4],
    "content": "Redis listens on port 6381.",
    "tags": ["fact"],
    "importance": 0.5,
    "confidence": 0.9,
    "topics": ["redis"],
    "questions": ["Where does redis listen?"],
}


def answer(version, **changes):
    """A valid answer of a version, a field of its gem changed."""
    schema = SCHEMAS[version]
    gem = {field: GEM[field] for field in schema.fields} | changes
    if schema.by_kind:
        return {key: [gem] for key in KIND_KEYS}
    return ({"drafts": ["port"]} if schema.drafts else {}) | {"gems": [gem]}


@pytest.mark.parametrize("version", SCHEMAS)
def test_a_whole_answer_is_valid(version):
    """Each version is a JSON schema that its own answers follow, small talk's too."""
    schema = SCHEMAS[version].json_schema((3, 4))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(answer(version), schema)
    jsonschema.validate({key: [] for key in answer(version)}, schema)


@pytest.mark.parametrize("version", SCHEMAS)
def test_only_turns_of_the_batch_can_be_cited(version):
    """Another number, no number, and more than three are invalid."""
    schema = SCHEMAS[version].json_schema((3, 4, 5, 6))
    for cited in ([2], [], [3, 4, 5, 6], ["4"]):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(answer(version, source_turns=cited), schema)


@pytest.mark.parametrize("version", SCHEMAS)
def test_turns_are_named_before_the_statement(version):
    """A model under a schema writes in its order."""
    assert SCHEMAS[version].fields[:2] == ("source_turns", "content")


def test_repetition_ends():
    """More than two gems for each turn are invalid."""
    schema = SCHEMAS[1].json_schema((3,))
    gem = answer(1, source_turns=[3])["gems"][0]
    jsonschema.validate({"gems": [gem] * 2}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"gems": [gem] * 3}, schema)
