"""Tables with every type that people keep, by engine. One row, and no value of it is NULL."""

POSTGRESQL = """
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE DOMAIN positive AS INTEGER CHECK (VALUE > 0);
CREATE TYPE pair AS (a INTEGER, b TEXT);
CREATE TABLE odd (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, m mood, ms mood[], d positive, p pair, pt POINT, x XML,
    j JSONB, t TSVECTOR, i INET, c CIDR, mac MACADDR, b BIT(3), vb VARBIT, r INT4RANGE, mr INT4MULTIRANGE,
    iv INTERVAL, mo MONEY, u UUID, ba BYTEA, a INTEGER[], tz TIMESTAMPTZ, ti TIME, o OID, reg REGCLASS, ch "char",
    bp BPCHAR(3), bx BOX, l PG_LSN);
INSERT INTO odd (
    m, ms, d, p, pt, x, j, t, i, c, mac, b, vb, r, mr, iv, mo, u, ba, a, tz, ti, o, reg, ch, bp, bx, l)
VALUES (
    'sad', '{ok}', 1, '(1,x)', '(1,2)', '<a/>', '{}', 'a b', '::1', '10.0.0.0/8', '08:00:2b:01:02:03', '101', '1',
    '[1,3)', '{[1,3)}', '1 day', 3, gen_random_uuid(), 'x', '{1}', now(), '10:00', 1, 'odd', 'a', 'abc',
    '(1,2),(3,4)', '0/0');
COMMENT ON TABLE odd IS 'Oddities';
COMMENT ON COLUMN odd.m IS 'How one feels'
"""

MARIADB = """
CREATE TABLE odd (
    id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT COMMENT 'Its number',
    m ENUM('sad', 'ok') COMMENT 'How one feels', s SET('a', 'b'), y YEAR, b BIT(3), j JSON, g POINT, t TINYINT(1),
    d DOUBLE, ts TIMESTAMP, ti TIME, bl BLOB, u UUID, i INET6, mt MEDIUMTEXT, de DECIMAL(20, 4)
) COMMENT 'Oddities';
INSERT INTO odd (m, s, y, b, j, g, t, d, ts, ti, bl, u, i, mt, de)
VALUES ('sad', 'a,b', 2025, b'101', '{}', POINT(1, 2), 1, 1e-12, now(), '10:00', 'x', uuid(), '::1', 'x', 1.5)
"""

SQLITE = """
CREATE TABLE odd (
    id INTEGER PRIMARY KEY, m, d DATE, dt DATETIME, t TIMESTAMP, b BOOLEAN, n NUMERIC, de DECIMAL(10, 2), r REAL,
    j JSON, bl BLOB, v VARCHAR(3), x STRANGE(1), ti TIME);
INSERT INTO odd VALUES (
    1, 'x', '2025-01-01', '2025-01-01 10:00:00', '2025-01-01 10:00:00.5', 1, 1.5, 1.25, 2.5, '{}', x'00ff', 'x', 'y',
    '10:00')
"""

PECULIAR = {"postgresql": POSTGRESQL, "mariadb": MARIADB, "sqlite": SQLITE}
