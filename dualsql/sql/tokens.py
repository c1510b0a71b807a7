"""Tokens of a text that are written as other databases have them: `name`, [name] and SEPARATOR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dualsql.text_dialects import TextDialect

_BEFORE_NAMES = frozenset({
    TokenType.SELECT, TokenType.DISTINCT, TokenType.FROM, TokenType.JOIN, TokenType.DOT, TokenType.COMMA,
    TokenType.L_PAREN, TokenType.ON, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.WHERE, TokenType.HAVING,
    TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.ALIAS, TokenType.WHEN, TokenType.THEN, TokenType.ELSE,
    TokenType.BETWEEN, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
    TokenType.CASE, TokenType.ALL, TokenType.LIKE, TokenType.ILIKE, TokenType.IN, TokenType.IS, TokenType.USING,
    TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.LIMIT, TokenType.OFFSET,
})  # fmt: skip
"""Words that a name may follow, and an index of an array may not. Nor may one follow a sign or a constant."""
_LONGEST_NAME = 6
"""Words between brackets."""


SEPARATOR = "\0"
"""What the text after the word SEPARATOR begins with. No SQL text has this character."""


def in_own_words(tokens: Sequence[Token], sql: str, dialect: TextDialect) -> list[Token]:
    """The tokens; names in backticks or brackets are quoted names, where these signs mean nothing else."""
    own = list(_named(tokens, sql, dialect)) if "`" in sql or "[" in sql else list(tokens)
    if dialect.has_separator_word:
        return own
    callers: list[str] = []
    for index in range(1, len(own) - 1):
        word, text = own[index : index + 2]
        if word.token_type is TokenType.L_PAREN:
            callers.append(own[index - 1].text.upper())
        elif word.token_type is TokenType.R_PAREN and callers:
            callers.pop()
        elif _is_separator(word, text) and callers[-1:] == ["GROUP_CONCAT"]:
            own[index] = Token(TokenType.COMMA, ",", word.line, word.col, word.start, word.end)
            marked = SEPARATOR + text.text
            own[index + 1] = Token(
                TokenType.STRING, marked, text.line, text.col, text.start, text.end, text.comments
            )
    return own


def _named(tokens: Sequence[Token], sql: str, dialect: TextDialect) -> Iterator[Token]:
    index, depth = 0, 0
    before: Token | None = None
    while index < len(tokens):
        token = tokens[index]
        end = _end_of_name(tokens, index, before, dialect, is_inside=depth > 0)
        if end:
            name = sql[token.start + 1 : tokens[end].start]
            token = Token(
                TokenType.IDENTIFIER,
                name,
                token.line,
                token.col,
                token.start,
                tokens[end].end,
                token.comments,
            )
            index = end
        depth += (token.token_type is TokenType.L_BRACKET) - (token.token_type is TokenType.R_BRACKET)
        before = token
        yield token
        index += 1


def _end_of_name(
    tokens: Sequence[Token], start: int, before: Token | None, dialect: TextDialect, *, is_inside: bool
) -> int:
    """The index of the sign that ends the quoted name which begins at `start`; 0 if none begins there."""
    sign = tokens[start]
    is_backtick = sign.token_type is TokenType.UNKNOWN and sign.text == "`"
    is_bracket = sign.token_type is TokenType.L_BRACKET and not _may_have_index(before)
    if not is_backtick and (not is_bracket or is_inside or dialect.has_lists):
        return 0
    for index in range(start + 1, min(len(tokens), start + 2 + _LONGEST_NAME)):
        token = tokens[index]
        is_end = token.token_type is (sign.token_type if is_backtick else TokenType.R_BRACKET)
        if is_end and token.text == ("`" if is_backtick else "]"):
            return index if index > start + 1 else 0
        if not token.text.replace("$", "_").isidentifier():
            return 0
    return 0


def _may_have_index(token: Token | None) -> bool:
    if token is None or token.token_type in _BEFORE_NAMES:
        return False
    is_end = token.token_type in (TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET)
    return is_end or (token.token_type is not TokenType.STRING and token.text.isidentifier())


def _is_separator(word: Token, text: Token) -> bool:
    is_word = word.token_type is TokenType.VAR and word.text.upper() == "SEPARATOR"
    return is_word and text.token_type is TokenType.STRING
