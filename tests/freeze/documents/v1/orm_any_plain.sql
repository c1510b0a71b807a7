-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id 
FROM people 
WHERE EXISTS (SELECT 1 
FROM cards 
WHERE people.id = cards.person_id AND cards.number = %(number_1)s::VARCHAR)
