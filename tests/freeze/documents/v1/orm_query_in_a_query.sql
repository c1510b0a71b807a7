-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards 
WHERE cards.person_id IN (SELECT people.id 
FROM people)
