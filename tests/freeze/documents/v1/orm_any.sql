-- postgresql
SELECT people.id, people.name, people.kind, people.boss_id 
FROM people 
WHERE (EXISTS (SELECT 1 
FROM cards 
WHERE people.id = cards.person_id AND cards.number = %(number_1)s::VARCHAR)) AND NOT (EXISTS (SELECT 1 
FROM people AS people_1 
WHERE people_1.id = people.boss_id AND people_1.name = %(name_1)s::VARCHAR))
