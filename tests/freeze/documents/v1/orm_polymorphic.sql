-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id, engineers.id AS id_1, engineers.language, people.level 
FROM people LEFT OUTER JOIN engineers ON people.id = engineers.id 
WHERE engineers.language = %(language_1)s::VARCHAR OR people.level > %(level_1)s::INTEGER
