-- postgresql
SELECT people.id, people.name, people.kind 
FROM people
