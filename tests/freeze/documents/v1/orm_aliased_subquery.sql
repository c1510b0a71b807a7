-- postgresql
SELECT anon_1.id, anon_1.number, anon_1.person_id 
FROM (SELECT cards.id AS id, cards.number AS number, cards.person_id AS person_id 
FROM cards 
WHERE cards.id > %(id_1)s::INTEGER) AS anon_1
