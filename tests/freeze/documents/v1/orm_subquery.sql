-- postgresql
SELECT p.name 
FROM (SELECT people.id AS id, people.name AS name 
FROM people) AS p
