-- What names mean: aliases, stars, scopes, quotes. Many are re-typed from the optimizer fixtures of sqlglot, for x, y, z.

-- a column
SELECT a FROM x ORDER BY a;
-- a column of a table
SELECT x.a FROM x ORDER BY x.a;
-- an alias without AS
SELECT x.a b FROM x ORDER BY b;
-- an alias of another column
SELECT a AS b, b AS a FROM x ORDER BY a, b;
-- a table under another name
SELECT t.a, t.b FROM x AS t ORDER BY 1, 2;
-- any case
SELECT A, X.B FROM X ORDER BY A, x.b;
-- not mariadb: its tables' names have a case
-- quoted
SELECT "a", "x"."b" FROM "x" ORDER BY "a", "b";
-- not mariadb: a text stands in double quotes
-- a quoted alias with blanks
SELECT a AS "the a", b + 1 AS "b plus 1" FROM x ORDER BY "the a", "b plus 1";
-- not mariadb: a text stands in double quotes
-- everything
SELECT * FROM x ORDER BY a, b;
-- everything of one
SELECT x.* FROM x JOIN y ON x.b = y.b ORDER BY a, x.b;
-- everything and more
SELECT *, a + b AS s FROM x ORDER BY a, b;
-- everything of both by name
SELECT x.a, y.* FROM x, y WHERE x.b = y.b ORDER BY a, y.b, y.c;
-- a derived table
SELECT a FROM (SELECT * FROM x) AS q ORDER BY a;
-- a derived table within another
SELECT a FROM (SELECT a FROM (SELECT a, b FROM x WHERE b > 1) AS q) AS r ORDER BY a;
-- an alias in the derived table
SELECT q.n FROM (SELECT a + 1 AS n FROM x) q WHERE q.n > 2 ORDER BY n;
-- the same alias inside and outside
SELECT x.b FROM (SELECT x.b FROM x WHERE x.a > 1) AS x ORDER BY x.b;
-- a table hidden by a common table expression
WITH x AS (SELECT b AS a, c AS b FROM y) SELECT a, b FROM x ORDER BY a, b;
-- two of them
WITH q AS (SELECT a, b FROM x), r AS (SELECT b, c FROM y) SELECT q.a, r.c FROM q JOIN r ON q.b = r.b ORDER BY 1, 2;
-- one of the other
WITH q AS (SELECT a, b FROM x WHERE a > 1), r AS (SELECT max(a) AS m FROM q) SELECT q.a, m FROM q, r ORDER BY q.a;
-- used twice
WITH q AS (SELECT b FROM x UNION SELECT b FROM y) SELECT p.b, r.b AS rb FROM q AS p JOIN q AS r ON p.b < r.b ORDER BY 1, 2;
-- never used
WITH q AS (SELECT a FROM x), unused AS (SELECT b FROM y) SELECT a FROM q ORDER BY a;
-- names of its columns
WITH q(m, n) AS (SELECT a, b FROM x) SELECT n, m FROM q ORDER BY m, n;
-- within a derived table
SELECT n FROM (WITH q AS (SELECT a AS n FROM x) SELECT n FROM q) AS r ORDER BY n;
-- an inner name hides an outer one
WITH q AS (SELECT 1 AS n) SELECT n FROM (WITH q AS (SELECT 2 AS n) SELECT n FROM q) AS r;
-- within a subquery
SELECT a FROM x WHERE a IN (WITH q AS (SELECT b FROM y) SELECT b FROM q) ORDER BY a;
-- the outer column is meant
SELECT a FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y.b = x.b) ORDER BY a;
-- the inner column is meant
SELECT b FROM x WHERE b IN (SELECT b FROM y WHERE c > 2) ORDER BY b;
-- two levels out
SELECT a FROM x WHERE EXISTS (SELECT 1 FROM y WHERE EXISTS (SELECT 1 FROM z WHERE z.b = y.b AND y.c >= x.a)) ORDER BY a;
-- grouped by an alias
SELECT a + 1 AS n, count(*) AS k FROM x GROUP BY n ORDER BY n;
-- grouped by a place
SELECT b, count(*) AS k FROM x GROUP BY 1 ORDER BY 1;
-- grouped by a column that an alias hides
SELECT b + 10 AS b, count(*) AS k FROM x GROUP BY x.b ORDER BY 1, 2;
-- grouped by the column, not by the alias of its name
SELECT abs(a) AS a, count(*) AS k FROM x GROUP BY a ORDER BY 1, 2;
-- ordered by an alias that hides a column
SELECT -a AS a FROM x WHERE a IS NOT NULL ORDER BY a;
-- ordered by the column that an alias hides
SELECT -a AS a FROM x WHERE a IS NOT NULL ORDER BY x.a;
-- ordered by what is not selected
SELECT a FROM x WHERE a IS NOT NULL ORDER BY b DESC, a;
-- ordered by an expression
SELECT a, b FROM x WHERE a IS NOT NULL ORDER BY a * -1, b;
-- ordered by an aggregate
SELECT b FROM x GROUP BY b ORDER BY count(*) DESC, b;
-- a reserved word in quotes
SELECT a AS "select", b AS "from" FROM x ORDER BY "select", "from";
-- not mariadb: a text stands in double quotes
-- no alias for a sum
SELECT sum(a) FROM x;
-- no alias for a constant
SELECT 1, 'a', NULL;
-- no FROM
SELECT 1 + 1 AS two, 'it''s' AS t;
-- a comment in the middle
SELECT /* of x */ a -- the first
FROM x ORDER BY a;
-- a comma join and a join
SELECT x.a, y.c, z.c AS zc FROM x, y JOIN z ON y.b = z.b WHERE x.b = y.b ORDER BY 1, 2, 3;
-- brackets around a query
(SELECT a FROM x WHERE a > 2 ORDER BY a);
-- not sqlite: takes no brackets around a query
-- brackets around everything
SELECT (((a))) AS a FROM (SELECT ((x.a)) AS a FROM x) AS q WHERE (((a > 1))) ORDER BY (a);
-- a parameterless window of brackets
SELECT (a + b) * (a - b) AS n, a + b * a - b AS m FROM x ORDER BY n, m;
-- a Unicode text
SELECT p_partkey FROM part WHERE p_name LIKE 'Café%' ORDER BY p_partkey;
-- an alias in another script
SELECT a AS größe FROM x ORDER BY größe;
