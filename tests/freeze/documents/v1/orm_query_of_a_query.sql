-- postgresql
SELECT cards.id, (SELECT max(people.id) AS max_1 
FROM people) AS anon_1 
FROM cards
