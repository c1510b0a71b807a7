-- postgresql
SELECT cards.number 
FROM people JOIN cards ON people.id = cards.person_id
