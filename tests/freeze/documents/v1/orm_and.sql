-- postgresql
SELECT people.id 
FROM people JOIN cards ON people.id = cards.person_id AND cards.number != %(number_1)s::VARCHAR
