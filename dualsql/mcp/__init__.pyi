"""What type checkers see: the names of `_MODULES`, imported at once."""

from dualsql.catalogue.mcp import add_catalogue as add_catalogue
from dualsql.mcp.calls import PrincipalOf as PrincipalOf
from dualsql.mcp.decorators import Function as Function, plain_tool as plain_tool, tool as tool
from dualsql.mcp.dual_responses import DualResponses as DualResponses
from dualsql.mcp.negotiation import Envelope as Envelope
from dualsql.mcp.official import transport_security as transport_security
from dualsql.mcp.options import (
    PlainEnvelope as PlainEnvelope,
    PlainToolOptions as PlainToolOptions,
    ResultOptions as ResultOptions,
    ToolOptions as ToolOptions,
)
from dualsql.mcp.resources import (
    add_resources as add_resources,
    add_skill as add_skill,
    skill as skill,
    system_prompt as system_prompt,
)
from dualsql.mcp.results import Answer as Answer, AnswerKeywords as AnswerKeywords
from dualsql.query.mcp import add_data_manager as add_data_manager, add_result_tools as add_result_tools
from dualsql.sql.mcp import add_execute_query as add_execute_query, add_query as add_query
from dualsql.web.mcp import add_app as add_app

_MODULES: dict[str, str]
__all__: list[str]
