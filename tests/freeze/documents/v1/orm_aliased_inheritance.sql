-- postgresql
SELECT anon_1.engineers_id, anon_1.people_id, anon_1.people_name, anon_1.people_kind, anon_1.people_boss_id, anon_1.engineers_language 
FROM (SELECT people.id AS people_id, people.name AS people_name, people.kind AS people_kind, people.boss_id AS people_boss_id, people.level AS people_level, engineers.id AS engineers_id, engineers.language AS engineers_language 
FROM people JOIN engineers ON people.id = engineers.id) AS anon_1
