-- The users and databases of compose.yaml, made at the first start of its PostgreSQL. Neither user is a superuser.
-- reader may SELECT what postgres makes in shop; store owns the database dualsql, and reaches no other.
\set reader `cat /run/secrets/reader`
\set store `cat /run/secrets/store`
CREATE ROLE reader LOGIN PASSWORD :'reader';
CREATE ROLE store LOGIN PASSWORD :'store';
CREATE DATABASE shop;
CREATE DATABASE dualsql OWNER store;
REVOKE ALL ON DATABASE shop, dualsql, postgres FROM PUBLIC;
GRANT CONNECT ON DATABASE shop TO reader;
\connect shop
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO reader;
