"""What the REST resources take and answer: `operations` describes them, and `feature` serves the documents."""

from dualsql.openapi.operations import Operation, Parameter, Parameters, Schema

__all__ = ["Operation", "Parameter", "Parameters", "Schema"]
