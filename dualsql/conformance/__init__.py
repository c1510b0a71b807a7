"""Checks anybody's server or client against "Dual response over MCP and HTTP" (docs/standard).

    standard.json   the sentences, with the requests that check them
    standard        reads that table and the JSON Schemas; what the documented tool returns
    probe           one server under test: its tool, its results, requests and answers
    checks          the checks that are more than requests with expected answers
    run             sentence by sentence: passed, failed, not offered, not testable
    rows_server     results of a server, correct or difficult, for a client
    clients         runs a client against such servers
    command         the options of `dualsql conformance`

It imports the client and the MCP SDK, and nothing of the server (import-linter holds that).
"""
