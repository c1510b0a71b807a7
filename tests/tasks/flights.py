"""Tasks over the flights of New York: 20,000 rows in the shape of nycflights13, in SQLite."""

# ruff: noqa: E501 - queries are on one line, as a model writes them

from __future__ import annotations

from tests.tasks.playing import Call, Task, ask, describe, find, refine, sql, tables

_SENSORS = [f"s{number:03} REAL" for number in range(1, 182)]

SCHEMA = """
CREATE TABLE airlines (carrier TEXT PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO airlines VALUES ('UA', 'United Air Lines Inc.'), ('AA', 'American Airlines Inc.'),
    ('DL', 'Delta Air Lines Inc.'), ('B6', 'JetBlue Airways'), ('WN', 'Southwest Airlines Co.'),
    ('HA', 'Hawaiian Airlines Inc.');
CREATE TABLE airports (faa TEXT PRIMARY KEY, name TEXT NOT NULL, lat REAL, lon REAL, tz INTEGER);
INSERT INTO airports VALUES ('JFK', 'John F Kennedy Intl', 40.6, -73.8, -5), ('LGA', 'La Guardia', 40.8, -73.9, -5),
    ('EWR', 'Newark Liberty Intl', 40.7, -74.2, -5), ('LAX', 'Los Angeles Intl', 33.9, -118.4, -8),
    ('ORD', 'Chicago Ohare Intl', 42.0, -87.9, -6), ('BOS', 'General Edward Lawrence Logan Intl', 42.4, -71.0, -5),
    ('SEA', 'Seattle Tacoma Intl', 47.4, -122.3, -8), ('HNL', 'Honolulu Intl', 21.3, -157.9, -10);
CREATE TABLE planes (tailnum TEXT PRIMARY KEY, year INTEGER, manufacturer TEXT, model TEXT, seats INTEGER);
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 299)
    INSERT INTO planes SELECT 'N' || (10000 + i), CASE WHEN i % 17 THEN 1985 + i % 28 END,
        CASE i % 3 WHEN 0 THEN 'BOEING' WHEN 1 THEN 'AIRBUS' ELSE 'EMBRAER' END, 'M-' || (i % 12), 50 + i % 9 * 40 FROM n;
CREATE TABLE flights (
    id INTEGER PRIMARY KEY, year INTEGER, month INTEGER, day INTEGER, dep_time INTEGER, sched_dep_time INTEGER,
    dep_delay INTEGER, arr_delay INTEGER, carrier TEXT REFERENCES airlines (carrier), flight INTEGER,
    tailnum TEXT REFERENCES planes (tailnum), origin TEXT REFERENCES airports (faa),
    dest TEXT REFERENCES airports (faa), air_time INTEGER, distance INTEGER, time_hour DATETIME
);
WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)
    INSERT INTO flights SELECT i + 1, 2013, 1 + i % 12, 1 + i / 12 % 28,
        CASE WHEN i % 43 THEN 500 + i * 7 % 1800 END, 500 + i * 7 % 1800,
        CASE WHEN i % 43 THEN (i * 31 % 190) - 20 END, CASE WHEN i % 43 THEN (i * 37 % 210) - 45 END,
        substr('UAAADLB6WNHA', 1 + 2 * (i * 5 % 6), 2), 100 + i * 13 % 900, 'N' || (10000 + i * 11 % 310),
        substr('JFKLGAEWR', 1 + 3 * (i / 7 % 3), 3), substr('LAXORDBOSSEAHNL', 1 + 3 * (i * 7 % 5), 3),
        CASE WHEN i % 43 THEN 40 + i * 17 % 380 END, 180 + i % 5 * 600,
        printf('2013-%02d-%02d %02d:00:00.000000', 1 + i % 12, 1 + i / 12 % 28, 5 + i % 18) FROM n;
"""
SCHEMA += f"CREATE TABLE sensors (id INTEGER PRIMARY KEY, {', '.join(_SENSORS)});\n"
SCHEMA += "INSERT INTO sensors (id, s001) VALUES (1, 20.5), (2, 21.5);\n"

_WORST = "SELECT carrier, avg(dep_delay) AS mean FROM flights GROUP BY carrier ORDER BY mean DESC"
_PER_MONTH = "SELECT month, count(*) AS n FROM flights GROUP BY month ORDER BY month"
_OF_UA = "SELECT * FROM flights WHERE carrier = 'UA' ORDER BY id"

TASKS = [
    Task(
        "How many flights are there?",
        "SELECT count(*) FROM flights",
        [tables(), sql("SELECT count(*) AS n FROM flights")],
    ),
    Task(
        "Which tables are about delays?",
        _WORST,
        [find("departure delay", "airline"), describe("flights"), sql(_WORST)],
    ),
    Task(
        "The full names of the airlines with the most flights.",
        "SELECT a.name, count(*) FROM flights f JOIN airlines a ON a.carrier = f.carrier GROUP BY a.name ORDER BY 2 DESC, 1",
        [
            describe("flights", "airlines"),
            sql(
                "SELECT a.name, count(*) AS n FROM flights f JOIN airlines a USING (carrier) GROUP BY a.name ORDER BY n DESC, a.name"
            ),
        ],
    ),
    Task(
        "The ten longest departure delays.",
        "SELECT id, dep_delay FROM flights WHERE dep_delay IS NOT NULL ORDER BY dep_delay DESC, id LIMIT 10",
        # A habit of SQL Server.
        [
            describe("flights"),
            sql(
                "SELECT TOP 10 id, dep_delay FROM flights WHERE dep_delay IS NOT NULL ORDER BY dep_delay DESC, id"
            ),
        ],
    ),
    Task(
        "All flights of United, and how many of them go to Boston.",
        "SELECT count(*) FROM flights WHERE carrier = 'UA' AND dest = 'BOS'",
        [sql(_OF_UA), ask(filters=[{"column": "dest", "op": "eq", "value": "BOS"}], aggregates=["count"])],
    ),
    Task(
        "Of these flights of United, the number for each destination.",
        "SELECT dest, count(*) FROM flights WHERE carrier = 'UA' GROUP BY dest ORDER BY dest",
        [sql(_OF_UA), ask(group_by="dest", aggregates="count")],
    ),
    Task(
        "The mean delay of United's flights by origin, the worst first.",
        "SELECT origin, avg(dep_delay) FROM flights WHERE carrier = 'UA' GROUP BY origin ORDER BY 2 DESC, 1",
        [
            sql(_OF_UA),
            ask(
                group_by=["Origin"],
                aggregates=[{"function": "mean", "column": "dep_delay", "as": "mean"}],
                order_by=[{"column": "mean", "order": "desc"}],
            ),
        ],
    ),
    Task(
        "Only the numbers and destinations of these, by destination.",
        "SELECT flight, dest FROM flights WHERE carrier = 'HA' ORDER BY dest, flight LIMIT 15",
        [
            sql("SELECT * FROM flights WHERE carrier = 'HA'"),
            refine(columns=["flight", "dest"], order_by=["dest", "flight"], limit=15),
        ],
    ),
    Task(
        "How many planes have more than 300 seats?",
        "SELECT count(*) FROM planes WHERE seats > 300",
        # The name of a table is taken for granted.
        [sql("SELECT count(*) AS n FROM plane WHERE seats > 300")],
    ),
    Task(
        "The mean arrival delay.",
        "SELECT avg(arr_delay) FROM flights",
        [sql("SELECT avg(arrival_delay) AS mean FROM flights")],
        choice="arr_delay",
    ),
    Task(
        "Flights by month.",
        "SELECT month, count(*) FROM flights GROUP BY month ORDER BY month",
        [sql(_PER_MONTH)],
    ),
    Task(
        "The month with the fewest flights.",
        "SELECT month, count(*) FROM flights GROUP BY month ORDER BY 2, 1 LIMIT 1",
        [sql(_PER_MONTH), ask(order_by=["n", "month"], limit=1)],
    ),
    Task(
        "How many flights were cancelled?",
        "SELECT count(*) FROM flights WHERE dep_time IS NULL",
        [
            describe("flights"),
            sql("SELECT * FROM flights"),
            ask(filters=[{"column": "dep_time", "op": "is_null", "value": True}], aggregates=["count"]),
        ],
    ),
    Task(
        "Flights of each day of January from JFK.",
        "SELECT day, count(*) FROM flights WHERE month = 1 AND origin = 'JFK' GROUP BY day ORDER BY day",
        [
            sql(
                "SELECT day, count(*) AS n FROM flights WHERE month = :month AND origin = :origin GROUP BY day ORDER BY day",
                parameters={"month": 1, "origin": "JFK"},
            )
        ],
    ),
    Task(
        "Which airports have no flights to them?",
        "SELECT faa FROM airports WHERE faa NOT IN (SELECT dest FROM flights) ORDER BY faa",
        [
            describe("airports"),
            sql("SELECT faa FROM airports WHERE faa NOT IN (SELECT dest FROM flights) ORDER BY faa"),
        ],
    ),
    Task(
        "Flights per quarter.",
        "SELECT '2013-01-01', count(*) FROM flights WHERE month < 4 UNION ALL SELECT '2013-04-01', count(*) FROM flights"
        " WHERE month BETWEEN 4 AND 6 UNION ALL SELECT '2013-07-01', count(*) FROM flights WHERE month BETWEEN 7 AND 9"
        " UNION ALL SELECT '2013-10-01', count(*) FROM flights WHERE month > 9",
        [
            sql("SELECT id, time_hour FROM flights"),
            ask(group_by=[{"column": "time_hour", "bucket": "quarter"}], aggregates=["count"]),
        ],
    ),
    Task(
        "Flights per month by their time.",
        "SELECT strftime('%Y-%m-01', time_hour), count(*) FROM flights GROUP BY 1 ORDER BY 1",
        # By instants themselves, each row would be a group.
        [
            sql("SELECT id, time_hour FROM flights WHERE id > 0"),
            ask(group_by=[{"column": "time_hour", "bucket": "Month"}], aggregates=["count"]),
        ],
    ),
    Task(
        "Flights per day of March.",
        "SELECT strftime('%Y-%m-%d', time_hour), count(*) FROM flights WHERE month = 3 GROUP BY 1 ORDER BY 1",
        [
            sql("SELECT id, time_hour FROM flights WHERE month = 3"),
            ask(group_by=["time_hour"], aggregates=["count"]),
        ],
    ),
    Task(
        "Give me all flights to Honolulu as a file.",
        "SELECT * FROM flights WHERE dest = 'HNL' ORDER BY id",
        [sql("SELECT * FROM flights WHERE dest = 'HNL' ORDER BY id")],
    ),
    Task(
        "How many flights are behind that link?",
        "SELECT count(*) FROM flights WHERE dest = 'HNL'",
        # The model has the page's address, and not the URI.
        [sql("SELECT * FROM flights WHERE dest = 'HNL'"), ask(aggregates=["count"], resource="LINK")],
    ),
    Task(
        "And with the address of the file?",
        "SELECT count(*) FROM flights WHERE dest = 'SEA'",
        [
            sql("SELECT * FROM flights WHERE dest = 'SEA'"),
            ask(aggregates=["count"], resource="LINK/rows?format=csv"),
        ],
    ),
    Task(
        "The median distance of flights from Newark.",
        "SELECT distance FROM (SELECT distance, row_number() OVER (ORDER BY distance) AS n, count(*) OVER () AS c FROM flights"
        " WHERE origin = 'EWR') WHERE n = (c + 1) / 2",
        [
            sql("SELECT distance FROM flights WHERE origin = 'EWR'"),
            ask(aggregates=[{"function": "median", "column": "Distance"}]),
        ],
    ),
    Task(
        "Which manufacturers have planes without a year?",
        "SELECT manufacturer, count(*) FROM planes WHERE year IS NULL GROUP BY manufacturer ORDER BY manufacturer",
        [
            find("aircraft manufacturer"),
            sql(
                "SELECT manufacturer, count(*) AS n FROM planes WHERE year IS NULL GROUP BY manufacturer ORDER BY manufacturer"
            ),
        ],
    ),
    Task(
        "The share of delayed flights of each carrier.",
        "SELECT carrier, round(100.0 * sum(dep_delay > 0) / count(*), 1) FROM flights GROUP BY carrier ORDER BY carrier",
        [
            sql(
                "SELECT carrier, round(100.0 * count(*) FILTER (WHERE dep_delay > 0) / count(*), 1) AS share FROM flights GROUP BY carrier ORDER BY carrier"
            )
        ],
    ),
    Task(
        "Flights with a plane that is not in the list.",
        "SELECT count(*) FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum WHERE p.tailnum IS NULL",
        [
            describe("flights", "planes"),
            sql(
                "SELECT count(*) AS n FROM flights f LEFT JOIN planes p ON p.tailnum = f.tailnum WHERE p.tailnum IS NULL"
            ),
        ],
    ),
    Task(
        "The years of the planes that fly for Delta.",
        "SELECT p.year, count(*) FROM flights f JOIN planes p ON p.tailnum = f.tailnum WHERE carrier = 'DL' GROUP BY 1 ORDER BY 1",
        # Both tables have a year.
        [
            sql(
                "SELECT year, count(*) AS n FROM flights f JOIN planes p ON p.tailnum = f.tailnum WHERE carrier = 'DL' GROUP BY p.year ORDER BY p.year"
            )
        ],
        choice="p.year",
    ),
    Task(
        "Flights between 600 and 700 from La Guardia, by carrier.",
        "SELECT carrier, count(*) FROM flights WHERE origin = 'LGA' AND sched_dep_time BETWEEN 600 AND 700 GROUP BY carrier ORDER BY carrier",
        [
            sql("SELECT * FROM flights WHERE origin = 'LGA'"),
            ask(
                filters=[{"column": "sched_dep_time", "op": "between", "value": [600, 700]}],
                group_by=["carrier"],
                aggregates=["count"],
            ),
        ],
    ),
    Task(
        "Flights that were early or very late, of JetBlue.",
        "SELECT count(*) FROM flights WHERE carrier = 'B6' AND (arr_delay < 0 OR arr_delay > 120)",
        [
            sql("SELECT * FROM flights WHERE carrier = 'B6'"),
            ask(
                filters=[
                    {
                        "or": [
                            {"column": "arr_delay", "op": "<", "value": 0},
                            {"column": "arr_delay", "op": ">", "value": "120"},
                        ]
                    }
                ],
                aggregates=["count"],
            ),
        ],
    ),
    Task(
        "Destinations with more than 500 flights of American.",
        "SELECT dest, count(*) FROM flights WHERE carrier = 'AA' GROUP BY dest HAVING count(*) > 500 ORDER BY dest",
        [
            sql("SELECT * FROM flights WHERE carrier = 'AA'"),
            ask(
                group_by=["dest"],
                aggregates=["count"],
                having=[{"column": "count", "op": "gt", "value": 500}],
            ),
        ],
    ),
    Task(
        "What is the longest flight in hours, and where to?",
        "SELECT dest, max(air_time) / 60.0 FROM flights GROUP BY dest ORDER BY 2 DESC, 1 LIMIT 1",
        [
            sql("SELECT dest, air_time FROM flights"),
            ask(
                sql="SELECT dest, max(air_time) / 60.0 AS hours FROM data GROUP BY dest ORDER BY hours DESC, dest LIMIT 1"
            ),
        ],
    ),
    Task(
        "Which sensors are there?",
        "SELECT * FROM sensors ORDER BY id",
        # 182 columns.
        [sql("SELECT * FROM Sensors ORDER BY id")],
    ),
    Task(
        "Flights of each month, by a habit of PostgreSQL.",
        "SELECT strftime('%Y-%m-01', time_hour), count(*) FROM flights GROUP BY 1 ORDER BY 1",
        [
            sql(
                "SELECT date_trunc('month', time_hour) AS m, count(*) AS n FROM flights GROUP BY 1 ORDER BY 1; -- by month"
            )
        ],
    ),
    Task(
        "Airlines that begin with a u.",
        "SELECT name FROM airlines WHERE name LIKE 'u%'",
        [sql("SELECT name FROM AIRLINES WHERE Name ILIKE 'u%'")],
    ),
    Task(
        "How would you find the flights of a plane?",
        "SELECT * FROM flights WHERE tailnum = 'N10011' ORDER BY id",
        [sql("EXPLAIN SELECT * FROM flights WHERE tailnum = 'N10011' ORDER BY id")],
    ),
    Task(
        "How many flights of United are there, asked with a mistake in the link?",
        "SELECT count(*) FROM flights WHERE carrier = 'UA'",
        [sql(_OF_UA), Call("query_result", {"resource": "LAST0", "aggregates": ["count"]})],
    ),
]
