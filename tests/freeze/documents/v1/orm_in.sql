-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards 
WHERE cards.person_id IN (SELECT engineers.id 
FROM people JOIN engineers ON people.id = engineers.id)
