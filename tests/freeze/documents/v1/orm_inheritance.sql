-- postgresql
SELECT engineers.id, people.id AS id_1, people.name, people.kind, people.boss_id, engineers.language 
FROM people JOIN engineers ON people.id = engineers.id 
WHERE engineers.language = %(language_1)s::VARCHAR
