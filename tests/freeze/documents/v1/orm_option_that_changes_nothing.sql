-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards
