-- postgresql
SELECT people.name, count(cards.id) AS count_1 
FROM people JOIN cards ON people.id = cards.person_id GROUP BY people.name
