"""Every method of SQLAlchemy's compilers, and the rule for the strings that it pastes into SQL."""

from __future__ import annotations

from collections.abc import Mapping

TEXT = "rendered as written: where allow_text is set, and never under rules"

PASTES: Mapping[str, str] = {
    "_deliver_insertmanyvalues_batches": "never: reading only",
    "_generate_prefixes": f"{TEXT}; a set of words (freeze.allowed.PREFIXES) anywhere",
    "_label_returning_column": "never: reading only",
    "_mariadb_visit_drop_check_constraint": "never: reading only",
    "_on_conflict_target": "never: reading only",
    "_render_values": "names are quoted",
    "_setup_crud_hints": "never: reading only",
    "_setup_select_hints": TEXT,
    "delete_extra_from_clause": "never: reading only",
    "delete_post_criteria_clause": "never: reading only",
    "delete_table_clause": "never: reading only",
    "escape_literal_column": TEXT,
    "for_update_clause": "tables and columns, never words",
    "format_from_hint_text": TEXT,
    "get_crud_hint_text": "never: reading only",
    "get_from_hint_text": TEXT,
    "get_select_hint_text": TEXT,
    "get_select_precolumns": f'{TEXT} (distinct="...")',
    "get_statement_hint_text": TEXT,
    "render_bind_cast": "as visit_typeclause",
    "render_literal_bindparam": "escaped by the dialect",
    "render_literal_value": "escaped by the dialect",
    "returning_clause": "never: reading only",
    "update_from_clause": "never: reading only",
    "update_post_criteria_clause": "never: reading only",
    "update_tables_clause": "never: reading only",
    "visit_cast": "as visit_typeclause",
    "visit_collation": "a pattern: names.is_collation",
    "visit_column": f"{TEXT}; a star, digits and a quoted word anywhere",
    "visit_contains_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_cte": "prefixes and suffixes as in _generate_prefixes; names are quoted",
    "visit_custom_op_binary": "a set of signs: OP_STRINGS, Registry(operators=)",
    "visit_custom_op_unary_modifier": "a set of signs: OP_STRINGS, Registry(operators=)",
    "visit_custom_op_unary_operator": "a set of signs: OP_STRINGS, Registry(operators=)",
    "visit_delete": "never: reading only",
    "visit_dmltargetcopy": "never: reading only",
    "visit_endswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_extract": "a set of words: EXTRACT_FIELDS",
    "visit_frame_clause": "whole numbers, bound",
    "visit_fromclause": "refused by freeze: no such element",
    "visit_function": "a set of names: FUNCTIONS, Registry(functions=), with packages; quoted where need be",
    "visit_icontains_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_iendswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_ilike_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_insert": "never: reading only",
    "visit_istartswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_lambda_element": "what it gives is written",
    "visit_like_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_match_op_binary": "postgresql_regconfig: a pattern, names.is_identifier",
    "visit_mysql_dml_limit_clause": "never: reading only",
    "visit_mysql_match": "flags that are booleans",
    "visit_next_value_func": "refused by freeze",
    "visit_not_contains_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_endswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_icontains_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_iendswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_ilike_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_istartswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_like_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_not_regexp_match_op_binary": "flags: a pattern, rendered as a literal",
    "visit_not_startswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_on_conflict_do_nothing": "never: reading only",
    "visit_on_conflict_do_update": "never: reading only",
    "visit_on_duplicate_key_update": "never: reading only",
    "visit_over": "a set of words: FRAME_EXCLUSIONS",
    "visit_regexp_match_op_binary": "flags: a pattern, rendered as a literal",
    "visit_regexp_replace_op_binary": "flags: a pattern, rendered as a literal",
    "visit_release_savepoint": "never: reading only",
    "visit_rollback_to_savepoint": "never: reading only",
    "visit_savepoint": "never: reading only",
    "visit_sequence": "refused by freeze",
    "visit_startswith_op_binary": "escape: two characters at most, rendered as a literal",
    "visit_textclause": TEXT,
    "visit_textual_label_reference": "a name of the SELECT list, looked up",
    "visit_textual_select": TEXT,
    "visit_tstring": "refused by freeze; never under rules",
    "visit_tstring_text": "refused by freeze",
    "visit_type_coerce": "as visit_typeclause",
    "visit_typeclause": "a table of types whose arguments are numbers, flags and patterns (freeze.types)",
    "visit_update": "never: reading only",
}
"""Method -> what may stand there."""

PASTES_NOTHING = frozenset(
    """_add_to_params _add_to_result_map _anonymize _assert_pg_ts_ext _compose_select_body _create_result_map
    _dispatch_independent_ctes _display_froms_for_select _enclosing_correlate_froms _escaped_bind_name
    _exact_decimal_division _fallback_column_name _generate_delimited_and_list _generate_delimited_list
    _generate_generic_binary _generate_generic_unary_modifier _generate_generic_unary_operator
    _get_custom_operator_dispatch _get_operator_dispatch _get_sentinel_column_for_table
    _get_set_input_sizes_lookup _init_cte_state _json_extract _label_select_column
    _literal_execute_expanding_parameter _literal_execute_expanding_parameter_literal_binds
    _mariadb_regexp_flags _mariadb_regexp_match _mariadb_regexp_replace_op_binary _mysql_regexp_match
    _mysql_regexp_replace_op_binary _nested_result _process_numeric _process_parameters_for_postcompile
    _process_positional _regexp_match _regexp_matches _render_cte_clause _render_json_extract_from_binary
    _row_limit_clause _setup_select_stack _truncate_bindparam _truncated_identifier _unscaled_decimal
    bindparam_string construct_expanded_state construct_params default_from fetch_clause function_argspec
    get_cte_preamble get_render_as_alias_suffix group_by_clause is_subquery limit_clause order_by_clause
    post_process_text process visit_aggregate_order_by visit_aggregate_orderby_inline
    visit_aggregate_strings_func visit_aggregateorderby visit_alias visit_array visit_between_op_binary
    visit_binary visit_bindparam visit_bitwise_xor_op_binary visit_case visit_char_length_func
    visit_clauselist visit_compound_select visit_concat_op_binary visit_concat_op_expression_clauselist
    visit_element_list visit_empty_set_expr visit_empty_set_op_expr visit_expression_clauselist visit_false
    visit_floordiv_binary visit_funcfilter visit_function_as_comparison_op_binary visit_getitem_binary
    visit_grouping visit_hstore_getitem_op_binary visit_ilike_case_insensitive_operand visit_index
    visit_is_distinct_from_binary visit_is_false_unary_operator visit_is_not_distinct_from_binary
    visit_is_true_unary_operator visit_join visit_json_getitem_op_binary visit_json_path_getitem_op_binary
    visit_label visit_label_reference visit_lateral visit_localtimestamp_func visit_mod_binary
    visit_not_between_op_binary visit_not_in_op_binary visit_not_match_op_binary visit_now_func visit_null
    visit_order_by_list visit_override_binds visit_phraseto_tsquery_func visit_plainto_tsquery_func
    visit_postgresql_distinct_on visit_pow_func visit_random_func visit_rollup_func
    visit_scalar_function_column visit_scalar_values visit_select visit_select_statement_grouping
    visit_slice visit_subquery visit_substring_func visit_sysdate_func visit_table visit_table_valued_alias
    visit_table_valued_column visit_tablesample visit_to_tsquery_func visit_to_tsvector_func visit_true
    visit_truediv_binary visit_ts_headline_func visit_tuple visit_unary visit_unsupported_compilation
    visit_values visit_websearch_to_tsquery_func visit_withingroup""".split()
)
"""They write elements, constants of their own, and names that the dialect quotes."""
