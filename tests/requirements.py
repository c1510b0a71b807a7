"""Each promise of the seeds kept so far, and the tests that hold it; the rule: checked in both directions.

`test_requirements.py` fails when a listed test does not exist, and when a file of tests is cited neither by a
promise nor among the files that hold what the seeds do not speak of.

The seeds: 000 is the specification of the library, 001 dual-mode answers, 002 the article that builds the
pattern, 003 a catalogue and queries over MCP, 004 the envelope of tools.
"""

from __future__ import annotations

Tests = tuple[str, ...]
"""Node ids below tests/, without parameters."""

PROMISES: dict[str, dict[str, Tests]] = {
    "000 server": {
        "its words are those of the specification, in Python's spelling": (
            "server/test_surface.py::test_the_specification_s_words",
            "server/test_surface.py::test_every_setting_is_a_keyword_of_the_server_and_documented",
        ),
        "a server needs only a base URL; everything else has a default": (
            "server/test_lifecycle.py::test_fifteen_minutes_unless_told_otherwise",
            "http/test_pages.py::test_the_page_size_has_a_default_and_a_bound",
        ),
        "create_response answers sample, total and columns, and stores the query": (
            "server/test_create.py::test_a_larger_result_costs_two",
            "server/test_create.py::test_a_sample_that_is_everything_costs_one_statement",
            "server/test_create.py::test_without_a_count_the_total_stays_open",
        ),
        "sample size, expiration and metadata can be set for one response": (
            "server/test_create.py::test_exactly_one_row_more_than_the_sample_is_counted",
            "server/test_create.py::test_values_out_of_bounds",
            "server/test_lifecycle.py::test_a_lifetime_is_capped",
        ),
        "a resource expires, at first after 15 minutes": (
            "server/test_lifecycle.py::test_fifteen_minutes_unless_told_otherwise",
            "server/test_lifecycle.py::test_an_expired_resource_says_so_for_a_day",
        ),
        "expired resources are cleaned up at an interval": (
            "server/test_lifecycle.py::test_the_sweeper_takes_what_is_long_gone_and_nothing_else",
            "store/test_concurrency.py::test_parallel_sweepers_delete_each_expired_resource_once",
        ),
        "pin_resource takes the expiry away": (
            "server/test_lifecycle.py::test_a_pinned_resource_has_no_expiry",
            "store/test_every_store.py::test_only_a_living_resource_is_pinned",
        ),
        "shutdown ends the cleanup and closes the store": ("server/test_lifecycle.py::test_as_a_lifespan",),
    },
    "000 dual response": {
        "the content is a text and a link; the text says how much was found": (
            "server/test_response.py::test_the_text_stands_alone",
        ),
        "the structured content has results, resource and metadata": (
            "server/test_response.py::test_the_structure_stands_alone",
            "server/test_response.py::test_the_structure_fits_its_published_shape",
        ),
        "a complete MCP tool result is one call away": (
            "server/test_response.py::test_the_plain_result_is_a_valid_one",
            "server/test_response.py::test_the_object_both_sdks_pass_through",
        ),
        "columns have a name and one of the types string, number, boolean, date": (
            "plan/test_columns.py::test_every_type_has_a_word_and_an_encoding",
            "formats/test_json.py::test_every_type_of_column",
        ),
    },
    "000 stores": {
        "memory by default, another store behind the same interface": (
            "store/test_every_store.py::test_the_sql_stores_do_what_the_memory_store_does",
            "store/test_every_store.py::test_what_was_saved_comes_back",
        ),
        "save, get, update, delete, find_expired, close": (
            "store/test_every_store.py::test_an_unknown_id_is_none",
            "store/test_every_store.py::test_nothing_is_changed_by_no_changes",
            "store/test_every_store.py::test_it_says_how_many_were_there",
            "store/test_every_store.py::test_the_longest_expired_come_first",
        ),
        "accesses are counted and dated": (
            "store/test_every_store.py::test_accesses_add_up_and_the_latest_stays",
            "store/test_concurrency.py::test_no_access_is_lost",
            "server/test_lifecycle.py::test_no_access_is_lost_or_counted_twice",
        ),
    },
    "000 REST": {
        "GET answers status, total, columns, instants and accesses": (
            "http/test_resources.py::test_get_answers_what_the_resource_is_and_no_rows",
            "http/test_resources.py::test_reading_rows_is_counted",
        ),
        "an unknown resource is 404 with error and message": (
            "http/test_access.py::test_an_unknown_resource_is_not_found",
            "http/test_problems.py::test_every_problem_has_the_same_keys",
        ),
        "POST answers a page by offset, limit and sort": (
            "http/test_pages.py::test_post_answers_the_same_page",
            "http/test_pages.py::test_post_sorts_by_one_column_or_several",
            "http/test_parameters.py::test_a_body_asks_for_a_page",
        ),
        "a page says what it holds and where the next begins": (
            "http/test_pages.py::test_has_next_is_seen_in_the_rows_when_some_came",
            "http/test_pages.py::test_has_next_is_seen_in_the_rows_when_some_went_away",
            "http/test_pages.py::test_a_page_beyond_the_end_is_empty",
        ),
        "PUT pins": ("http/test_resources.py::test_put_pins",),
        "DELETE deletes": ("http/test_resources.py::test_delete_ends_the_resource_for_every_verb",),
        "sorting runs the query again, over the whole result": (
            "paging/test_database_order.py::test_sorted_as_the_database_sorts",
            "paging/test_pages_equal_the_query.py::test_sorted_by_every_column_both_ways",
            "plan/test_statements.py::test_sorting_a_cut_result_does_not_change_which_rows_it_has",
        ),
    },
    "000 client": {
        "parse finds the dual response in a tool result, None in anything else": (
            "client/test_detect.py::test_recorded_tool_results",
            "client/test_detect.py::test_ordinary_results_are_none",
            "client/test_ordinary.py::test_no_ordinary_result_is_a_dual_response",
            "client/test_handles.py::test_a_doubtful_one_is_none",
        ),
        "parse_structured takes the structured content alone": ("client/test_detect.py::test_carriers",),
        "base_url, an HTTP client, headers and a timeout of the caller's": (
            "client/test_trust.py::test_the_clients_own_connections_carry_its_headers_and_are_closed",
            "client/test_trust.py::test_a_given_http_client_stays_open",
            "client/test_origins.py::test_each_result_is_fetched_where_it_says_with_that_origins_credentials",
            "client/test_credentials.py::test_a_token_is_asked_for_once_and_again_when_it_is_refused",
            "client/test_trust.py::test_an_answer_that_never_comes_times_out",
        ),
        "fetch answers one page": (
            "client/test_against_server.py::test_a_sorted_page",
            "client/test_paging.py::test_a_page",
            "client/test_paging.py::test_what_is_not_asked_for_is_left_to_the_server",
        ),
        "fetch_all and fetch_stream answer every row, with progress": (
            "client/test_paging.py::test_pages_joined_are_the_result",
            "client/test_against_server.py::test_every_row_in_order_with_the_database_s_own_values",
            "client/test_paging.py::test_progress_is_told_to_functions_and_coroutines",
            "client/test_streams.py::test_a_stream_cut_anywhere_is_the_unbroken_one",
        ),
        "metadata, pin, delete and is_expired": (
            "client/test_paging.py::test_metadata_pin_and_delete",
            "client/test_paging.py::test_expiry_follows_the_server",
            "client/test_lifetimes.py::test_a_skewed_clock_is_known_after_the_first_answer",
            "client/test_lifetimes.py::test_pin_unpin_and_time_against_the_server",
        ),
        "a link is resolved by the client's own base URL when the result has no URL": (
            "client/test_trust.py::test_an_id_stays_below_the_base_url",
        ),
    },
    "000 errors": {
        "the server's codes": (
            "http/test_problems.py::test_every_error_of_the_package_has_a_status_and_every_status_an_error",
            "http/test_problems.py::test_every_code_is_documented_with_its_status",
            "server/test_create.py::test_what_the_database_says_stays_with_the_operator",
        ),
        "the client's codes": (
            "client/test_package.py::test_every_error_is_exported_and_drawn_in_the_tree",
            "client/test_trust.py::test_a_problem_is_carried_over",
            "client/test_trust.py::test_an_error_without_a_problem_is_told_by_its_status",
        ),
    },
    "000 packages": {
        "client and server can be had apart, typed": (
            "packaging/test_wheels.py::test_the_client_alone_brings_no_server",
            "packaging/test_wheels.py::test_the_client_s_wheel_holds_all_it_needs",
            "packaging/test_wheels.py::test_the_server_s_wheel_holds_all_it_needs",
        ),
    },
    "001 dual-mode answers": {
        "data for code, a display for people, metadata with status, time and whether a cache answered": (
            "envelope/test_dual_mode.py::test_an_answer_has_data_display_and_metadata",
            "envelope/test_dual_mode.py::test_cached_is_what_the_caller_says",
            "http/test_dual_mode.py::test_cached_is_what_a_result_cache_answered",
            "mcp/test_negotiation.py::test_the_dual_mode_answer",
        ),
        "kept rows are told by id, size, number and how to query them": (
            "envelope/test_dual_mode.py::test_staged_data_says_where_the_rows_are",
        ),
        "a display is text, markdown or html": ("envelope/test_reading.py::test_each_kind_of_display",),
        "errors are apart from data, with a code and a suggestion": (
            "envelope/test_dual_mode.py::test_an_error_is_apart_from_data_and_readable",
        ),
        "headers say who asks; code gets no display": (
            "envelope/test_dual_mode.py::test_headers_say_who_asks",
            "envelope/test_dual_mode.py::test_code_gets_no_display",
            "mcp/test_negotiation.py::test_code_reads_json_and_people_read_markdown",
            "http/test_dual_mode.py::test_with_one_it_is_in_the_dual_mode_shape",
        ),
        "a program's helper: invoke, get_data, query_staged_data, tools and their schemas, over any MCP client": (
            "client/code/test_codemode.py::test_every_mcp_client_against_a_real_server",
            "client/code/test_codemode.py::test_staged_data_are_queried_by_the_server_s_data_manager",
            "client/code/test_codemode.py::test_a_failure_is_told_and_never_taken_for_data",
        ),
        "a parser of Markdown for servers without structure": (
            "client/code/test_markdown.py::test_no_value_is_wrong_and_none_is_missed",
        ),
        "answers have an output schema": (
            "envelope/test_validation.py::test_a_tool_can_publish_what_its_data_is",
        ),
    },
    "002 article": {
        "the query is stored, not its rows": (
            "freeze/test_round_trip.py::test_a_statement_comes_back_as_it_was",
            "freeze/test_kept.py::test_another_process_thaws_the_same_statement",
            "server/test_lifecycle.py::test_rows_are_kept_at_rest_only_when_asked",
        ),
        "each page runs the query again, so rows are current": (
            "server/test_lifecycle.py::test_a_page_never_repeats_a_stale_total",
        ),
        "paging works whatever the query contained, and pages joined are the query": (
            "paging/test_pages_equal_the_query.py::test_in_the_query_s_own_order",
            "paging/test_pages_equal_the_query.py::test_random_windows_are_slices_of_the_whole",
        ),
        "GET pages by skip and limit": (
            "http/test_pages.py::test_get_with_skip_and_limit_answers_rows",
            "http/test_parameters.py::test_a_url_asks_for_a_page",
        ),
        "tools and REST share one store, on several servers too": (
            "server/test_lifecycle.py::test_another_process_serves_what_this_one_stored",
        ),
        "resources are bound to users and tenants when made and checked when read": (
            "http/test_access.py::test_a_resource_answers_its_owner_and_no_one_else",
            "server/test_safety.py::test_a_stranger_sees_nothing",
            "server/test_safety.py::test_a_hook_narrows_sample_count_and_pages_to_who_asks_now",
            "narrowing/test_compiler.py::test_a_table_stands_under_its_rule",
            "tenants/test_oracle.py::test_a_tenant_is_answered_from_its_own_rows",
            "tenants/test_oracle.py::test_every_tenant_is_answered_from_its_own_rows",
            "tenants/test_leaks.py::test_any_statement_reads_its_tenant_alone",
            "tenants/test_leaks.py::test_a_document_that_changes_hands_reads_whoever_asks",
        ),
        "resources outlive the process": (
            "migrations/test_schema.py::test_up_makes_every_table_and_down_removes_them",
            "packaging/test_wheels.py::test_an_installed_server_migrates_stores_and_serves_a_page",
        ),
        "queries read only, and end in time": (
            "server/test_safety.py::test_a_session_refuses_every_write",
            "server/test_safety.py::test_a_query_that_never_ends_is_stopped",
        ),
        "model and application, MCP and REST, run end to end": (
            "demo/test_demo.py::test_on_sqlite",
            "demo/test_demo.py::test_on_postgresql",
            "client/test_against_server.py::test_through_the_official_sdk",
            "examples/test_readme.py::test_the_two_programs_run_against_each_other",
        ),
        "MCP and REST share one application, and a context provider is called on each MCP request": (
            "serve/test_application.py::test_the_context_provider_is_called_on_every_mcp_request",
            "serve/test_application.py::test_who_calls_is_known_in_tools_and_over_rest_by_one_function",
            "serve/test_command.py::test_a_database_is_served_until_somebody_stops_it",
        ),
        "the pattern works with any SDK's tool results": (
            "client/test_detect.py::test_recorded_tool_results",
            "client/test_detect.py::test_the_official_sdk_live",
            "client/test_detect.py::test_fastmcp_live",
            "sdks/test_serving.py::test_an_agent_looks_queries_and_its_application_gets_every_row",
        ),
    },
    "003 catalogue": {
        "what there is stands in a hierarchy of URIs": (
            "catalogue/test_addresses.py::test_the_hierarchy",
            "catalogue/test_addresses.py::test_every_name_survives",
        ),
        "each thing has a definition and metadata": (
            "catalogue/test_definitions.py::test_a_table_has_types_keys_and_comments",
            "catalogue/test_definitions.py::test_a_saved_query_says_what_it_takes_and_reads",
        ),
        "contents are a list of URIs and metadata": (
            "catalogue/test_definitions.py::test_contents_are_a_list_of_uris_and_metadata",
        ),
        "the endpoint is stateless: it takes POST, and answers other methods 405": (
            "serve/test_application.py::test_a_stateless_endpoint_takes_posts_alone",
        ),
        "what is not found is answered with what was meant": (
            "catalogue/test_finding.py::test_a_misspelt_name_is_answered_with_a_near_one",
            "mcp/test_catalogue.py::test_a_table_is_described",
        ),
        "MCP clients list, read, page and complete it": (
            "mcp/test_catalogue.py::test_everything_is_listed_and_everything_listed_is_read",
            "mcp/test_catalogue.py::test_a_long_list_comes_in_pages",
            "mcp/test_catalogue.py::test_completion_knows_what_was_chosen_before",
        ),
    },
    "003 execute query": {
        "one tool runs ad-hoc and existing queries, exactly one of the two": (
            "mcp/test_execute_query.py::test_a_text_is_answered_by_a_dual_response",
            "mcp/test_execute_query.py::test_a_saved_query_is_run_by_its_name",
            "mcp/test_saved_queries.py::test_values_are_bound_as_what_they_are",
        ),
        "malformed calls and errors of the application are told apart": (
            "mcp/test_execute_query.py::test_a_malformed_call_is_answered_as_the_sdk_answers_one",
            "mcp/test_execute_query.py::test_an_error_says_what_to_do",
        ),
        "errors have suggestions, of what the caller may see": (
            "mcp/test_execute_query.py::test_a_table_one_may_not_know_of_looks_like_none",
            "mcp/test_execute_query.py::test_a_stranger_learns_nothing_where_hooks_want_a_principal",
        ),
    },
    "004 envelope": {
        "success, timestamp and content always; data or error": (
            "envelope/test_wrapping.py::test_data_is_wrapped_and_read_out",
            "envelope/test_validation.py::test_an_answer_in_order_has_no_faults",
        ),
        "items are texts, images and resources": (
            "envelope/test_validation.py::test_items_are_made_in_order_or_not_at_all",
        ),
        "data is laid out as readable text": (
            "envelope/test_reading.py::test_data_is_laid_out_and_not_dumped",
        ),
        "tools are wrapped, plain and async, and exceptions become answers": (
            "envelope/test_wrapping.py::test_whatever_a_tool_returns_its_answer_is_valid",
            "envelope/test_wrapping.py::test_an_async_tool_stays_one",
            "envelope/test_wrapping.py::test_half_an_envelope_is_made_whole",
            "envelope/test_wrapping.py::test_a_foreign_exception_is_an_incident",
        ),
        "answers are checked, and each fault is said": (
            "envelope/test_validation.py::test_every_fault_is_a_sentence",
            "envelope/test_validation.py::test_another_validator_agrees",
        ),
        "a middleware keeps malformed answers back": (
            "envelope/test_middleware.py::test_a_malformed_answer_is_replaced",
            "envelope/test_middleware.py::test_a_stream_of_json_leaves_as_it_comes",
        ),
        "answers are audited": ("envelope/test_wrapping.py::test_the_audit_has_names_and_sizes_and_no_row",),
        "clients of MCP take them": (
            "envelope/test_mcp.py::test_wrapped_tools_in_real_servers",
            "envelope/test_mcp.py::test_success_is_content_and_structure",
        ),
    },
}

BEYOND: dict[str, str] = {
    "pending/test_lifecycle.py": "queries that outlast their caller: pending, then ready or failed; who meets them",
    "pending/test_restart.py": "twenty at once, one cancelled, a server that stops or dies: nothing is left",
    "pending/test_client.py": "the client is told that a query still runs, waits for it, and hears of its failure",
    "pending/test_tasks.py": "slow calls as tasks of the official SDK: whose, how they end, in any process",
    "pending/test_fastmcp_tasks.py": "slow calls as tasks of fastmcp's extension; progress",
    "store/test_pending.py": "in every store, what is pending ends once",
    "counts/test_counting.py": "exact, estimated, capped: each total on each engine, and the word for its worth",
    "cost/test_result_cache.py": "rows that are kept for a while, and for whom",
    "cost/test_page_serving.py": "what a worker keeps between two requests",
    "counts/test_later.py": "what was not counted at first; whose count it is",
    "sql/test_attacks.py": "no hostile text becomes a statement",
    "sql/test_fencing.py": "texts tell nothing of hidden rows by failing",
    "sql/test_legitimate.py": "analytic queries give the rows of the engine",
    "sql/test_reading.py": "what a text becomes, and errors a model can act on",
    "tenants/test_text.py": "a text is answered from the tenant's own rows",
    "serve/test_clients.py": "SDKs' own clients at `dualsql serve`: memory, HTTP, stdio, fifty calls at once",
    "serve/test_flows.py": "conversations of several steps, with errors that are met and mended",
    "serve/test_hosts.py": "what to paste into a host's configuration, without a secret",
    "serve/test_reflection.py": "a database's own tables, on each engine, with all that people keep in them",
    "store/test_accesses.py": "counting behind the store's back: cut off, refused, overflowing",
    "server/test_cancelling.py": "a caller that is cancelled again and again",
    "client/test_http_libraries.py": "both httpx libraries, and every error they can raise",
    "client/test_rows.py": "typed values",
    "client/test_kept.py": "raw results, for SDKs that keep only texts",
    "client/test_docs.py": "what the page about the client prints",
    "sdks/test_live.py": "what each agent SDK hands over, run for real with a scripted model",
    "client/test_sync.py": "the same client without await, in scripts and notebooks, and no thread left",
    "hosts/test_hosts.py": "a host on each SDK, its model scripted, each SDK in its own environment",
    "viewer/test_viewer.py": "every row in a terminal of 80 by 24: paged, sorted, found, saved, pinned, harmless",
    "fetch/test_fetch.py": "the command that saves rows: what it says, where it goes, breaks, bad input",
    "client/test_glance.py": "a dual response at a glance: right, bounded, and no cell does anything",
    "client/test_frames.py": "data frames hold what the database held, NULLs and all",
    "client/test_framing.py": "rows found wherever a stream is cut, and no stream that lacks its end",
    "client/test_hostile_streams.py": "hostile, broken and busy servers of streams",
    "demo/test_care.py": "what the demo must not do to the person who runs it",
    "demo/test_data.py": "the data the demo ships",
    "failures/test_database.py": "the queried database is down or full: told so, in one log line",
    "failures/test_postgresql.py": "a PostgreSQL that is stopped, killed, struck or silent, over real HTTP",
    "failures/test_sqlite.py": "a full disk, a file that is removed or held, over real HTTP",
    "formats/test_samples.py": "a sample keeps to its budget and says what was cut",
    "formats/test_streams.py": "each format of a stream: heads, pieces, ends, failures",
    "lanes/test_attacks.py": "every lane: writing, never ending, values left behind, wide rows",
    "lanes/test_carried.py": "values for statements that take none",
    "lanes/test_collector.py": "rows are made without the collector of cycles, which is on again after each batch",
    "lanes/test_equal.py": "every lane gives the same cells, on every type, in every format",
    "lanes/test_quick.py": "pages by one thread: read-only, stopped in time, none holds up the others",
    "formats/test_text.py": "what a model reads cannot be forged or outgrow its budget",
    "freeze/test_alone.py": "the library on its own",
    "freeze/test_answers.py": "what is thawed answers with the same rows",
    "freeze/test_appended.py": "a narrowing filter holds beside whatever a document says",
    "freeze/test_drift.py": "what a newer SQLAlchemy adds is noticed",
    "freeze/test_hostile.py": "forged and damaged documents",
    "freeze/test_hostile_bombs.py": "short documents that would be long statements",
    "freeze/test_hostile_types.py": "own types that would meet foreign content",
    "freeze/test_own_elements.py": "elements of an application's own, and forged ones",
    "freeze/test_properties.py": "any value and any nesting comes back",
    "envelope/test_docs.py": "what the page about envelopes prints",
    "envelope/test_values.py": "values of tools as JSON, exact, refused and bounded",
    "execute/test_answers.py": "engines without an async driver, and MariaDB, answer what SQLite does",
    "execute/test_authorizer.py": "SQLite refuses files, settings and code, too",
    "execute/test_immediate.py": "what is read on the event loop keeps it for milliseconds",
    "execute/test_limits.py": "how many queries run at once, and what the others are told",
    "execute/test_other_drivers.py": "psycopg and PyMySQL",
    "execute/test_size.py": "rows that weigh more than a server can hold",
    "execute/test_replica.py": "a hot standby serves the reads",
    "catalogue/test_visibility.py": "who sees which tables",
    "execute/test_tenants.py": "tenants on every kind of engine",
    "execute/test_time.py": "queries end in time, in the database too",
    "execute/test_writing.py": "nothing is written, on any kind of engine",
    "freeze/test_refusals.py": "what no document can hold",
    "asking/test_oracle.py": "questions about results, answered as polars answers them on the full rows",
    "asking/test_client.py": "the client asks, in Python's values",
    "asking/test_refining.py": "results made of results",
    "mcp/test_result_tools.py": "tools that go on with an earlier result; data_manager",
    "asking/test_hidden.py": "masks, tenants, sums and letters, on every engine",
    "asking/test_query.py": "POST /{id}/query: pages, streams, refusals",
    "asking/test_sql.py": "POST /{id}/sql: one relation and nothing else",
    "narrowing/test_policy.py": "what rules may say, and what stops a server",
    "freeze/test_releases.py": "other releases of SQLAlchemy, other formats",
    "freeze/test_seal.py": "signatures and their secrets",
    "http/test_body.py": "bodies are bounded in size and time",
    "http/test_connection.py": "work stops when its caller hangs up",
    "http/test_guard.py": "foreign hosts and origins",
    "http/test_conditions.py": "ETags of descriptions and of data that stands still",
    "http/test_filenames.py": "names of results as names of files",
    "http/test_negotiation.py": "what is chosen for the headers that callers send",
    "http/test_refusals.py": "hostile requests",
    "http/test_resuming.py": "broken streams are gone on with, byte for byte, or refused",
    "http/test_rows.py": "all rows as one answer",
    "http/test_streaming.py": "how a stream ends, as a server of HTTP sees it",
    "identity/test_audit.py": "what is remembered of each deed",
    "identity/test_authenticate.py": "who sent a request, and who is refused",
    "identity/test_links.py": "signed links, their ends and their forgeries",
    "identity/test_listing.py": "a principal's own resources",
    "identity/test_quotas.py": "how much one principal may keep",
    "identity/test_strangers.py": "what a stranger learns: nothing",
    "live/test_connections.py": "real connections: slow, cut, endless",
    "live/test_streams.py": "streams over real sockets: readers who leave or stall, databases that break",
    "mcp/test_catalogue_tenants.py": "two tenants look at one catalogue",
    "mcp/test_discovery.py": "capabilities, the well-known document, the system prompt",
    "mcp/test_resources.py": "stored results read over MCP",
    "mcp/test_subscriptions.py": "who is told that a result has changed",
    "server/test_watching.py": "what is told of resources that are followed, and what it costs",
    "mcp/test_extras.py": "no SDK is needed that is not used",
    "mcp/test_hosts.py": "what is said of hosts has a source",
    "mcp/test_identity.py": "who calls a tool owns its result",
    "mcp/test_live.py": "tools over HTTP, many at once",
    "mcp/test_pictures.py": "a tool answers with a picture, on either SDK",
    "mcp/test_plain_tools.py": "a function that returns plain data is a tool, too",
    "mcp/test_principal.py": "a tool's function is told who calls",
    "mcp/test_problems.py": "what a tool answers when it cannot",
    "mcp/test_results.py": "results are as published, small and harmless",
    "mcp/test_stdio.py": "a tool of a process of its own",
    "mcp/test_tools.py": "a function that returns a Select is a tool, on either SDK",
    "migrations/test_command.py": "the command line asks before it deletes",
    "migrations/test_mounted.py": "migrations inside an application's own",
    "paging/test_cursor_pages.py": "pages by cursor as they are served; rows that move; what has no cursors",
    "paging/test_cursors.py": "cursors and their forgeries",
    "paging/test_keyset.py": "pages beside a place, joined in both directions on every engine",
    "paging/test_keyset_tables.py": "the same on tables nobody thought of",
    "plan/test_keyset.py": "what a page beside a place compiles to",
    "plan/test_options.py": "loader options around a Select",
    "plan/test_text.py": "statements written as text",
    "charts/test_charts.py": "charts are computed from all rows, for whoever looks",
    "charts/test_pictures.py": "the renderer asks nobody, and hostile texts stay texts",
    "profiling/test_bins.py": "how a range is divided",
    "profiling/test_profile.py": "the figures of a profile are those of polars, on every engine",
    "profiling/test_serving.py": "who hears what of a profile, and within which time",
    "sampling/test_samples.py": "rows that are not the first: the last, at even ranks, at random by seed",
    "store/test_engine_choice.py": "which engines and URLs a store takes",
    "store/test_glance.py": "a resource's row read on the event loop",
    "store/test_load.py": "a store under load",
    "store/test_memory.py": "the memory store's bound",
    "store/test_outage.py": "databases that go away",
    "store/test_outages.py": "what the log says of them",
    "store/test_principals.py": "what a store keeps for each principal; links",
    "store/test_tampering.py": "rows somebody else wrote",
    "tenants/test_lanes.py": "every lane answers a tenant from its own rows",
    "tenants/test_masks.py": "nothing can be learned of a masked value",
    "tenants/test_proof.py": "the SQL that is sent, read by another parser",
    "tenants/test_row_security.py": "PostgreSQL's own row security as a rule",
    "test_docs.py": "documents that agree with the code",
    "test_engines.py": "the tests' own databases",
    "test_house.py": "laws of the house that no linter knows",
    "test_requirements.py": "this list",
    "test_urls.py": "database URLs",
}
"""Files of tests that hold what the seeds do not speak of, and what that is."""
