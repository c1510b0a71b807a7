"""A signature is for exactly these parts, by one of these secrets, and nothing else."""

from __future__ import annotations

import pytest

from dualsql.errors import ConfigurationError, LimitExceededError
from dualsql.freeze import Seal
from dualsql.freeze.document import MalformedError, pack, unpack

OLD, NEW = "o" * 32, b"n" * 40


def test_what_one_secret_signed_all_holders_verify() -> None:
    signature = Seal([OLD]).sign(b"document", "id", None)
    assert Seal([NEW, OLD]).verify(signature, b"document", "id", None)
    assert not Seal([NEW]).verify(signature, b"document", "id", None)


def test_the_first_secret_signs() -> None:
    assert Seal([NEW]).verify(Seal([NEW, OLD]).sign("x"), "x")


@pytest.mark.parametrize(
    "other",
    [
        ("a", "bc"),
        ("abc",),
        ("ab", "c", None),
        ("ab", "c", ""),
        (b"ab", "c"),
        ("ab", None),
        (None, "ab", "c"),
        (),
        ("", "ab", "c"),
    ],
)
def test_no_other_parts_have_the_same_signature(other: tuple[str | bytes | None, ...]) -> None:
    seal = Seal([OLD])
    signature = seal.sign("ab", "c")
    assert not seal.verify(signature, *other)
    for _ in range(2):  # a seal remembers what it verified
        assert seal.verify(signature, "ab", "c")
        assert not seal.verify(signature, *other)


@pytest.mark.parametrize("forged", [b"", b"x", bytes(32), bytes(33)])
def test_a_forged_signature_is_refused(forged: bytes) -> None:
    assert not Seal([OLD]).verify(forged, "ab")


@pytest.mark.parametrize("position", range(32))
def test_no_other_signature_has_the_parts_of_a_verified_one(position: int) -> None:
    seal = Seal([OLD])
    signature = seal.sign("ab")
    assert seal.verify(signature, "ab")
    other = bytearray(signature)
    other[position] ^= 1
    assert not seal.verify(bytes(other), "ab")


def test_a_secret_that_is_gone_verifies_nothing_that_it_verified() -> None:
    seal = Seal([OLD])
    signature = seal.sign("ab")
    assert seal.verify(signature, "ab")
    assert seal.replace([NEW, OLD])
    assert seal.verify(signature, "ab")
    seal.replace([NEW])
    assert not seal.verify(signature, "ab")
    assert not Seal([NEW]).verify(signature, "ab")


@pytest.mark.parametrize("length", [1, 100_000])
def test_it_remembers_a_bounded_number_of_short_texts(length: int) -> None:
    seal = Seal([OLD])
    texts = [f"{i}".zfill(length) for i in range(2_100)]
    for text in texts:
        assert seal.verify(seal.sign(text), text)
    assert len(seal._known) <= (1_000 if length == 1 else 0)
    assert seal.verify(seal.sign(texts[0]), texts[0])
    assert not seal.verify(seal.sign(texts[0]), texts[1])


@pytest.mark.parametrize("secrets", [[], ["short"], [OLD, b"x" * 31], OLD])
def test_weak_secrets_are_refused_with_a_recipe(secrets: list[str]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Seal(secrets)
    assert "token_urlsafe" in raised.value.hint


def test_its_text_shows_no_secret() -> None:
    assert OLD not in repr(Seal([OLD]))


def test_nothing_and_an_empty_text_are_two_parts() -> None:
    seal = Seal([OLD])
    assert not seal.verify(seal.sign("a", None), "a", "")
    assert not seal.verify(seal.sign("a", ""), "a", None)


def test_a_document_is_as_large_as_is_allowed() -> None:
    body = {"x": "y" * 100}
    document = pack(body, 200)
    assert unpack(document, 200) == body
    with pytest.raises(LimitExceededError, match="the maximum is 100"):
        pack(body, 100)
    with pytest.raises(MalformedError):
        unpack(document, 100)
