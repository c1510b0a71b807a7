"""Requests of scripts of other origins. Loaded where `cors_origins` names some."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

from dualsql.errors import ForbiddenError
from dualsql.http.problems import METHODS, problem_response


class CORS(CORSMiddleware):
    """Starlette's CORS middleware with dualsql's error body."""

    def preflight_response(self, request_headers: Headers) -> Response:
        """The answer to a CORS preflight request."""
        response = super().preflight_response(request_headers)
        if response.status_code < 400:
            return response
        return problem_response(ForbiddenError("This cross-origin request is not allowed."))


def cross_origin_middleware(origins: Sequence[str]) -> Middleware:
    """Answers the requests of scripts of these origins."""
    # Any header of requests: `authenticate` decides which one carries the credential. All of answers: who may read the
    # body may read them. "*" means all only without cookies, which are not allowed (https://fetch.spec.whatwg.org).
    return Middleware(
        CORS, allow_origins=origins, allow_methods=METHODS, allow_headers=["*"], expose_headers=["*"]
    )
