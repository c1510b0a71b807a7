-- postgresql
SELECT anon_1.people_id 
FROM (SELECT people.id AS people_id 
FROM people UNION SELECT cards.id AS cards_id 
FROM cards) AS anon_1
