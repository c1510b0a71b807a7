-- postgresql
SELECT cards.id, cards.number 
FROM cards 
WHERE cards.id > %(id_1)s::INTEGER
