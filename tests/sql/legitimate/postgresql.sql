-- What people write for PostgreSQL alone.

-- orders by month
SELECT date_trunc('month', o_orderdate) AS month, count(*) AS n FROM orders GROUP BY date_trunc('month', o_orderdate) ORDER BY month;
-- orders by year
SELECT extract(year FROM o_orderdate) AS y, extract(month FROM o_orderdate) AS m, count(*) AS n FROM orders GROUP BY 1, 2 ORDER BY 1, 2;
-- a part of a date
SELECT o_orderkey, date_part('dow', o_orderdate) AS dow FROM orders ORDER BY o_orderkey;
-- a date and an interval
SELECT o_orderkey FROM orders WHERE o_orderdate >= DATE '1994-06-01' AND o_orderdate < DATE '1994-06-01' + INTERVAL '3 month' ORDER BY o_orderkey;
-- an interval by parts
SELECT DATE '1995-01-31' + INTERVAL '1' MONTH AS d, DATE '1995-03-01' - INTERVAL '1 year 2 days' AS e;
-- days between
SELECT l_orderkey, l_linenumber, l_receiptdate - l_shipdate AS days FROM lineitem ORDER BY 1, 2 LIMIT 20;
-- an age
SELECT o_orderkey, age(DATE '1996-01-01', o_orderdate) > INTERVAL '1 year' AS is_old FROM orders ORDER BY o_orderkey;
-- a date as a text
SELECT o_orderkey, to_char(o_orderdate, 'YYYY-MM') AS month FROM orders ORDER BY o_orderkey;
-- a cast by colons
SELECT o_totalprice::integer AS whole, o_orderdate::text AS day, '1995-06-01'::date AS d FROM orders ORDER BY o_orderkey;
-- distinct on
SELECT DISTINCT ON (o_custkey) o_custkey, o_orderkey, o_orderdate FROM orders ORDER BY o_custkey, o_orderdate DESC, o_orderkey;
-- any letter case
SELECT n_name FROM nation WHERE n_name ILIKE 'ger%' OR n_name ILIKE '%a' ORDER BY n_name;
-- a regular expression
SELECT n_name FROM nation WHERE n_name ~ '^[BCF]' ORDER BY n_name;
-- texts of a group
SELECT n_regionkey, string_agg(n_name, ', ' ORDER BY n_name) AS names FROM nation GROUP BY n_regionkey ORDER BY n_regionkey;
-- an array of a group
SELECT n_regionkey, array_agg(n_name ORDER BY n_name DESC) AS names FROM nation GROUP BY n_regionkey ORDER BY n_regionkey;
-- an array's length
SELECT c_nationkey, array_length(array_agg(c_custkey), 1) AS n FROM customer GROUP BY c_nationkey ORDER BY c_nationkey;
-- a series
SELECT n FROM generate_series(1, 10) AS n ORDER BY n;
-- a series of a step
SELECT n, n * n AS square FROM generate_series(0, 100, 25) AS n ORDER BY n;
-- months without orders
SELECT m, count(o_orderkey) AS n FROM generate_series(1, 12) AS m LEFT JOIN orders ON extract(month FROM o_orderdate) = m GROUP BY m ORDER BY m;
-- elements of an array
SELECT n FROM unnest(ARRAY[3, 1, 2]) AS n ORDER BY n;
-- the last order of each customer
SELECT c_custkey, o.o_orderkey FROM customer CROSS JOIN LATERAL (SELECT o_orderkey FROM orders WHERE o_custkey = c_custkey ORDER BY o_orderdate DESC, o_orderkey LIMIT 1) AS o ORDER BY c_custkey;
-- ... of those too who have none
SELECT c_custkey, o.o_orderkey FROM customer LEFT JOIN LATERAL (SELECT o_orderkey FROM orders WHERE o_custkey = c_custkey ORDER BY o_orderdate DESC, o_orderkey LIMIT 1) AS o ON true ORDER BY c_custkey;
-- subtotals
SELECT l_shipmode, l_returnflag, sum(l_quantity) AS q FROM lineitem GROUP BY ROLLUP (l_shipmode, l_returnflag) ORDER BY 1 NULLS LAST, 2 NULLS LAST;
-- all subtotals
SELECT l_shipmode, l_returnflag, count(*) AS n FROM lineitem GROUP BY CUBE (l_shipmode, l_returnflag) ORDER BY 1, 2;
-- chosen subtotals
SELECT l_shipmode, l_returnflag, count(*) AS n, grouping(l_shipmode) AS g FROM lineitem GROUP BY GROUPING SETS ((l_shipmode), (l_returnflag), ()) ORDER BY 1, 2;
-- a median
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY e_salary) AS median, percentile_disc(0.9) WITHIN GROUP (ORDER BY e_salary) AS top FROM employee;
-- the mode
SELECT mode() WITHIN GROUP (ORDER BY l_shipmode) AS most FROM lineitem;
-- deviations
SELECT stddev(e_salary) AS s, var_pop(e_salary) AS v, stddev_samp(o_totalprice) AS o FROM employee, orders WHERE o_orderkey = e_id;
-- a correlation
SELECT corr(l_quantity, l_extendedprice) AS r, regr_slope(l_quantity, l_tax) AS slope FROM lineitem;
-- truths of a group
SELECT e_team, bool_and(e_active) AS all_active, bool_or(e_active) AS some_active FROM employee GROUP BY e_team ORDER BY e_team;
-- parts of texts
SELECT split_part(c_phone, '-', 1) AS code, left(c_name, 4) AS l, right(c_name, 3) AS r, position('#' IN c_name) AS p FROM customer ORDER BY c_custkey;
-- texts made otherwise
SELECT initcap('hello world') AS i, lpad('7', 3, '0') AS l, repeat('ab', 2) AS r, reverse('abc') AS v, translate('12345', '143', 'ax') AS t, overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4) AS o;
-- trimmed of a letter
SELECT trim(BOTH 'x' FROM 'xxaxx') AS b, trim(LEADING 'x' FROM 'xxa') AS l, trim(TRAILING FROM 'a  ') AS t;
-- not like any
SELECT p_partkey FROM part WHERE p_brand = ANY (ARRAY['Brand#12', 'Brand#34']) ORDER BY p_partkey;
-- JSON made of rows
SELECT n_regionkey, jsonb_agg(n_name ORDER BY n_name) AS names FROM nation GROUP BY n_regionkey ORDER BY n_regionkey;
-- JSON taken apart
SELECT j ->> 'a' AS a, (j -> 'b') ->> 0 AS b FROM (SELECT jsonb_build_object('a', 1, 'b', jsonb_build_array('x', 'y')) AS j) AS q;
-- dates made of numbers
SELECT make_date(d_year, d_moy, d_dom) = d_date AS same, count(*) AS n FROM date_dim GROUP BY 1;
-- fetch with brackets
SELECT c_custkey FROM customer ORDER BY c_custkey FETCH FIRST (3) ROWS ONLY;
-- a schema's name before the table's
SELECT public.nation.n_name FROM public.nation ORDER BY public.nation.n_name;
-- materialized
WITH q AS MATERIALIZED (SELECT a FROM x) SELECT a FROM q ORDER BY a;
-- a double
SELECT e_salary::double precision / 7 AS d, round((e_salary / 7.0)::numeric, 3) AS n FROM employee ORDER BY e_id;
-- seconds of an instant
SELECT v_id, extract(hour FROM v_at) AS h, date_trunc('day', v_at) AS d FROM event ORDER BY v_id;
