-- postgresql
SELECT people.id 
FROM people LEFT OUTER JOIN cards ON cards.person_id = people.id
