"""One token opens MCP and REST: both ask the same verifier. Run it: uvicorn --app-dir examples identity:app"""

import time

from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from sqlalchemy import Select, select

from dualsql import DualResponseServer
from dualsql.demo import Base, Institution, demo_database
from dualsql.identity import BearerTokens, log_audit

ORIGIN = "http://127.0.0.1:8000"
MCP_URL = f"{ORIGIN}/mcp"


PEOPLE = {"a-token-of-ana": ("ana", "acme"), "a-token-of-bob": ("bob", "globex")}


class Verifier(TokenVerifier):
    """Yours asks the authorization server, or checks the signature of a JWT."""

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in PEOPLE:
            return None
        subject, tenant = PEOPLE[token]
        return AccessToken(
            token=token,
            client_id="an-agent",
            scopes=["rows"],
            expires_at=int(time.time()) + 300,
            resource=MCP_URL,  # whom the token was issued for (RFC 8707)
            subject=subject,
            claims={"iss": "https://login.example.com", "tenant": tenant},
        )


verifier = Verifier()
dual = DualResponseServer(
    demo_database(),
    base_url=f"{ORIGIN}/resources",
    tables=Base,
    authenticate=BearerTokens(verifier, resource=MCP_URL, scopes=["rows"]),
    audit=log_audit,
)
mcp = MCPServer(
    "colleges",
    lifespan=dual.lifespan,
    token_verifier=verifier,
    auth=AuthSettings(
        issuer_url="https://login.example.com",
        resource_server_url=MCP_URL,
        required_scopes=["rows"],
        validate_token_resource=True,
    ),
)


@dual.tool(mcp)  # a result belongs to whom the token of its call stands for
def search_colleges(state: str) -> Select:
    """Colleges of a state, such as NJ."""
    return select(Institution).where(Institution.state == state).order_by(Institution.name)


app = mcp.streamable_http_app(stateless_http=True)
app.mount("/resources", dual.router())  # the token of MCP is checked here, too
