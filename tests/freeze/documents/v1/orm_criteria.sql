-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards 
WHERE cards.number != %(number_1)s::VARCHAR
