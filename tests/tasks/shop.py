"""Tasks over a shop of sixty tables in PostgreSQL that has grown for years.

Names in four styles and with capitals, three schemas with tables of one name, copies of old tables, codes without
their meaning, dates as texts, prices in cents, and foreign keys that lead from schema to schema.
"""

# ruff: noqa: E501 - queries are on one line, as a model writes them

from __future__ import annotations

from tests.tasks.playing import Call, Task, ask, describe, find, refine, sql, tables

_NOISE = [
    *(f"orders_{year}" for year in range(2016, 2024)),
    *(f"tmp_import_{number}" for number in range(1, 9)),
    *(f'"Kunden_{name}"' for name in ("ALT", "Backup", "neu2")),
    *(f"crm.campaign_{name}" for name in ("mail", "sms", "push", "stats")),
    *(f"hr.{name}" for name in ("staff", "absence", "salary_band", "training")),
    *(f"logs.{name}" for name in ("events", "jobs", "errors", "api_calls", "logins")),
    *(f"x_{name}" for name in ("map_country", "map_vat", "lock", "queue", "cache", "flags")),
]

SCHEMA = """
CREATE SCHEMA crm; CREATE SCHEMA hr; CREATE SCHEMA logs; CREATE SCHEMA sales;
CREATE TYPE sales.order_state AS ENUM ('new', 'paid', 'sent', 'back');
CREATE TABLE sales.customers (cust_id int PRIMARY KEY, "Name" text NOT NULL, country char(2), "isVIP" boolean,
    signup date, credit_cents int);
COMMENT ON TABLE sales.customers IS 'Who buys: the customers of today. crm.customers are leads';
COMMENT ON COLUMN sales.customers.credit_cents IS 'Credit limit in cents';
CREATE TABLE crm.customers (id int PRIMARY KEY, mail text, lead_score int, sales_cust_id int REFERENCES sales.customers);
CREATE TABLE sales.products (sku text PRIMARY KEY, title text, "Group Id" int, price_cents int, discontinued_on date);
CREATE TABLE public.product_groups (id int PRIMARY KEY, label text, parent_id int REFERENCES public.product_groups);
CREATE TABLE sales.orders (id int PRIMARY KEY, customer int NOT NULL REFERENCES sales.customers, "OrderDate" timestamp,
    state sales.order_state, ship_cd char(1), remark text);
COMMENT ON COLUMN sales.orders.ship_cd IS 'P post, C courier, S picked up in the shop';
CREATE TABLE public.orders (id int PRIMARY KEY, customer int, placed text);
COMMENT ON TABLE public.orders IS 'The shop system before 2018. Not used';
CREATE TABLE sales."OrderItems" (order_id int REFERENCES sales.orders, pos int, sku text REFERENCES sales.products,
    qty int, unit_cents int, PRIMARY KEY (order_id, pos));
CREATE TABLE sales.payments (id int PRIMARY KEY, order_id int REFERENCES sales.orders, paid_at timestamptz, amount numeric(12,2),
    method text);
CREATE TABLE sales.returns (id int PRIMARY KEY, order_id int, pos int, reason_cd int, returned date,
    FOREIGN KEY (order_id, pos) REFERENCES sales."OrderItems" (order_id, pos));
CREATE TABLE public.lkp_reason (cd int PRIMARY KEY, txt text);
CREATE TABLE public.warehouse (wh_no int PRIMARY KEY, city text, m2 int);
CREATE TABLE public.stock (wh_no int REFERENCES public.warehouse, sku text REFERENCES sales.products, on_hand int,
    PRIMARY KEY (wh_no, sku));
CREATE TABLE public.suppliers (supplier_id int PRIMARY KEY, "Supplier Name" text, iso text);
CREATE TABLE public.supplier_prices (supplier_id int REFERENCES public.suppliers, sku text REFERENCES sales.products,
    cents int, valid_from date);
CREATE TABLE crm.tickets (id bigint PRIMARY KEY, cust int REFERENCES sales.customers, opened timestamptz, closed timestamptz,
    prio smallint, tags text[], meta jsonb);
CREATE TABLE crm.ratings (sku text REFERENCES sales.products, cust int REFERENCES sales.customers, stars int, said text);
CREATE TABLE hr.employees (id int PRIMARY KEY, first text, last text, boss int REFERENCES hr.employees, hired date, wh_no int);
CREATE VIEW sales.v_revenue AS SELECT o.id AS order_id, o.customer, o."OrderDate", sum(i.qty * i.unit_cents) AS cents
    FROM sales.orders o JOIN sales."OrderItems" i ON i.order_id = o.id GROUP BY o.id;
COMMENT ON VIEW sales.v_revenue IS 'Revenue of each order in cents, returns included';
CREATE TABLE sales.vouchers (code text PRIMARY KEY, cents int, used_by int REFERENCES sales.orders);
CREATE TABLE sales.ship_costs (country char(2), ship_cd char(1), cents int, PRIMARY KEY (country, ship_cd));
CREATE TABLE public.fx (day date, cur char(3), rate numeric(12,6), PRIMARY KEY (day, cur));
CREATE TABLE public.calendar (d date PRIMARY KEY, is_holiday boolean);
INSERT INTO sales.customers SELECT n, 'Customer ' || n, (ARRAY['DE','US','FR','JP'])[1 + n % 4], n % 9 = 0,
    date '2019-01-01' + n, n * 500 FROM generate_series(1, 400) n;
INSERT INTO crm.customers SELECT n, 'lead' || n || '@example.com', n % 100, CASE WHEN n % 3 = 0 THEN n END
    FROM generate_series(1, 300) n;
INSERT INTO public.product_groups VALUES (1, 'All', NULL), (2, 'Tools', 1), (3, 'Toys', 1), (4, 'Saws', 2), (5, 'Dolls', 3);
INSERT INTO sales.products SELECT 'SKU-' || n, 'Product ' || n, 2 + n % 4, 199 + n * 37,
    CASE WHEN n % 11 = 0 THEN date '2024-06-30' END FROM generate_series(1, 120) n;
INSERT INTO sales.orders SELECT n, 1 + n * 7 % 400, timestamp '2024-01-01' + n * interval '3 hours',
    (ARRAY['new','paid','sent','back'])[1 + n % 4]::sales.order_state, (ARRAY['P','C','S'])[1 + n % 3],
    CASE WHEN n % 50 = 0 THEN 'gift' END FROM generate_series(1, 2400) n;
INSERT INTO public.orders SELECT n, n, '0' || (1 + n % 9) || '.03.2016' FROM generate_series(1, 50) n;
INSERT INTO sales."OrderItems" SELECT o, p, 'SKU-' || (1 + (o * 3 + p * 17) % 120), 1 + (o + p) % 4,
    199 + (1 + (o * 3 + p * 17) % 120) * 37 FROM generate_series(1, 2400) o, generate_series(1, 3) p;
INSERT INTO sales.payments SELECT n, n, timestamptz '2024-01-02 00:00+00' + n * interval '3 hours', n * 1.25,
    (ARRAY['card','transfer','cash'])[1 + n % 3] FROM generate_series(1, 2400) n WHERE n % 4 <> 0;
INSERT INTO sales.returns SELECT n, n * 6, 1 + n % 3, n % 5, date '2024-02-01' + n FROM generate_series(1, 300) n;
INSERT INTO public.lkp_reason VALUES (0, 'broken'), (1, 'too small'), (2, 'too large'), (3, 'late'), (4, 'other');
INSERT INTO public.warehouse VALUES (1, 'Hamburg', 900), (2, 'Lyon', 700), (3, 'Osaka', 400);
INSERT INTO public.stock SELECT w, 'SKU-' || n, (n * w * 13) % 60 FROM generate_series(1, 120) n, generate_series(1, 3) w;
INSERT INTO public.suppliers VALUES (1, 'Holz & Co', 'DE'), (2, 'Bois SA', 'FR'), (3, 'Moku KK', 'JP');
INSERT INTO public.supplier_prices SELECT 1 + n % 3, 'SKU-' || n, 100 + n * 20, date '2024-01-01' FROM generate_series(1, 120) n;
INSERT INTO crm.tickets SELECT n, 1 + n % 400, timestamptz '2024-03-01 08:00+00' + n * interval '1 hour',
    CASE WHEN n % 3 > 0 THEN timestamptz '2024-03-02 08:00+00' + n * interval '1 hour' END, n % 4,
    ARRAY[(ARRAY['late','broken','invoice'])[1 + n % 3]], jsonb_build_object('channel', (ARRAY['mail','phone'])[1 + n % 2])
    FROM generate_series(1, 500) n;
INSERT INTO crm.ratings SELECT 'SKU-' || (1 + n % 120), 1 + n % 400, 1 + n % 5, NULL FROM generate_series(1, 900) n;
INSERT INTO hr.employees SELECT n, 'First' || n, 'Last' || n, CASE WHEN n > 1 THEN n / 2 END, date '2015-01-01' + n * 30, 1 + n % 3
    FROM generate_series(1, 30) n;
INSERT INTO sales.vouchers SELECT 'V' || n, 500, CASE WHEN n % 2 = 0 THEN n END FROM generate_series(1, 80) n;
INSERT INTO sales.ship_costs VALUES ('DE','P',490), ('DE','C',990), ('US','P',1990), ('FR','P',790), ('JP','C',2990);
""" + "".join(f"CREATE TABLE {name} (id int PRIMARY KEY, payload text);\n" for name in _NOISE)

COUNT_OF_TABLES = """
SELECT count(*) FROM information_schema.tables
WHERE table_schema NOT IN ('information_schema', 'pg_catalog')
"""

_REVENUE = """
SELECT c.country, sum(v.cents) / 100.0 AS revenue FROM sales.v_revenue v JOIN sales.customers c ON c.cust_id = v.customer
GROUP BY c.country ORDER BY c.country
"""
_REASONS = """
SELECT l.txt, count(*) AS n FROM sales.returns r JOIN lkp_reason l ON l.cd = r.reason_cd GROUP BY l.txt ORDER BY n DESC, l.txt
"""
_BEST = """
SELECT p.title, sum(i.qty) AS sold FROM sales."OrderItems" i JOIN sales.products p ON p.sku = i.sku
GROUP BY p.title ORDER BY sold DESC, p.title LIMIT 5
"""
_ITEMS = 'SELECT i.*, o.state FROM sales."OrderItems" i JOIN sales.orders o ON o.id = i.order_id'

TASKS = [
    Task(
        "How many customers do we have?",
        "SELECT count(*) FROM sales.customers",
        [tables(schema_name="sales"), find("customers"), sql("SELECT count(*) AS n FROM sales.customers")],
    ),
    Task(
        "Customers of each country.",
        "SELECT country, count(*) FROM sales.customers GROUP BY country ORDER BY country",
        # Two schemas have the table.
        [
            describe("customers"),
            sql("SELECT country, count(*) AS n FROM sales.customers GROUP BY country ORDER BY country"),
        ],
    ),
    Task(
        "The revenue of each country.",
        _REVENUE,
        [find("revenue", "country"), describe("sales.v_revenue", "sales.customers"), sql(_REVENUE)],
    ),
    Task(
        "Why are things sent back?",
        _REASONS,
        [find("return reason"), describe("sales.returns", "lkp_reason"), sql(_REASONS)],
    ),
    Task(
        "The five products that sell best.",
        _BEST,
        [find("order items", "products"), describe("OrderItems", "products"), sql(_BEST)],
    ),
    Task(
        "The orders of 2024-02-01.",
        "SELECT id, customer FROM sales.orders WHERE \"OrderDate\"::date = '2024-02-01' ORDER BY id",
        # PostgreSQL itself would look for orderdate.
        [
            describe("sales.orders"),
            sql(
                "SELECT id, customer FROM sales.orders WHERE OrderDate >= '2024-02-01' AND OrderDate < '2024-02-02' ORDER BY id"
            ),
        ],
    ),
    Task(
        "Orders by state.",
        "SELECT state::text, count(*) FROM sales.orders GROUP BY state ORDER BY min(state)",
        [sql("SELECT * FROM sales.orders"), ask(group_by=["State"], aggregates=["count"])],
    ),
    Task(
        "How are orders shipped, in words?",
        "SELECT CASE ship_cd WHEN 'P' THEN 'post' WHEN 'C' THEN 'courier' ELSE 'shop' END, count(*) FROM sales.orders GROUP BY 1 ORDER BY 1",
        [
            describe("sales.orders"),
            sql(
                "SELECT CASE ship_cd WHEN 'P' THEN 'post' WHEN 'C' THEN 'courier' ELSE 'shop' END AS way, count(*) AS n FROM sales.orders GROUP BY way ORDER BY way"
            ),
        ],
    ),
    Task(
        "Orders of each month.",
        "SELECT date_trunc('month', \"OrderDate\")::date, count(*) FROM sales.orders GROUP BY 1 ORDER BY 1",
        [
            sql("SELECT id, OrderDate FROM sales.orders"),
            ask(group_by=[{"column": "orderdate", "bucket": "month"}], aggregates=["count"]),
        ],
    ),
    Task(
        "VIP customers by country.",
        'SELECT country, count(*) FROM sales.customers WHERE "isVIP" GROUP BY country ORDER BY country',
        [
            sql(
                "SELECT country, count(*) AS n FROM sales.customers WHERE isVIP GROUP BY country ORDER BY country"
            )
        ],
    ),
    Task(
        "The three largest credit limits, in euros.",
        'SELECT "Name", credit_cents / 100.0 FROM sales.customers ORDER BY credit_cents DESC LIMIT 3',
        [
            describe("sales.customers"),
            sql(
                "SELECT TOP 3 Name, credit_cents / 100.0 AS euros FROM sales.customers ORDER BY credit_cents DESC"
            ),
        ],
    ),
    Task(
        "Products by group, with the group's name.",
        'SELECT g.label, count(*) FROM sales.products p JOIN product_groups g ON g.id = p."Group Id" GROUP BY g.label ORDER BY g.label',
        [
            describe("products", "product_groups"),
            sql(
                'SELECT g.label, count(*) AS n FROM sales.products p JOIN product_groups g ON g.id = p."Group Id" GROUP BY g.label ORDER BY g.label'
            ),
        ],
    ),
    Task(
        "Which products are out of stock in Osaka?",
        "SELECT sku FROM stock s JOIN warehouse w USING (wh_no) WHERE city = 'Osaka' AND on_hand = 0 ORDER BY sku",
        [
            find("stock", "warehouse"),
            sql(
                "SELECT sku FROM stock s JOIN warehouse w USING (wh_no) WHERE city = 'Osaka' AND on_hand = 0 ORDER BY sku"
            ),
        ],
    ),
    Task(
        "All items of orders that came back, as a file.",
        f"{_ITEMS} WHERE o.state = 'back' ORDER BY i.order_id, i.pos",
        [describe("sales.OrderItems"), sql(f"{_ITEMS} WHERE o.state = 'back' ORDER BY i.order_id, i.pos")],
    ),
    Task(
        "Of all items, what was earned by state?",
        'SELECT o.state::text, sum(i.qty * i.unit_cents) FROM sales."OrderItems" i JOIN sales.orders o ON o.id = i.order_id GROUP BY 1 ORDER BY 1',
        [
            sql(_ITEMS),
            ask(
                sql="SELECT state, sum(qty * unit_cents) AS cents FROM data GROUP BY state ORDER BY CAST(state AS text)"
            ),
        ],
    ),
    Task(
        "How many of those were single pieces?",
        'SELECT count(*) FROM sales."OrderItems" WHERE qty = 1',
        [sql(_ITEMS), refine(filters=[{"column": "QTY", "op": "=", "value": 1}]), ask(aggregates=["count"])],
    ),
    Task(
        "Payments by method.",
        "SELECT method, count(*), sum(amount) FROM sales.payments GROUP BY method ORDER BY method",
        # The table is remembered without its schema.
        [
            sql(
                "SELECT method, count(*) AS n, sum(amount) AS total FROM payments GROUP BY method ORDER BY method"
            )
        ],
    ),
    Task(
        "Open tickets of the highest priority.",
        "SELECT count(*) FROM crm.tickets WHERE closed IS NULL AND prio = 0",
        [
            find("support tickets"),
            sql("SELECT * FROM crm.tickets WHERE closed IS NULL"),
            ask(filters=[{"column": "prio", "op": "eq", "value": "0"}], aggregates=["count"]),
        ],
    ),
    Task(
        "Tickets by channel.",
        "SELECT meta ->> 'channel', count(*) FROM crm.tickets GROUP BY 1 ORDER BY 1",
        [
            describe("tickets"),
            sql(
                "SELECT meta ->> 'channel' AS channel, count(*) AS n FROM crm.tickets GROUP BY channel ORDER BY channel"
            ),
        ],
    ),
    Task(
        "What was paid by card?",
        "SELECT sum(amount) FROM sales.payments WHERE method = 'card'",
        [sql('SELECT sum(amount) AS total FROM sales.payments WHERE method = "card"')],
    ),
    Task(
        "The orders with their remarks, a dash where there is none.",
        "SELECT id, coalesce(remark, '-') FROM sales.orders WHERE id BETWEEN 48 AND 52 ORDER BY id",
        [
            sql(
                "SELECT id, IFNULL(remark, '-') AS remark FROM sales.orders WHERE id BETWEEN 48 AND 52 ORDER BY id"
            )
        ],
    ),
    Task(
        "How long does a ticket take, in hours?",
        "SELECT avg(extract(epoch FROM closed - opened)) / 3600 FROM crm.tickets",
        [sql("SELECT avg(extract(epoch FROM closed - opened)) / 3600 AS hours FROM crm.tickets")],
    ),
    Task(
        "The rating of each product that nobody sells any more.",
        "SELECT r.sku, avg(r.stars) FROM crm.ratings r JOIN sales.products p ON p.sku = r.sku WHERE p.discontinued_on IS NOT NULL GROUP BY r.sku ORDER BY r.sku",
        [
            sql(
                "SELECT sku, avg(stars) AS stars FROM crm.ratings r JOIN sales.products p ON p.sku = r.sku WHERE p.discontinued_on IS NOT NULL GROUP BY r.sku ORDER BY r.sku"
            )
        ],
        choice="r.sku",
    ),
    Task(
        "The margin of the ten most expensive products.",
        "SELECT p.sku, p.price_cents - s.cents FROM sales.products p JOIN supplier_prices s ON s.sku = p.sku ORDER BY p.price_cents DESC LIMIT 10",
        [
            describe("products", "supplier_prices"),
            sql(
                "SELECT p.sku, p.price_cents - s.cents AS margin FROM sales.products p JOIN public.supplier_prices s ON s.sku = p.sku ORDER BY p.price_cents DESC LIMIT 10"
            ),
        ],
    ),
    Task(
        "Suppliers by name.",
        'SELECT "Supplier Name" FROM suppliers ORDER BY "Supplier Name"',
        [sql("SELECT supplier_name FROM suppliers ORDER BY supplier_name")],
        choice='"Supplier Name"',
    ),
    Task(
        "How many unused vouchers are there, and what are they worth?",
        "SELECT count(*), sum(cents) FROM sales.vouchers WHERE used_by IS NULL",
        [
            find("vouchers"),
            sql("SELECT * FROM sales.vouchers WHERE used_by IS NULL"),
            ask(aggregates=["count", {"function": "sum", "column": "cents"}]),
        ],
    ),
    Task(
        "The same for those that were used.",
        "SELECT count(*) FROM sales.vouchers WHERE used_by IS NOT NULL",
        [
            Call(
                "execute_query", {"sql": "SELECT count(*) AS n FROM sales.vouchers WHERE used_by IS NOT NULL"}
            )
        ],
    ),
    Task(
        "What is there about shipping costs?",
        "SELECT country, ship_cd, cents FROM sales.ship_costs ORDER BY country, ship_cd",
        # A habit of MySQL.
        [
            sql("SHOW TABLES"),
            sql("SELECT country, ship_cd, cents FROM sales.ship_costs ORDER BY country, ship_cd"),
        ],
    ),
    Task(
        "How many leads became customers?",
        "SELECT count(*) FROM crm.customers WHERE sales_cust_id IS NOT NULL",
        [
            describe("customers", schema_name="crm"),
            sql("SELECT count(sales_cust_id) AS n FROM crm.customers"),
        ],
    ),
    Task(
        "The days between order and payment, for each method.",
        "SELECT p.method, round(avg(extract(epoch FROM p.paid_at AT TIME ZONE 'UTC' - o.\"OrderDate\") / 86400), 2) FROM sales.payments p"
        " JOIN sales.orders o ON o.id = p.order_id GROUP BY p.method ORDER BY p.method",
        [
            describe("sales.payments", "sales.orders"),
            sql(
                "SELECT p.method, round(avg(extract(epoch FROM p.paid_at AT TIME ZONE 'UTC' - o.OrderDate) / 86400), 2) AS days"
                " FROM sales.payments p JOIN sales.orders o ON o.id = p.order_id GROUP BY p.method ORDER BY p.method"
            ),
        ],
    ),
    Task(
        "The reasons, by a habit of MySQL.",
        "SELECT cd, txt FROM lkp_reason ORDER BY cd",
        [sql("SELECT `cd`, `txt` FROM `lkp_reason` ORDER BY `cd`")],
    ),
    Task(
        "The third page of ten payments.",
        "SELECT id, amount FROM sales.payments ORDER BY id LIMIT 10 OFFSET 20",
        [sql("SELECT id, amount FROM sales.payments ORDER BY id LIMIT 20,10;")],
    ),
    Task(
        "How many items have been ordered?",
        'SELECT count(*) FROM sales."OrderItems"',
        [sql("SELECT COUNT(*) AS N FROM SALES.ORDERITEMS -- every line")],
    ),
    Task(
        "The cities of the warehouses.",
        "SELECT city FROM warehouse ORDER BY wh_no",
        [sql("```sql\nSELECT city\nFROM warehouse\nORDER BY wh_no\n```")],
    ),
    Task(
        "Customers whose name ends with 77.",
        "SELECT cust_id FROM sales.customers WHERE \"Name\" LIKE '%77' ORDER BY cust_id",
        [sql("SELECT CUST_ID FROM sales.Customers WHERE name ILIKE '%77' /* any case */ ORDER BY cust_id")],
    ),
]
