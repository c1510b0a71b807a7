-- postgresql
SELECT people.id 
FROM people UNION ALL SELECT cards.id 
FROM cards
