-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id 
FROM people 
WHERE people.name = %(name_1)s::VARCHAR
