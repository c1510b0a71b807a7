-- postgresql
SELECT cards.id, cards.number AS n 
FROM cards 
WHERE cards.number = %(number_1)s::VARCHAR ORDER BY cards.id
