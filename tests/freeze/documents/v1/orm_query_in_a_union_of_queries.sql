-- postgresql
SELECT cards.id, cards.number, cards.person_id 
FROM cards 
WHERE cards.person_id IN (SELECT anon_1.people_id 
FROM (SELECT people.id AS people_id 
FROM people UNION ALL SELECT people.id AS people_id 
FROM people 
WHERE people.id > %(id_1)s::INTEGER) AS anon_1)
