"""One secret word as a credential; the rule: once there is a credential, nobody is let in without."""

from __future__ import annotations

from starlette.requests import Request

from dualsql.errors import ConfigurationError, UnauthenticatedError
from dualsql.identity import Authenticate, static_tokens
from dualsql.resource import Principal

SHORTEST = 16
"""Characters of a token, at least."""


def one_token(token: str, principal: Principal | None = None) -> Authenticate:
    """`authenticate=` for a server with one bearer token: who has it is `principal`, and all others are refused.

    Raises:
        ConfigurationError: the token is too short, or cannot stand in a header.
    """
    if (
        len(token) < SHORTEST
        or not token.isascii()
        or not token.isprintable()
        or {" ", ",", '"'} & set(token)
    ):
        raise ConfigurationError(
            f"The token is shorter than {SHORTEST} characters, or has one that no header can carry.",
            hint='Make one with: python -c "import secrets; print(secrets.token_urlsafe(32))"',
        )
    return required(static_tokens({token: principal or Principal(id="token")}))


def required(authenticate: Authenticate) -> Authenticate:
    """As `authenticate`, and whoever is nobody to it is refused."""

    async def known(request: Request) -> Principal | None:
        principal = await authenticate(request)
        if principal is None:
            raise UnauthenticatedError("This server answers only callers that are known.")
        return principal

    return known
