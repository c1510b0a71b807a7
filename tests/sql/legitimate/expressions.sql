-- Values: NULL, CASE, texts, numbers, comparisons, casts, as every engine has them.

-- is null
SELECT a FROM x WHERE b IS NULL ORDER BY a;
-- is not null
SELECT a FROM x WHERE b IS NOT NULL ORDER BY a;
-- equal to NULL: nothing
SELECT count(*) AS n FROM x WHERE b = NULL;
-- true, false and unknown
SELECT a, a > 1 AND b > 1 AS both_of, a > 1 OR b > 1 AS one_of FROM x ORDER BY a, b;
-- not duckdb, postgresql: a truth is no number to compare with
-- not
SELECT a FROM x WHERE NOT (a > 1 AND b > 1) ORDER BY a;
-- not in a list
SELECT a FROM x WHERE a NOT IN (1, 2) ORDER BY a;
-- in a list with an expression
SELECT a FROM x WHERE a IN (1, 1 + 1, b) ORDER BY a;
-- in a list of one
SELECT a FROM x WHERE a IN (4) ORDER BY a;
-- between
SELECT a FROM x WHERE a BETWEEN 2 AND 3 ORDER BY a;
-- not between
SELECT a FROM x WHERE a NOT BETWEEN 2 AND 3 ORDER BY a;
-- between texts
SELECT c_name FROM customer WHERE c_name BETWEEN 'Customer#000000003' AND 'Customer#000000007' ORDER BY c_name;
-- a chain of ORs
SELECT p_partkey FROM part WHERE p_size = 3 OR p_size = 14 OR p_brand = 'Brand#12' AND p_container = 'LG BOX' ORDER BY p_partkey;
-- precedence of AND and OR
SELECT a, b FROM x WHERE a = 1 OR a = 2 AND b = 3 ORDER BY a, b;
-- precedence of arithmetic
SELECT 2 + 3 * 4 - 10 / 5 AS n, (2 + 3) * (4 - 10) AS m;
-- minus minus
SELECT 5 - -3 AS n, -(-a) AS m, - a AS o FROM x ORDER BY m;
-- subtraction from the left
SELECT 10 - 3 - 2 AS n, 10 - (3 - 2) AS m;
-- division from the left
SELECT 100 / 10 / 5 AS n, 100 / (10 / 5) AS m, 7.0 / 2 AS o;
-- whole division
SELECT o_orderkey, o_orderkey / 7 AS q, o_orderkey % 7 AS r FROM orders ORDER BY o_orderkey LIMIT 20;
-- modulo below zero
SELECT -7 % 3 AS n, mod(-7, 3) AS m;
-- fractions
SELECT p_partkey, p_retailprice * 0.9 AS sale, p_retailprice / 3 AS third FROM part ORDER BY p_partkey;
-- products of money keep their digits
SELECT l_orderkey, l_linenumber, l_extendedprice * (1 - l_discount) * (1 + l_tax) AS charge FROM lineitem ORDER BY 1, 2 LIMIT 40;
-- money minus money
SELECT ps_partkey, ps_suppkey, ps_supplycost - 10.005 AS cost FROM partsupp ORDER BY 1, 2;
-- large numbers
SELECT 9007199254740993 AS n, 9223372036854775807 AS m, 3000000000 + a AS o FROM x ORDER BY o;
-- exponents
SELECT 1e3 AS n, 2.5e-3 AS m;
-- rounding
SELECT round(2.567, 1) AS n, round(-2.567, 1) AS m, round(1234.5) AS o;
-- up, down and absolute
SELECT ceil(2.1) AS u, floor(-2.1) AS d, abs(-3) AS n, sign(-8) AS s;
-- roots and powers
SELECT sqrt(16) AS r, power(2, 10) AS p;
-- CASE of conditions
SELECT a, CASE WHEN a IS NULL THEN 'none' WHEN a > 2 THEN 'many' ELSE 'few' END AS kind FROM x ORDER BY a;
-- CASE of values
SELECT a, CASE a WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS name FROM x ORDER BY a, b;
-- CASE in CASE
SELECT a, CASE WHEN a > 1 THEN CASE WHEN b > 2 THEN 2 ELSE 1 END ELSE 0 END AS n FROM x ORDER BY a, b;
-- CASE of numbers of two kinds
SELECT c_custkey, CASE WHEN c_acctbal > 0 THEN c_acctbal * 1.005 ELSE 0 END AS balance FROM customer ORDER BY c_custkey;
-- coalesce
SELECT coalesce(a, b, 0) AS n, coalesce(NULL, a, -1) AS m FROM x ORDER BY n, m;
-- coalesce of a text
SELECT c_custkey, coalesce(c_comment, 'nothing said') AS said FROM customer ORDER BY c_custkey;
-- nullif
SELECT a, nullif(a, 2) AS n FROM x ORDER BY a;
-- like
SELECT p_partkey FROM part WHERE p_type LIKE 'PROMO%' ORDER BY p_partkey;
-- like in the middle
SELECT p_partkey FROM part WHERE p_type LIKE '%POLISHED%' ORDER BY p_partkey;
-- like one letter
SELECT c_name FROM customer WHERE c_name LIKE 'Customer#00000000_' ORDER BY c_name;
-- not like
SELECT p_partkey FROM part WHERE p_type NOT LIKE '%BRASS' ORDER BY p_partkey;
-- like, escaped
SELECT p_partkey, p_name FROM part WHERE p_name LIKE '%100!%%' ESCAPE '!' ORDER BY p_partkey;
-- like with a percent sign and an underscore
SELECT p_partkey FROM part WHERE p_name LIKE '%!_100%' ESCAPE '!' ORDER BY p_partkey;
-- an apostrophe
SELECT count(*) AS n FROM part WHERE p_comment = 'it''s a part';
-- a colon, a question mark and a dollar in a text
SELECT ':a ? $1 %s %(x)s {y}' AS t;
-- a backslash
SELECT 'a\b' AS t;
-- not mariadb: it escapes there
-- upper and lower
SELECT upper(n_name) AS u, lower(n_name) AS l FROM nation ORDER BY n_nationkey;
-- a part of a text
SELECT substr(c_phone, 4, 3) AS middle, substring(c_phone, 8) AS rest FROM customer ORDER BY c_custkey;
-- length and trim
SELECT length(c_name) AS n, trim('  a ') AS t, ltrim('  a') AS l, rtrim('a  ') AS r FROM customer ORDER BY c_custkey LIMIT 1;
-- replace
SELECT replace(c_phone, '-', '') AS digits FROM customer ORDER BY c_custkey;
-- joined texts
SELECT s_name || ' of ' || s_address AS label FROM supplier ORDER BY s_suppkey;
-- not mariadb: || is OR
-- joined by a function
SELECT concat(s_name, ', ', s_address) AS label FROM supplier ORDER BY s_suppkey;
-- not sqlite: has no concat() before 3.44
-- joined with NULL
SELECT c_custkey, concat(c_name, c_comment) AS t FROM customer WHERE c_custkey < 4 ORDER BY c_custkey;
-- not sqlite: has no concat() before 3.44
-- a cast to a whole number
SELECT CAST(substr(c_phone, 1, 2) AS INTEGER) + 1 AS code FROM customer ORDER BY c_custkey;
-- not mariadb: says SIGNED
-- a cast to a text
SELECT CAST(a AS CHAR(5)) AS t FROM x WHERE a = 1;
-- not postgresql, sqlite: pads it, or does not
-- a cast to money
SELECT CAST(a AS DECIMAL(10, 2)) / 3 AS n FROM x ORDER BY a;
-- a cast to a fraction
SELECT CAST(a AS DOUBLE PRECISION) / 4 AS n FROM x ORDER BY a;
-- not mariadb: says DOUBLE
-- a date compared
SELECT o_orderkey FROM orders WHERE o_orderdate > '1995-06-01' ORDER BY o_orderkey;
-- dates between
SELECT o_orderkey FROM orders WHERE o_orderdate BETWEEN '1994-03-01' AND '1994-05-31' ORDER BY o_orderkey;
-- dates in a list
SELECT d_date_sk FROM date_dim WHERE d_date IN ('1994-01-01', '1995-12-31', '1994-02-28') ORDER BY d_date_sk;
-- dates of two columns
SELECT l_orderkey, l_linenumber FROM lineitem WHERE l_receiptdate > l_commitdate AND l_shipdate < l_commitdate ORDER BY 1, 2;
-- the latest date
SELECT o_orderkey FROM orders WHERE o_orderdate = (SELECT max(o_orderdate) FROM orders) ORDER BY o_orderkey;
-- an instant compared
SELECT v_id FROM event WHERE v_at >= '1994-01-02 00:00:00' AND v_at < '1994-01-03 00:00:00' ORDER BY v_id;
-- a boolean
SELECT e_id FROM employee WHERE e_active ORDER BY e_id;
-- not a boolean
SELECT e_id FROM employee WHERE NOT e_active ORDER BY e_id;
-- a boolean compared
SELECT e_id FROM employee WHERE e_active = TRUE AND (e_team = 'lab') = FALSE ORDER BY e_id;
-- is true
SELECT e_id FROM employee WHERE e_active IS TRUE ORDER BY e_id;
-- distinct from
SELECT a, b FROM x WHERE a IS DISTINCT FROM b ORDER BY a, b;
-- not mariadb: has no IS DISTINCT FROM
-- not distinct from NULL
SELECT a FROM x WHERE b IS NOT DISTINCT FROM NULL ORDER BY a;
-- not mariadb: has no IS DISTINCT FROM
-- NULLs first
SELECT a FROM x ORDER BY a NULLS FIRST;
-- not mariadb: has no NULLS FIRST
-- NULLs last
SELECT a FROM x ORDER BY a DESC NULLS LAST;
-- not mariadb: has no NULLS LAST
-- NULLs where the engine puts them
SELECT b FROM x ORDER BY b;
-- ... the other way
SELECT b FROM x ORDER BY b DESC;
-- ordered by two, in two directions
SELECT c_mktsegment, c_acctbal, c_custkey FROM customer ORDER BY c_mktsegment DESC, c_acctbal, c_custkey DESC;
-- unequal, both ways to write it
SELECT a FROM x WHERE a <> 2 AND b != 3 ORDER BY a;
-- a constant condition
SELECT a FROM x WHERE 1 = 1 ORDER BY a;
-- a constant condition that fails
SELECT count(*) AS n FROM x WHERE 1 = 0;
-- a bit of a number
SELECT a, a & 1 AS odd, a | 8 AS more FROM x ORDER BY a;
-- a column named as a function
SELECT count AS n FROM (SELECT count(*) AS count FROM x) AS q;
-- greatest of three
SELECT greatest(1, 5, 3) AS hi, least(1, 5, 3) AS lo;
-- not sqlite: says max() and min()
-- a cast to a number of four bytes, or eight
SELECT a, CAST(a * 0.1 AS FLOAT) AS f, CAST(a AS FLOAT) / 3 > 0.33333333 AS g FROM x ORDER BY a;
