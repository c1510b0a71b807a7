"""Values read from Markdown are right, and doubtful ones are left out."""

from __future__ import annotations

import time
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from dualsql_client.markdown import MAXIMUM_CHARACTERS, MarkdownAnswer, ParseStrategy, parse_markdown
from tests.client.code.answers import ANSWERS, ID, Answer

NAMES = ("data_access_id", "table", "operation", "error", "blocks", "tables")


def said(answer: MarkdownAnswer) -> dict[str, Any]:
    return {name: value for name in NAMES if (value := getattr(answer, name))}


@pytest.mark.quick(30)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_value_is_wrong_and_none_is_missed(answer: Answer) -> None:
    begins = {**answer.says, **answer.begins}
    assert said(parse_markdown(answer.text)) == begins
    assert said(parse_markdown(answer.text, strategy="aggressive")) == {**begins, **answer.more}
    assert parse_markdown(answer.text).raw_text == answer.text


def test_there_are_many_of_them() -> None:
    assert len(ANSWERS) >= 60


@pytest.mark.quick(30)
@pytest.mark.parametrize("name", sorted(ANSWERS.keys() - {"a cut block"}))
def test_what_stands_around_an_answer_changes_none_of_its_values(name: str) -> None:
    around = f"Hello! 👋\n\nHere it is.\n\n{ANSWERS[name].text}\n\nAnything else?\n"
    assert said(parse_markdown(around)) == ANSWERS[name].says


def test_expected_fields_in_any_spelling() -> None:
    text = "- **Payload Size:** 2040KB\n- 📊 Entities: 25\n- Accession: P04637\n- Accession: P04638\n- Note:"
    wanted = ["payloadSize", "payload_size", "entities", "accession", "note", "rowCount"]
    assert parse_markdown(text, expected_fields=wanted).fields == {
        "payloadSize": "2040KB",
        "payload_size": "2040KB",
        "entities": "25",
    }


def test_data_is_the_only_block_or_the_only_table() -> None:
    table = "| id |\n|---|\n| 1 |\n"
    assert parse_markdown(table).data == [{"id": "1"}]
    assert parse_markdown(f'{table}\n```json\n{{"a": 1}}\n```').data == {"a": 1}
    assert parse_markdown(f"{table}\n{table}").data is None
    assert parse_markdown("prose").data is None
    assert parse_markdown("prose").is_empty


def test_much_text_is_bounded() -> None:
    late = "x" * MAXIMUM_CHARACTERS + f"\nData Access ID: {ID}"
    assert parse_markdown(late).data_access_id is None
    for text in (
        "|" * 200_000,
        "```\n" * 50_000,
        "a: " * 100_000,
        "| a |\n|---|\n" + "| 1 |\n" * 50_000,
        "*" * 500_000,
    ):
        parse_markdown(text, strategy="aggressive")
    assert len(parse_markdown(f"Error: {'x' * 1_500}").error or "") == 500


@pytest.mark.parametrize(
    "line",
    [f"{990 * ' '}-{990 * ' '}x", f"|{1_900 * ' '}|x", f"0{1_900 * '*'}x"],
    ids=["rule", "cells", "label"],
)
def test_lines_that_almost_match_are_read_at_once(line: str) -> None:
    """Patterns without possessive quantifiers take 0.5 to 6 seconds for one such line; a text has up to 500."""
    started = time.process_time()
    assert parse_markdown(f"|\n{line}\n" * 20).is_empty
    assert time.process_time() - started < 0.4


@given(
    st.text(st.sampled_from('Data Acces ID:|`*#-\n{}[]"12_fFROMselct é🎉：~'), max_size=300),
    st.sampled_from(get_args(ParseStrategy)),
)
def test_no_text_raises(text: str, strategy: ParseStrategy) -> None:
    answer = parse_markdown(text, strategy=strategy, expected_fields=["Data", "ID"])
    assert answer.data_access_id is None or answer.data_access_id in text
