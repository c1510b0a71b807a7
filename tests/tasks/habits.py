"""Tasks over the same two databases, as a model writes them that thinks of another database."""

# ruff: noqa: E501 - queries are on one line, as a model writes them

from __future__ import annotations

from tests.tasks.playing import Call, Task, ask, describe, find, refine, sql

_UA = "SELECT * FROM flights WHERE carrier = 'UA'"

FLIGHTS = [
    Task(
        "Busiest carriers, by a habit of SQL Server.",
        "SELECT carrier, count(*) FROM flights GROUP BY carrier ORDER BY 2 DESC, 1 LIMIT 3",
        [
            sql(
                "SELECT TOP 3 [carrier], COUNT(*) AS [flight count] FROM [dbo].[flights] GROUP BY [carrier] ORDER BY [flight count] DESC, [carrier];"
            )
        ],
    ),
    Task(
        "Delays without gaps.",
        "SELECT id, coalesce(dep_delay, 0), coalesce(arr_delay, -1) FROM flights WHERE id <= 10 ORDER BY id",
        [
            sql(
                "SELECT id, NVL(dep_delay, 0) AS dep, ISNULL(arr_delay, -1) AS arr FROM flights WHERE id <= 10 ORDER BY id"
            )
        ],
        rewrite=('Write coalesce(x, y)', 'SELECT id, NVL(dep_delay, 0) AS dep, coalesce(arr_delay, -1) AS arr FROM flights WHERE id <= 10 ORDER BY id'),
    ),
    Task(
        "Flights of each year and month.",
        "SELECT 2013, month, count(*) FROM flights GROUP BY month ORDER BY month",
        [
            sql(
                "SELECT YEAR(time_hour) AS y, MONTH(time_hour) AS m, COUNT(*) AS n FROM flights GROUP BY YEAR(time_hour), MONTH(time_hour) ORDER BY y, m"
            )
        ],
    ),
    Task(
        "The same as MySQL writes months.",
        "SELECT strftime('%Y-%m', time_hour), count(*) FROM flights GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT DATE_FORMAT(`time_hour`, '%Y-%m') AS ym, COUNT(*) AS n FROM `flights` GROUP BY ym ORDER BY ym"
            )
        ],
        rewrite=("Write strftime('%Y-%m', x)", "SELECT strftime('%Y-%m', `time_hour`) AS ym, COUNT(*) AS n FROM `flights` GROUP BY ym ORDER BY ym"),
    ),
    Task(
        "The same as PostgreSQL writes them.",
        "SELECT strftime('%Y-%m', time_hour), count(*) FROM flights GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT TO_CHAR(time_hour, 'YYYY-MM') AS ym, COUNT(*) AS n FROM public.flights GROUP BY 1 ORDER BY 1"
            )
        ],
        rewrite=("Write strftime('%Y-%m', x)", "SELECT strftime('%Y-%m', time_hour) AS ym, COUNT(*) AS n FROM public.flights GROUP BY 1 ORDER BY 1"),
    ),
    Task(
        "Flights of each day, the first five days.",
        "SELECT date(time_hour), count(*) FROM flights GROUP BY 1 ORDER BY 1 LIMIT 5",
        [
            sql(
                "SELECT time_hour::date AS d, COUNT(*) AS n FROM flights GROUP BY time_hour::date ORDER BY d FETCH FIRST 5 ROWS ONLY"
            )
        ],
    ),
    Task(
        "Flights of each week, Mondays first.",
        "SELECT date(time_hour, '-6 days', 'weekday 1'), count(*) FROM flights GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT DATE_TRUNC(time_hour, WEEK) AS w, COUNT(*) AS n FROM flights GROUP BY w ORDER BY w"
            )
        ],
        rewrite=("Write date_trunc('week', x)", "SELECT date_trunc('week', time_hour) AS w, COUNT(*) AS n FROM flights GROUP BY w ORDER BY w"),
    ),
    Task(
        "Flights of the last week of the data.",
        "SELECT count(*) FROM flights WHERE time_hour >= '2013-12-21 22:00:00.000000'",
        [
            sql(
                "WITH last AS (SELECT MAX(time_hour) AS t FROM flights) SELECT COUNT(*) AS n FROM flights CROSS JOIN last WHERE time_hour >= last.t - INTERVAL '7 days'"
            )
        ],
    ),
    Task(
        "Flights of June.",
        "SELECT count(*) FROM flights WHERE month = 6",
        [
            sql(
                "SELECT COUNT(*) AS n FROM flights WHERE time_hour >= DATE '2013-06-01' AND time_hour < DATE_ADD('2013-06-01', INTERVAL 1 MONTH)"
            )
        ],
    ),
    Task(
        "How many days after New Year was each of these flights?",
        "SELECT id, CAST(julianday(date(time_hour)) - julianday('2013-01-01') AS INTEGER) FROM flights WHERE id BETWEEN 500 AND 505 ORDER BY id",
        [
            sql(
                "SELECT id, DATEDIFF(day, '2013-01-01', time_hour) AS days FROM flights WHERE id BETWEEN 500 AND 505 ORDER BY id"
            )
        ],
        rewrite=('Write julianday(a) - julianday(b)', "SELECT id, CAST(julianday(date(time_hour)) - julianday('2013-01-01') AS INTEGER) AS days FROM flights WHERE id BETWEEN 500 AND 505 ORDER BY id"),
    ),
    Task(
        "Names of flights, put together.",
        "SELECT carrier || '-' || flight, substr(dest, 1, 2) FROM flights WHERE id < 5 ORDER BY id",
        [
            sql(
                "SELECT CONCAT(carrier, '-', flight) AS no, LEFT(dest, 2) AS d FROM flights WHERE id < 5 ORDER BY id"
            )
        ],
    ),
    Task(
        "Late flights by carrier, counted by a habit of Spark.",
        "SELECT carrier, sum(coalesce(dep_delay > 60, 0)) FROM flights GROUP BY carrier ORDER BY carrier",
        [
            sql(
                "SELECT carrier, COUNT_IF(dep_delay > 60) AS late FROM flights GROUP BY carrier ORDER BY carrier"
            )
        ],
    ),
    Task(
        "Different planes of each carrier, about.",
        "SELECT carrier, count(DISTINCT tailnum) FROM flights GROUP BY carrier ORDER BY carrier",
        [
            sql(
                "SELECT carrier, APPROX_COUNT_DISTINCT(tailnum) AS planes FROM flights GROUP BY carrier ORDER BY carrier"
            )
        ],
    ),
    Task(
        "Longest names of airlines, with words around the query.",
        "SELECT name, length(name) FROM airlines ORDER BY 2 DESC, 1 LIMIT 2",
        [
            sql(
                "Here is the query:\n\n```sql\nSELECT name, LEN(name) AS len FROM airlines ORDER BY len DESC, name LIMIT 2;\n```\n\nIt sorts by length."
            )
        ],
        rewrite=('Write length(x)', 'SELECT name, length(name) AS len FROM airlines ORDER BY len DESC, name LIMIT 2;'),
    ),
    Task(
        "The worst flight of each carrier.",
        "SELECT carrier, max(dep_delay) FROM flights GROUP BY carrier ORDER BY carrier",
        [
            sql(
                "SELECT DISTINCT carrier, MAX(dep_delay) OVER (PARTITION BY carrier) AS worst FROM flights ORDER BY carrier"
            )
        ],
    ),
    Task(
        "Destinations of United: the model forgets that it asks the result.",
        "SELECT dest, count(*) FROM flights WHERE carrier = 'UA' GROUP BY dest ORDER BY dest",
        [
            sql(_UA),
            ask(sql="SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY dest"),
        ],
    ),
    Task(
        "Mean delay by destination of United, as another library writes it.",
        "SELECT dest, avg(dep_delay) FROM flights WHERE carrier = 'UA' GROUP BY dest ORDER BY 2 DESC",
        [
            sql(_UA),
            ask(aggregates=[{"op": "AVG", "field": "dep_delay", "alias": "a"}], group_by="dest", order_by="a desc"),
        ],
    ),
    Task(
        "The mean delay, as pandas writes it.",
        "SELECT dest, avg(dep_delay) FROM flights WHERE carrier = 'UA' GROUP BY dest ORDER BY dest",
        [sql(_UA), ask(aggregates={"dep_delay": "mean"}, group_by="dest", order_by="dest")],
    ),
    Task(
        "Airport of the airline's code, by names that are not there.",
        "SELECT name FROM airlines WHERE carrier = 'UA'",
        [sql("SELECT name FROM airlines WHERE carrier_code = 'UA'")],
    ),
    Task(
        "Flights of a month given apart.",
        "SELECT count(*) FROM flights WHERE month = 3 AND origin = 'JFK'",
        [
            sql(
                "SELECT COUNT(*) AS n FROM flights f WHERE f.month = :month AND f.origin = :origin",
                parameters='{"month": 3, "origin": "JFK"}',
            )
        ],
    ),
]  # fmt: skip

SHOP = [
    Task(
        "Orders as SQL Server names tables.",
        "SELECT count(*) FROM sales.orders",
        [sql("SELECT COUNT(*) AS n FROM [sales].[orders] AS [o];")],
    ),
    Task(
        "VIPs by a habit of MySQL.",
        'SELECT count(*) FROM sales.customers WHERE "isVIP"',
        [sql("SELECT COUNT(*) AS n FROM `sales`.`customers` WHERE `isVIP` = 1")],
    ),
    Task(
        "Who is no VIP, with the name in wrong quotes.",
        'SELECT count(*) FROM sales.customers WHERE NOT "isVIP"',
        [sql("SELECT COUNT(*) AS n FROM sales.customers WHERE \"isvip\" = 'false'")],
    ),
    Task(
        "Orders of each month, as MySQL writes it.",
        "SELECT to_char(\"OrderDate\", 'YYYY-MM'), count(*) FROM sales.orders GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT DATE_FORMAT(OrderDate, '%Y-%m') AS m, COUNT(*) AS n FROM sales.orders GROUP BY m ORDER BY m"
            )
        ],
    ),
    Task(
        "The same, as SQLite writes it.",
        "SELECT to_char(\"OrderDate\", 'YYYY-MM'), count(*) FROM sales.orders GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT strftime('%Y-%m', OrderDate) AS m, COUNT(*) AS n FROM sales.orders GROUP BY m ORDER BY m"
            )
        ],
    ),
    Task(
        "The same, as SQL Server writes it.",
        'SELECT extract(year FROM "OrderDate"), extract(month FROM "OrderDate"), count(*) FROM sales.orders GROUP BY 1, 2 ORDER BY 1, 2',
        [
            sql(
                "SELECT YEAR(OrderDate) AS y, DATEPART(month, OrderDate) AS m, COUNT(*) AS n FROM sales.orders GROUP BY YEAR(OrderDate), DATEPART(month, OrderDate) ORDER BY y, m"
            )
        ],
    ),
    Task(
        "Orders of the thirty days before April.",
        "SELECT count(*) FROM sales.orders WHERE \"OrderDate\" >= '2024-03-02' AND \"OrderDate\" < '2024-04-01'",
        [
            sql(
                "SELECT COUNT(*) AS n FROM sales.orders WHERE OrderDate >= DATEADD(day, -30, '2024-04-01') AND OrderDate < '2024-04-01'"
            )
        ],
    ),
    Task(
        "The same by SQLite's dates.",
        "SELECT count(*) FROM sales.orders WHERE \"OrderDate\" >= '2024-03-02' AND \"OrderDate\" < '2024-04-01'",
        [
            sql(
                "SELECT COUNT(*) AS n FROM sales.orders WHERE OrderDate >= date('2024-04-01', '-30 days') AND OrderDate < '2024-04-01'"
            )
        ],
    ),
    Task(
        "Days until the payment.",
        "SELECT p.method, avg(p.paid_at::date - o.\"OrderDate\"::date) FROM sales.payments p JOIN sales.orders o ON o.id = p.order_id GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT p.method, AVG(DATEDIFF(p.paid_at, o.OrderDate)) AS days FROM payments p JOIN sales.orders o ON o.id = p.order_id GROUP BY p.method ORDER BY p.method"
            )
        ],
    ),
    Task(
        "How long tickets are open, in hours.",
        "SELECT max(trunc(extract(epoch FROM closed - opened) / 3600)) FROM crm.tickets",
        [sql("SELECT MAX(TIMESTAMPDIFF(HOUR, opened, closed)) AS hours FROM crm.tickets")],
    ),
    Task(
        "The cities of the warehouses, as one text.",
        "SELECT string_agg(city, '; ' ORDER BY city) FROM warehouse",
        [sql("SELECT GROUP_CONCAT(DISTINCT city ORDER BY city SEPARATOR '; ') AS cities FROM warehouse")],
    ),
    Task(
        "The same, as Oracle writes it.",
        "SELECT string_agg(city, ', ' ORDER BY city DESC) FROM warehouse",
        [sql("SELECT LISTAGG(city, ', ') WITHIN GROUP (ORDER BY city DESC) AS cities FROM warehouse")],
    ),
    Task(
        "The median payment of each method.",
        "SELECT method, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM sales.payments GROUP BY method ORDER BY method",
        [sql("SELECT method, MEDIAN(amount) AS m FROM sales.payments GROUP BY method ORDER BY method")],
        rewrite=('Write percentile_cont(0.5) WITHIN GROUP (ORDER BY x)', 'SELECT method, percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) AS m FROM sales.payments GROUP BY method ORDER BY method'),
    ),
    Task(
        "The mean payment, to two digits.",
        "SELECT method, round(avg(amount), 2) FROM sales.payments GROUP BY method ORDER BY method",
        [
            sql(
                "SELECT method, ROUND(AVG(amount::float), 2) AS m FROM sales.payments GROUP BY method ORDER BY method"
            )
        ],
        rewrite=('round(CAST(x AS NUMERIC), 2)', 'SELECT method, ROUND(CAST(AVG(amount::float) AS NUMERIC), 2) AS m FROM sales.payments GROUP BY method ORDER BY method'),
    ),
    Task(
        "Tickets by channel, as MySQL reads documents.",
        "SELECT meta ->> 'channel', count(*) FROM crm.tickets GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT JSON_VALUE(meta, '$.channel') AS channel, COUNT(*) AS n FROM crm.tickets GROUP BY channel ORDER BY channel"
            )
        ],
        rewrite=("Write x ->> 'a'", "SELECT meta ->> 'channel' AS channel, COUNT(*) AS n FROM crm.tickets GROUP BY channel ORDER BY channel"),
    ),
    Task(
        "Late tickets, as Spark looks into a list.",
        "SELECT count(*) FROM crm.tickets WHERE 'late' = ANY (tags)",
        [sql("SELECT COUNT(*) AS n FROM crm.tickets WHERE ARRAY_CONTAINS(tags, 'late')")],
        rewrite=('Write y = ANY (x)', "SELECT COUNT(*) AS n FROM crm.tickets WHERE 'late' = ANY (tags)"),
    ),
    Task(
        "The old orders' dates, which are texts.",
        "SELECT id, to_date(placed, 'DD.MM.YYYY') FROM public.orders WHERE id < 4 ORDER BY id",
        [
            sql(
                "SELECT id, STR_TO_DATE(placed, '%d.%m.%Y') AS placed_on FROM public.orders WHERE id < 4 ORDER BY id"
            )
        ],
        rewrite=("Write to_date(x, 'DD.MM.YYYY')", "SELECT id, to_date(placed, 'DD.MM.YYYY') AS placed_on FROM public.orders WHERE id < 4 ORDER BY id"),
    ),
    Task(
        "Paid orders, by a column that has another name.",
        "SELECT count(*) FROM sales.orders WHERE state = 'paid'",
        [describe("sales.orders"), sql("SELECT COUNT(*) AS n FROM sales.orders WHERE status = 'paid'")],
    ),
    Task(
        "Ordered pieces, by a table in the singular.",
        'SELECT sum(qty) FROM sales."OrderItems"',
        [sql("SELECT SUM(qty) AS pieces FROM sales.OrderItem")],
    ),
    Task(
        "Remarks of orders, one of three spellings of each database.",
        "SELECT id, coalesce(remark, '-') FROM sales.orders WHERE id BETWEEN 98 AND 101 ORDER BY id",
        [
            find("orders"),
            sql("SELECT * FROM sales.orders WHERE id BETWEEN 98 AND 101"),
            refine(columns="id, remark", order_by="id"),
            Call(
                "execute_query",
                {"query": "SELECT id, IIF(remark IS NULL, '-', remark) AS remark FROM sales.orders WHERE id BETWEEN 98 AND 101 ORDER BY id"},
            ),
        ],
    ),
]  # fmt: skip
