-- postgresql
SELECT worker.name, cards.number 
FROM people AS worker JOIN cards ON worker.id = cards.person_id 
WHERE worker.name != %(name_1)s::VARCHAR
