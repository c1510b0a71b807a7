-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards 
WHERE EXISTS (SELECT 1 
FROM people 
WHERE people.id = cards.person_id AND people.name = %(name_1)s::VARCHAR)
